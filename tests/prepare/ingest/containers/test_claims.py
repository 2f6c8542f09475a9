"""Which image a layout file belongs to, by what it says and where it lies."""

from __future__ import annotations

import pytest

from shardkit.prepare.ingest.containers.claims import by_reference
from shardkit.prepare.ingest.containers.pairs import Pair, pairs, part, plan
from shardkit.prepare.ingest.formats.layout_head import PEEKS, of_html, of_xml
from shardkit.prepare.ingest.units import InputFile
from tests.prepare.ingest.builders import input_file

LABELS = (".txt", ".alto.xml", ".xml", ".hocr", ".html")


def naming(image: str) -> bytes:
    return f'<PcGts><Page imageFilename="{image}"/></PcGts>'.encode()


def read(folder, files: dict[str, bytes]) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Stem -> (images, labels)."""
    listed = [input_file(folder, name, data) for name, data in files.items()]
    root = InputFile(name=".", path=str(folder), size=0)
    found: list[Pair] = []
    for piece in plan(listed, LABELS, root, max_bytes=10**9, peeks=PEEKS):
        found += pairs(piece, LABELS).pairs
    assert len({pair.stem for pair in found}) == len(found)
    return {pair.stem: (pair.images, tuple(name for _, name in pair.labels)) for pair in found}


def test_without_layout_files_stems_alone_count(tmp_path):
    assert read(tmp_path, {"a.png": b"", "a.txt": b"", "b/a.png": b""}) == {
        "a": (("a.png",), ("a.txt",)), "b/a": (("b/a.png",), ()),
    }  # fmt: skip


def test_the_image_that_a_layout_names_comes_before_its_stem(tmp_path):
    files = {"a.xml": naming("b.png"), "a.png": b"", "b.png": b""}
    assert read(tmp_path, files) == {"a": (("b.png",), ("a.xml",)), "a.png": (("a.png",), ())}


def test_one_image_may_have_several_layouts(tmp_path):
    files = {"r.xml": naming("img/p.tif"), "s.xml": naming("img/p.tif"), "img/p.tif": b""}
    assert read(tmp_path, files) == {"r": (("img/p.tif",), ("r.xml",)), "s": (("img/p.tif",), ("s.xml",))}


@pytest.mark.parametrize(
    "shown",
    ["0001.jpg", "img/0001.jpg", "C:\\\\scans\\\\0001.jpg", "/data/scans/0001.jpg", "../0001.jpg", "gone.jpg", "0001.tif", ""],
)  # fmt: skip
def test_layouts_in_a_folder_beside_the_images_join_them(tmp_path, shown):
    files = {"book/0001.jpg": b"", "book/page/0001.xml": naming(shown), "book/page/0001.txt": b""}
    assert read(tmp_path, files) == {"book/0001": (("book/0001.jpg",), ("book/page/0001.txt", "book/page/0001.xml"))}


def test_layouts_and_images_in_folders_beside_each_other(tmp_path):
    files = {"images/1.jpg": b"", "ALTO/1.xml": b"<alto/>", "page/1.xml": naming("images/1.jpg")}
    assert read(tmp_path, files) == {"images/1": (("images/1.jpg",), ("ALTO/1.xml", "page/1.xml"))}


def test_two_images_of_a_stem_in_folders_beside_are_both_shown(tmp_path):
    got = read(tmp_path, {"x/1.jpg": b"", "y/1.jpg": b"", "ALTO/1.xml": b"<alto/>"})
    assert got["ALTO/1"] == (("x/1.jpg", "y/1.jpg"), ("ALTO/1.xml",))


def test_of_images_beside_those_with_a_layout_of_their_own_are_no_choice(tmp_path):
    files = {"x/1.jpg": b"", "x/1.xml": b"<alto/>", "y/1.jpg": b"", "ALTO/1.xml": b"<alto/>"}
    assert read(tmp_path, files)["y/1"] == (("y/1.jpg",), ("ALTO/1.xml",))


@pytest.mark.parametrize("shown", ["", "1.tif"])
def test_documents_without_their_image_cost_no_more_than_their_number(tmp_path, shown):
    files = {f"{n:02}/1.xml": naming(shown) for n in range(40)} | {f"{n:02}/1.jpg": b"" for n in range(20)}
    listed = [input_file(tmp_path, name, data) for name, data in files.items()]
    known = [(*part(file.name, LABELS), file) for file in listed]
    assert len(by_reference(known, PEEKS)) == 60
    bare = {f"{n:02}/1.xml": naming(shown) for n in range(20)} | {f"{n}/1.jpg": b"" for n in range(100, 120)}
    known = [(*part(name, LABELS), input_file(tmp_path / "bare", name, data)) for name, data in bare.items()]
    assert len(by_reference(known, PEEKS)) == 40


def test_xml_and_html_of_other_kinds_are_no_labels_unless_an_image_shares_their_stem(tmp_path):
    files = {"mets.xml": b"<mets/>", "index.html": b"<html/>", "a.png": b"", "a.xml": b"<mets/>", "broken.xml": b""}
    assert read(tmp_path, files) == {"a": (("a.png",), ("a.xml",)), "broken": ((), ("broken.xml",))}


def test_no_listing_order_counts(tmp_path):
    files = {"a.xml": naming("b.png"), "b.xml": naming("a.png"), "a.png": b"", "b.png": b""}
    assert read(tmp_path / "1", files) == read(tmp_path / "2", dict(reversed(files.items())))


def test_heads_say_what_the_files_say():
    alto = b"<?xml version='1.0'?><!-- <PcGts> --><a:alto xmlns:a='u'><a:fileName> x &amp; y.png </a:fileName></a:alto>"
    assert of_xml(alto).images == ("x & y.png",)
    hocr = b"<html><div class='ocr_page' title='image \"a b.png\"; bbox 0 0 1 1'/><div title='image c.png' class=\"ocr_page\"/>"
    assert of_html(hocr).images == of_xml(hocr).images == ("a b.png", "c.png")
    assert of_html(b"<html>").is_other
    assert of_xml(b"<mets/>").is_other
    assert not of_xml(b"").is_other


def test_pipes_and_links_to_nowhere_are_not_waited_for(tmp_path):
    import os

    os.mkfifo(tmp_path / "a.xml")
    (tmp_path / "b.xml").symlink_to("gone.xml")
    files = [InputFile(name=name, path=str(tmp_path / name), size=-1) for name in ("a.xml", "b.xml")]
    known = [(*part(file.name, LABELS), file) for file in files]
    assert [stem for stem, _ in by_reference(known, PEEKS)] == ["a", "b"]


@pytest.mark.parametrize(
    "shown",
    ["a%201.png", "C:\\\\scans\\\\a 1.png", "file:///data/a 1.png", "a 1.tif", "../img/a 1.png", "scans/a%201.jp2"],
)
def test_a_name_is_looked_for_as_tools_write_it_also_in_folders_beside(tmp_path, shown):
    files = {"img/a 1.png": b"", "img/other.png": b"", "alto/x.xml": naming(shown)}
    got = read(tmp_path, files)
    assert got["alto/x"] == (("img/a 1.png",), ("alto/x.xml",))


def test_a_name_that_folders_beside_have_twice_leads_nowhere(tmp_path):
    got = read(tmp_path, {"one/a.png": b"", "two/a.png": b"", "alto/x.xml": naming("a.tif")})
    assert got["alto/x"] == ((), ("alto/x.xml",))


def test_a_record_takes_the_one_image_of_its_folder_whatever_it_is_called(tmp_path):
    record = b"<record><LTDLWOCR><ot>text</ot></LTDLWOCR></record>"
    files = {
        "a/aaa00a00/aaa00a00.xml": record, "a/aaa00a00/60008366.tif": b"", "a/aaa01a00/aaa01a00.xml": record,
        "a/aaa01a00/1.tif": b"", "a/aaa01a00/2.tif": b"", "b/x.xml": record, "b/y.xml": record, "b/z.tif": b"",
    }  # fmt: skip
    got = read(tmp_path, files)
    assert got["a/aaa00a00/aaa00a00"] == (("a/aaa00a00/60008366.tif",), ("a/aaa00a00/aaa00a00.xml",))
    assert got["a/aaa01a00/aaa01a00"] == ((), ("a/aaa01a00/aaa01a00.xml",))
    assert (got["b/x"][0], got["b/y"][0], got["b/z"]) == ((), (), (("b/z.tif",), ()))


def test_trees_of_equal_shape_join_by_the_one_name_that_differs(tmp_path):
    files = {
        "img/x/1.jpg": b"", "img/y/1.jpg": b"", "alto/x/1.xml": b"<alto/>", "alto/y/1.xml": b"<alto/>", "alto/z/1.xml": b"<alto/>",
    }  # fmt: skip
    assert read(tmp_path, files) == {
        "img/x/1": (("img/x/1.jpg",), ("alto/x/1.xml",)),
        "img/y/1": (("img/y/1.jpg",), ("alto/y/1.xml",)),
        "alto/z/1": ((), ("alto/z/1.xml",)),
    }
    two = {"img/x/1.jpg": b"", "big/x/1.jpg": b"", "alto/x/1.xml": b"<alto/>"}
    assert read(tmp_path / "two", two)["alto/x/1"] == ((), ("alto/x/1.xml",)), "which of two is not guessed"
