"""WebDataset tars: what is a sample, what is left out, what is refused."""

import pytest
import webdataset

from shardkit.errors import ConfigError, SourceError
from shardkit.loader.foreign import WebDatasetTars
from tests.loader.foreign.builders import delivered, make, picture, write_tar


def test_texts_may_be_a_field_of_json(tars):
    upper = make(WebDatasetTars(tars, text="json:caption"))
    assert len(delivered(upper)) > 0
    with pytest.raises(SourceError, match=r"none of 60 samples gives a sequence .*its member json gives no text"):
        make(WebDatasetTars(tars, text="json:nothing"))
    with pytest.raises(SourceError, match="the sample has no member caption"):
        make(WebDatasetTars(tars, text="caption"))


def test_a_tar_that_is_cut_or_damaged_is_refused(tars, tmp_path):
    whole = tars[0].read_bytes()
    for number, cut in enumerate((len(whole) // 2 // 512 * 512, 512 * 3, 700)):
        (tmp_path / f"{number}.tar").write_bytes(whole[:cut])
        with pytest.raises(SourceError, match=r"cut|cannot be read"):
            WebDatasetTars([tmp_path / f"{number}.tar"])
    header = whole.index(b"0010")
    damaged = bytearray(whole)
    damaged[header // 512 * 512 + 5] ^= 8
    (tmp_path / "flipped.tar").write_bytes(damaged)
    with pytest.raises(SourceError, match=r"damaged|cannot be read"):
        WebDatasetTars([tmp_path / "flipped.tar"])
    with pytest.raises(SourceError, match="no such tar"):
        WebDatasetTars([tmp_path / "absent.tar"])


def test_members_of_one_key_in_several_places_are_refused(tmp_path):
    with webdataset.TarWriter(str(tmp_path / "a.tar")) as writer:
        for name in ("one", "two"):
            writer.write({"__key__": name, "txt": name})
        writer.write({"__key__": "one", "jpg": picture(1, "JPEG")})
    with pytest.raises(SourceError, match="the members of the key 'one' lie in several places"):
        WebDatasetTars([tmp_path / "a.tar"])


def test_samples_that_lack_something_are_left_out_and_counted(tmp_path):
    shown = picture(1, "JPEG")
    tar = write_tar(
        tmp_path / "a.tar",
        [
            ("good.txt", b"a text"),
            ("good.gif", picture(2, "GIF")),
            ("without.jpg", shown),
            ("latin.txt", b"caf\xe9"),
            ("twice.jpg", shown),
            ("twice.jpg", picture(3, "JPEG")),
            ("twice.txt", b"two pictures of one name"),
            ("linked.jpg", tmp_path / "secret"),
            ("linked.txt", b"a link"),
        ],
    )

    loader = make(WebDatasetTars([tar]))

    assert [(batch.ids, len(batch.image_grid_thw)) for batch in loader] == [(("a.tar/good",), 1)]
    assert loader.excluded == {"no_text": 2, "unsafe_member": 2}


def test_pictures_come_by_their_numbers_and_no_number_is_too_long(tmp_path):
    shown = {name: picture(at, "JPEG") for at, name in enumerate(("10", "2", "9" * 5000, "x"))}
    tar = write_tar(tmp_path / "a.tar", [("k.txt", b"a"), *((f"k.{name}.jpg", data) for name, data in shown.items())])
    images = WebDatasetTars([tar]).sample(0, 0).images
    assert [bytes(image) for image in images] == [shown[name] for name in ("9" * 5000, "x", "2", "10")]


def test_a_field_that_is_no_text_is_none(tmp_path):
    values = [b'{"caption": "a text"}', b'{"caption": null}', b'{"caption": 5}', b"[" * 100_000, b'{"other": "a"}']
    tar = write_tar(tmp_path / "a.tar", [(f"{number}.json", data) for number, data in enumerate(values)])
    loader = make(WebDatasetTars([tar], text="json:caption"))
    assert [batch.ids for batch in loader] == [("a.tar/0",)]
    assert loader.excluded == {"no_text": 4}


def test_tars_of_one_name_keep_their_samples_apart(tmp_path):
    paths = []
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        paths.append(write_tar(tmp_path / folder / "0.tar", [("0.txt", folder.encode() * 3)]))
    assert sorted(one for batch in make(WebDatasetTars(paths)) for one in batch.ids) == ["x/0.tar/0", "y/0.tar/0"]


def test_a_member_of_negative_size_is_damage_and_no_endless_loop(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("0.txt", b"a text")])
    header = bytearray(path.read_bytes())
    header[124:136] = (-512 % (1 << 96)).to_bytes(12, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    path.write_bytes(header)
    with pytest.raises(SourceError, match="a negative or impossible size"):
        WebDatasetTars([path])


@pytest.mark.parametrize("paths", ["pairs.tar", []])
def test_paths_are_a_list(paths):
    with pytest.raises(ConfigError, match="not a list of paths"):
        WebDatasetTars(paths)


def test_a_png_that_is_cut_is_left_out_by_the_first_pass(tmp_path):
    data = picture(1, "PNG")
    images = {"0": data, "1": data[: len(data) // 2], "2": data[:60] + b"\0" + data[61:]}
    members = [part for key, image in images.items() for part in ((f"{key}.png", image), (f"{key}.txt", b"words"))]

    with make(WebDatasetTars([write_tar(tmp_path / "pairs.tar", members)])) as loader:
        assert sum(loader.excluded.values()) == 2
        assert len(delivered(loader)) == 1
