"""Lists of labels as they are handed around: words by ICDAR and MMOCR 0.x, ArT and LSVT, PaddleOCR's lists called .json."""

from __future__ import annotations

import json

import pytest

from shardkit.errors import SourceError
from shardkit.prepare.ingest import IngestConfig, resolved
from tests.prepare.ingest.builders import picture
from tests.prepare.ingest.runs import Ingested


@pytest.fixture
def dump(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(1, 4):
        (folder / f"word_{number}.png").write_bytes(picture(number))
    (folder / "gt_1.jpg").write_bytes(picture(9, (40, 30), "JPEG"))
    return folder


def texts(got: Ingested) -> dict[str, str]:
    return {position: example.text for position, example in got.rows.items()}


def detected(path) -> str:
    return resolved(IngestConfig(format="auto", paths=(path,), output=None)).format


QUOTED = 'word_1.png, "Genaxis, Theatre"\r\nword_2.png,"say \\\\ \\"x\\""\r\n\r\nword_3.png, no quotes\r\n'


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_words_of_icdar_with_their_quotes(dump, tmp_path, mark):
    (dump / "gt.txt").write_bytes((mark + QUOTED).encode())
    assert detected(dump) == "ocr"
    got = Ingested(tmp_path / "out", "ocr", dump)
    assert texts(got) == {"1": "Genaxis, Theatre", "2": 'say \\ "x"'}
    assert got.exclusions == {"4": "bad_label"}


SPACED = "word_1.png Hello\nword_2.png 2020\nword_3.png two words\nword_4.png\n"


def test_lists_of_mmocr_0_are_read_where_they_are_asked_for(dump, tmp_path):
    (dump / "label.txt").write_bytes(SPACED.encode())
    got = Ingested(tmp_path / "out", "mmocr", dump / "label.txt")
    assert texts(got) == {"1": "Hello", "2": "2020", "3": "two words"}
    assert got.exclusions == {"4": "bad_label"}
    assert detected(dump) == "mmocr"
    assert texts(Ingested(tmp_path / "folder", "mmocr", dump)) == texts(got)
    (dump / "label.txt").write_bytes(b"word_1.png 12 7\nword_2.png 2020\n")
    assert detected(dump) == "paddleocr", "numbers alone are token ids"


ART = {
    "gt_1": [
        {
            "transcription": "\u4e2d",
            "points": [[1, 2], [9, 2], [9, 8], [1, 8]],
            "language": "Chinese",
            "illegibility": False,
        },
        {"transcription": "###", "points": [[0, 0], [3, 0], [3, 3]], "language": "Latin", "illegibility": True},
    ],
    "gt_2": [{"transcription": "absent", "points": [[0, 0], [1, 1]]}],
    "word_1": [{"transcription": "cropped", "language": "Latin", "illegibility": False}],
}


def test_art_names_pictures_by_their_stems(dump, tmp_path):
    (dump / "train_labels.json").write_bytes(json.dumps(ART, indent=1).encode())
    assert detected(dump) == "ocr"
    got = Ingested(tmp_path / "out", "ocr", dump)
    assert texts(got) == {"gt_1": "\u4e2d", "word_1": "cropped"}
    assert got.layout("gt_1") == [
        ("line", "\u4e2d", (1, 2, 9, 2, 9, 8, 1, 8), None, 0), ("line", None, (0, 0, 3, 0, 3, 3), None, 1),
    ]  # fmt: skip
    assert got.metadata("gt_1")["line_fields"] == [{"language": "Chinese"}, {"language": "Latin"}]
    assert got.exclusions == {"gt_2": "asset_missing"}
    assert got.changes["illegible_text"] == 1


def test_lines_of_pictures_that_are_named_whole(dump, tmp_path):
    (dump / "labels.json").write_bytes(json.dumps({"gt_1.jpg": ART["gt_1"][:1]}).encode())
    assert texts(Ingested(tmp_path / "out", "ocr", dump)) == {"gt_1.jpg": "\u4e2d"}


@pytest.mark.parametrize("entry", [["x"], [{"text": "a"}], [1, 2]])
def test_other_documents_of_lists_are_refused(dump, tmp_path, entry):
    (dump / "labels.json").write_bytes(json.dumps({"a": entry}).encode())
    with pytest.raises(SourceError, match="no list of lines with a transcription"):
        Ingested(tmp_path / "out", "ocr", dump / "labels.json")


FORM = {
    "height": 30, "width": 40,
    "ocr_info": [
        {"text": "Name", "label": "question", "bbox": [1, 2, 9, 8], "id": 0, "linking": [[0, 1]]},
        {"text": "Li", "label": "answer", "bbox": [10, 2, 19, 8], "id": 1, "linking": [[0, 1]]},
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", ["paddleocr", "ocr"])
@pytest.mark.parametrize("named", [True, False])
def test_lists_called_json(dump, tmp_path, kind, named):
    lines = ['[{"transcription": "a", "points": [[0, 0], [3, 0], [3, 2], [0, 2]], "label": "other"}]', json.dumps(FORM)]
    (dump / "train.json").write_bytes("".join(f"gt_1.jpg\t{line}\n" for line in lines).encode())
    assert detected(dump) == "paddleocr"
    got = Ingested(tmp_path / "out", kind, dump / "train.json" if named else dump)
    assert texts(got) == {"1": "a", "2": "Name\nLi"}
    assert got.metadata("1")["line_fields"] == [{"label": "other"}]
    assert got.layout("2") == [("line", "Name", (1, 2, 9, 8), None, 0), ("line", "Li", (10, 2, 19, 8), None, 1)]
    assert got.metadata("2")["line_fields"][1] == {"label": "answer", "id": 1, "linking": [[0, 1]]}


@pytest.mark.parametrize(
    ("form", "reason"),
    [({**FORM, "height": 31}, "image_sizes_wrong"), ({"ocr_info": {}}, "bad_label"), ({"ocr_info": [1]}, "bad_label")],
)
def test_a_form_that_is_none_is_excluded(dump, tmp_path, form, reason):
    (dump / "train.txt").write_bytes(f"gt_1.jpg\t{json.dumps(form)}\n".encode())
    assert Ingested(tmp_path / "out", "paddleocr", dump / "train.txt").exclusions == {"1": reason}


def test_a_newer_file_of_matlab_says_what_it_is(dump, tmp_path):
    pytest.importorskip("scipy")
    (dump / "gt.mat").write_bytes(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512, b"\0") + b"\x89HDF\r\n\x1a\n")
    with pytest.raises(SourceError, match=r"version 7\.3, which is HDF5") as error:
        Ingested(tmp_path / "out", "synthtext", dump / "gt.mat")
    assert "-v7" in error.value.hint
