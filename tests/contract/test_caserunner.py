"""The evaluator itself: each expectation and each check can fail, and does where it must."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from PIL import Image

from tests.contract import casechecks
from tests.contract.caserunner import Outcome, Place, run_case

GOOD = {"text": "<image> a red one", "images": ["red.png"], "id": "007", "n": 7}
ROWS = [GOOD, {"text": "plain"}, {"text": 5}, {**GOOD}]


@pytest.fixture
def corpus(tmp_path) -> Path:
    """A corpus of one case: two equal rows with a picture, a text, a bad row."""
    files = tmp_path / "corpus" / "files" / "c"
    files.mkdir(parents=True)
    Image.new("RGB", (6, 4), (200, 0, 0)).save(files / "red.png")
    (files / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "corpus" / "faults.py").write_text(
        "def watched(folder): return {}\ndef seen(folder): return [], ['a connection']\n"
    )
    return tmp_path / "corpus"


def broken(corpus: Path, expect: dict, check: list[str] = [], place: str = "place") -> str:  # noqa: B006 - read only
    run = {"argv": ["ingest", "rows", "{case}/rows.jsonl", "-o", "{out}"]}
    case = {"id": "c", "expect": expect, "runs": [run], "check": check}
    return "\n".join(run_case(case, corpus, corpus.parent / place, corpus / "tokenizer"))


RIGHT = {
    "read": 4, "kept": 3, "set_aside": 1, "set_aside_at": [3], "kept_at": [1, "rows.jsonl:2"], "kept_min": 3, "kept_max": 3,
    "reasons": {"3": "wrong_type"}, "text": {"1": " a red one", "2": ["x", "plain"]}, "images": {"1": [[4, 6]], "2": []},
    "pixel": [["1", 0, 1, 2, [201, 0, 0], 3]], "metadata": {"1": {"id": ["007"], "n": ["7"]}}, "same_row": [[1, 4]],
    "kept_one_of": [[2, 3]], "says": ["WRONG_TYPE"], "holds": ["a red one"],
}  # fmt: skip


def test_what_is_right_is_not_broken(corpus):
    checks = [
        "traceback", "signal", "in-text:green", "in-output:green", "kept:2", "read:8", "nan", "utf8", "size", "written-outside",
        "changed-input", "leftover", "tail", "exif", "box-outside", "group-named:None", "long-message:2048", "exit-1",
    ]  # fmt: skip
    assert broken(corpus, RIGHT, checks[:-1]) == ""
    assert "no such check" in broken(corpus, RIGHT, ["exit-1"], "another")


@pytest.mark.parametrize(
    "expect",
    [
        {"exit": 4}, {"exit": [3, 4]}, {"refused": True}, {"read": 5}, {"kept": 4}, {"set_aside": 0}, {"kept_min": 4},
        {"kept_max": 2}, {"set_aside_at": [2]}, {"set_aside": 1, "set_aside_at": []}, {"kept_at": [3]},
        {"kept_one_of": [[1, 2]]}, {"reasons": {"3": "empty_text"}}, {"reasons": {"1": "empty_text"}},
        {"text": {"1": "a red one"}}, {"text": {"1": ["x", "y"]}}, {"images": {"1": [[6, 4]]}}, {"images": {"1": []}},
        {"pixel": [["1", 0, 1, 2, [196, 0, 0], 3]]}, {"boxes": {"1": [0, 0, 1, 1]}}, {"metadata": {"1": {"id": [7]}}},
        {"metadata": {"1": {"n": [True]}}}, {"metadata": {"2": {"id": ["007"]}}}, {"same_row": [[1, 2]]}, {"says": ["green"]},
        {"holds": ["green"]}, {"split_of": {"1": "train"}},
    ],
    ids=str,
)  # fmt: skip
def test_every_expectation_can_fail(corpus, expect):
    assert broken(corpus, expect)


@pytest.mark.parametrize(
    "check",
    [
        "exit-0", "in-message:kept", 'line:{"', "long-message:10", "mojibake:red", "in-text:plain", "in-output:plain", "kept:3",
        "read:4", "no-picture", "connection",
    ],
)  # fmt: skip
def test_checks_of_a_run_can_fail(corpus, check):
    assert repr(check) in broken(corpus, {}, [check])


def test_a_refusal_is_right_where_it_may_be_and_not_elsewhere(corpus):
    (corpus / "files" / "c" / "rows.jsonl").write_bytes('{"text": "x"}'.encode("utf-16"))
    assert broken(corpus, {"or_refused": True, "kept": 1, "says": ["utf-16"]}) == ""
    assert "exit is 4" in broken(corpus, {"kept": 1}, [], "another")


def picture(kind: str, **more) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (6, 4), (200, 0, 0)).save(out, kind, **more)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_bytes_behind_the_end_mark_are_seen(kind):
    data = picture(kind)
    assert casechecks._end(data) == len(data)
    assert casechecks._end(data + b"tail") == len(data)


def test_exif_beside_orientation_is_seen():
    exif = Image.Exif()
    exif[0x0112] = 6
    allowed = picture("JPEG", exif=exif)
    exif[0x010F] = "maker"
    rows = [
        type("Rows", (), {"examples": [type("E", (), {"images": [_image(data)]})()]})()
        for data in (allowed, picture("JPEG", exif=exif))
    ]
    assert casechecks._exif(rows[0], "") is None
    assert casechecks._exif(rows[1], "")


def _image(data: bytes) -> object:
    return type("I", (), {"data": data, "path": "x.jpg"})()


def test_files_that_were_opened_written_or_changed_are_seen(corpus, tmp_path):
    place = Place(root=tmp_path / "here", cases=corpus, case={"id": "c"}, tokenizer=corpus)
    secret = place.case_copy / "red.png"
    outcome = Outcome(
        argv=["x", "-o", str(place.work / "out")], code=0, out="", err="", seconds=0, opened=[str(secret.resolve())]
    )
    assert casechecks._opened(place, outcome, "red.png")
    assert not casechecks._opened(place, outcome, "rows.jsonl")
    before = casechecks.snapshot(place)
    (place.work / "out").mkdir()
    (place.work / "out" / "fine").write_text("inside the output")
    assert casechecks.evaluate(place, outcome, ["written-outside"], before, casechecks.snapshot(place)) == []
    for path in (place.work / "out-2", place.cwd / "x", place.case_copy / "y"):
        path.write_text("outside")
        assert str(path) in str(
            casechecks.evaluate(place, outcome, ["written-outside"], before, casechecks.snapshot(place))
        )
        path.unlink()
    secret.write_bytes(b"changed")
    assert "red.png" in str(casechecks.evaluate(place, outcome, ["changed-input"], before, casechecks.snapshot(place)))
