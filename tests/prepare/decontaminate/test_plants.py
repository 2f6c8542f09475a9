"""The self-test finds what it plants, and fails where the workers are blind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shardkit.errors import IntegrityError
from shardkit.prepare.decontaminate import find, index, scan
from shardkit.prepare.decontaminate.config import SelfTest
from tests.prepare.builders import example
from tests.prepare.decontaminate.builders import decontaminate, jsonl, photo, words, write


def benchmark(path: Path) -> Path:
    rows: list[dict[str, object]] = [{"question": words(k, 30), "answer": "x"} for k in range(30)]
    rows += [{"question": f"Who is number {k}?", "answer": words(500 + k, 2)} for k in range(4)]
    rows += [{"context": words(900, 3)}]
    return jsonl(path, rows)


def with_pictures(path: Path) -> Path:
    for k in range(3):
        (path.parent / f"{k}.png").write_bytes(photo(k))
    return jsonl(path, [{"image": f"{k}.png"} for k in range(3)])


@pytest.mark.parametrize("workers", [1, 2])
def test_all_plants_are_found_and_leave_no_trace(tmp_path: Path, workers: int):
    write(tmp_path / "a", [example(words(3, 30)), example("else")])
    bench = benchmark(tmp_path / "quiz.jsonl")
    tested = decontaminate(tmp_path / "c", tmp_path / "a", bench, self_test=True, workers=workers)
    assert tested.self_test == SelfTest(planted=24, found=24)
    plain = decontaminate(tmp_path / "d", tmp_path / "a", bench)
    assert plain.self_test is None
    assert tested.dataset_id == plain.dataset_id
    assert tested.counts["excluded"] == 1


def test_pictures_are_planted_saved_again(tmp_path: Path):
    write(tmp_path / "a", [example("else")])
    bench = with_pictures(tmp_path / "shown.jsonl")
    assert decontaminate(None, tmp_path / "a", bench, self_test=True).self_test == SelfTest(planted=3, found=3)


def blind_to_ngrams(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = (np.empty(0, np.int64), np.empty(0, np.int64))
    monkeypatch.setattr(index.Sieve, "find", lambda self, values: nothing)


def blind_to_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_answered", lambda *given: False)


def blind_to_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "pictures_in", lambda *given: (np.empty(0, np.int64), np.empty(0, np.int64)))


@pytest.mark.parametrize(
    ("blind", "make", "missed"),
    [
        (
            blind_to_ngrams,
            benchmark,
            "24 known items were planted, 0 found; not found: text of quiz:1, text of quiz:2,",
        ),
        (
            blind_to_pairs,
            benchmark,
            "24 known items were planted, 20 found; not found: text of quiz:31, text of quiz:32,",
        ),
        (blind_to_pictures, with_pictures, "3 known items were planted, 0 found; not found: image of quiz:1,"),
    ],
)
def test_a_blind_matcher_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blind, make, missed: str):
    write(tmp_path / "a", [example("else")])
    bench = make(tmp_path / "quiz.jsonl")
    blind(monkeypatch)
    with pytest.raises(IntegrityError) as caught:
        decontaminate(tmp_path / "c", tmp_path / "a", bench, self_test=True)
    assert missed in caught.value.what
    assert caught.value.exit_code == 5
    assert not (tmp_path / "c").exists()
