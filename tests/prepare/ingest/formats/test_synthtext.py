"""SynthText: cells of words and corners, read through scipy."""

from __future__ import annotations

import sys

import pytest

from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.ingest.formats import synthtext
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest import generate_synthtext
from tests.prepare.ingest.builders import config, reader, record
from tests.prepare.ingest.runs import Ingested


@pytest.mark.parametrize("kind", ["synthtext", "ocr"])
def test_twenty_pictures_of_which_one_is_broken(tmp_path, kind):
    generate_synthtext.write(tmp_path / "in", 20)
    got = Ingested(tmp_path / "out", kind, tmp_path / "in")
    assert got.counts == (20, 19, 1)
    assert got.exclusions == {str(generate_synthtext.BROKEN + 1): "bad_label"}
    # Of one word, and of four in three lines.
    assert got.layout("1") == [
        ("line", "w0", (), None, 0),
        ("word", "w0", (2.0, 4.0, 14.0, 4.0, 14.0, 14.0, 2.0, 14.0), 0, 0),
    ]
    assert got.rows["3"].text == "w2\ntwo\nlines\nlast"
    assert got.layout("3")[-1] == ("word", "last", (44.0, 4.0, 56.0, 4.0, 56.0, 14.0, 44.0, 14.0), 6, 3)
    assert got.metadata("3") == {"image": "2/picture_2.jpg"}


def test_without_scipy_the_extra_is_named(tmp_path, monkeypatch):
    generate_synthtext.write(tmp_path / "in", 2)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(ConfigError, match="scipy") as error:
        Ingested(tmp_path / "out", "synthtext", tmp_path / "in")
    assert "shardkit[mat]" in error.value.hint


def test_a_file_that_is_none_or_is_cut_is_refused(tmp_path):
    generate_synthtext.write(tmp_path / "in", 4)
    path = tmp_path / "in" / "gt.mat"
    whole = path.read_bytes()
    for data in (b"\x89HDF\r\n" + bytes(200), whole[: len(whole) // 2], whole[:140]):
        path.write_bytes(data)
        with pytest.raises(SourceError, match=r"gt\.mat"):
            Ingested(tmp_path / "out", "synthtext", path)


@pytest.mark.parametrize(
    "changed",
    [
        {"wordBB": [[1, 2, 3, 4]]},
        {"wordBB": [[[1], [2], [3], [4]], [[1], [2], [3], [4, 5]]]},
        {"wordBB": [[float("nan"), 2, 3, 4], [1, 2, 3, 4]]},
        {"txt": "two words"},
        {"txt": [3]},
        {"imnames": []},
    ],
)
def test_an_entry_that_is_not_what_it_must_be_is_excluded(tmp_path, changed):
    value = {"imnames": ["a.jpg"], "wordBB": [[1, 9, 9, 1], [1, 1, 9, 9]], "txt": ["word"]} | changed
    with pytest.raises(Bad):
        list(synthtext.drafts(record(value), config(format="synthtext"), reader(tmp_path)))
