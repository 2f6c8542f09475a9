"""Tables of captions as they are handed around: Flickr8k's and Flickr30k's lists, tables called .txt, what Excel writes."""

from __future__ import annotations

import pytest

from shardkit.prepare.ingest import IngestConfig, resolved
from tests.prepare.ingest.builders import packed, picture
from tests.prepare.ingest.runs import Ingested

NAMES = ("1000_a.jpg", "1001_b.jpg")


@pytest.fixture
def dump(tmp_path):
    folder = tmp_path / "in"
    (folder / "Images").mkdir(parents=True)
    for number, name in enumerate(NAMES):
        (folder / "Images" / name).write_bytes(picture(number, kind="JPEG"))
    return folder


def captions(got: Ingested) -> dict[str, str]:
    return {position: example.text for position, example in got.rows.items()}


def ingested(dump, name: str, data: bytes, *paths, **settings) -> Ingested:
    (dump / name).write_bytes(data)
    where = paths or (dump,)
    settings.setdefault("images", (dump / "Images",))
    return Ingested(dump.parent / "out", "caption", *where, **settings)


@pytest.mark.parametrize("name", ["captions.txt", "Captions.TXT", "captions.csv"])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_a_table_with_a_header_called_txt(dump, name, ends):
    lines = [b"image,caption", b"1000_a.jpg,A dog .", b'1000_a.jpg,"A dog, again"', b"1001_b.jpg,A cat ."]
    got = ingested(dump, name, ends.join(lines))
    assert captions(got) == {"1": "A dog .", "2": "A dog, again", "3": "A cat ."}
    assert len({example.group for example in got.examples}) == 2


@pytest.mark.parametrize("name", ["Flickr8k.token.txt", "results_20130124.token", "tokens.tsv", "tokens.txt.gz"])
def test_images_with_the_numbers_of_their_captions(dump, name):
    data = b'1000_a.jpg#0\tA dog\tand "a cat" .\n1000_a.jpg#4\t two\nno tab\n1001_b.jpg\tno number\n1001_b.jpg#0\tA cat .\n'
    got = ingested(dump, name, packed(data) if name.endswith("gz") else data)
    assert captions(got) == {"1": 'A dog\tand "a cat" .', "2": " two", "5": "A cat ."}
    assert got.exclusions == {"3": "field_count", "4": "field_count"}
    assert got.metadata("2")["caption_number"] == "4"


def test_columns_parted_by_bars_have_a_space_before_each_that_is_no_text(dump):
    data = (
        b'image_name| comment_number| comment\n1000_a.jpg| 0| Two "young" men .\n1000_a.jpg| 1|  padded\n'
        b'1001_b.jpg| 4   A dog runs .\n1001_b.jpg| 0| "quoted" .\n'
    )
    got = ingested(dump, "results.csv", data)
    assert captions(got) == {"1": 'Two "young" men .', "2": " padded", "4": '"quoted" .'}
    assert got.exclusions == {"3": "field_count"}
    assert got.metadata("4")["comment_number"] == "0"


def test_bars_without_spaces_part_to_the_character(dump):
    got = ingested(dump, "t.csv", b"image|caption\n1000_a.jpg| A dog\n")
    assert captions(got) == {"1": " A dog"}


@pytest.mark.parametrize(("sign", "text"), [(";", "a, b"), ("\t", "a; b"), (",", "a; b"), ("|", "a, b")])
def test_a_first_line_may_name_the_delimiter(dump, sign, text):
    data = f"\ufeffsep={sign}\r\nimage{sign}caption\r\n1000_a.jpg{sign}{text}\r\n".encode()
    got = ingested(dump, "excel.csv", data)
    assert captions(got) == {"1": text}
    assert got.changes["separator_line"] == 1


def test_a_named_delimiter_without_a_header_line_behind_it(dump):
    data = b"sep=;\r\nhttps://host/a.jpg;A dog\r\n"
    got = ingested(dump, "excel.csv", data)
    assert got.exclusions == {"1": "asset_missing"}


def test_a_text_that_is_no_table_is_none(dump):
    (dump / "readme.txt").write_bytes(b"image, caption\nand what else belongs to them\n")
    got = ingested(dump, "captions.txt", b"image,caption\n1000_a.jpg,A dog\n")
    assert (captions(got), got.result.num_ignored) == ({"1": "A dog"}, 1)


def test_columns_of_a_text_file_can_be_named(dump):
    data = b"foto;words\n1000_a.jpg;A dog\n"
    got = ingested(dump, "list.txt", data, dump / "list.txt", fields={"image": "foto", "caption": "words"})
    assert captions(got) == {"1": "A dog"}


@pytest.mark.parametrize("data", [b"image,caption\n1000_a.jpg,A dog\n", b"1000_a.jpg#0\tA dog\n"])
def test_they_are_found_by_what_they_show(dump, data):
    (dump / "list.txt").write_bytes(data)
    assert resolved(IngestConfig(format="auto", paths=(dump,), output=None)).format == "caption"


@pytest.mark.parametrize("unit_size", [40, 90, 10**9])
def test_units_of_any_size_give_the_same_rows(dump, unit_size):
    data = b"sep=;\nimage;caption\n" + b"".join(b"1000_a.jpg;%d\n" % number for number in range(30))
    got = ingested(dump, "t.csv", data, unit_size=unit_size)
    assert captions(got) == {str(number + 1): str(number) for number in range(30)}


MAP = b'{"1000_a.jpg": "A dog", "1001_b.jpg": ["x", "", "y"], "gone.jpg": "z", "1000_a.JPG": {"caption": "n", "tags": [1], "path": "/old/p.jpg"}}'


def test_a_map_of_pictures(dump):
    got = ingested(dump, "captions.json", MAP)
    assert captions(got) == {"1000_a.jpg": "A dog", "1001_b.jpg": "xy"}
    assert got.exclusions == {"gone.jpg": "asset_missing", "1000_a.JPG": "asset_missing"}
    assert got.changes["caption_without_text"] == 1


def test_fields_of_a_map_are_metadata_and_it_is_found_by_its_captions(dump):
    got = ingested(dump, "meta.json", b'{"1000_a.jpg": {"caption": "n", "tags": [1], "path": "/old/p.jpg"}}')
    assert captions(got) == {"1000_a.jpg": "n"}
    assert got.metadata("1000_a.jpg") == {"tags": [1]}
    assert resolved(IngestConfig(format="auto", paths=(dump,), output=None)).format == "caption"


def test_a_tsv_that_quotes_its_whole_header_quotes(dump):
    got = ingested(dump, "t.tsv", b'"image"\t"caption"\n"1000_a.jpg"\t"say ""hi"",\ttwo\nlines"\n1001_b.jpg\tplain\n')
    assert captions(got) == {"1": 'say "hi",\ttwo\nlines', "2": "plain"}
