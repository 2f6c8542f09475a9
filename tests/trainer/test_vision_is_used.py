"""The proof of benchmarks/bench_vision.py, in its full length."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.bench_vision import HELD_BACK, prove


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_right_picture_beats_a_permuted_one_on_words_never_trained_on(tmp_path: Path):
    begin = sum(os.times()[:4])
    proof = prove(tmp_path, pictures=3, steps=1500, seeds=3, threads=1)
    assert proof.figure.num_groups == HELD_BACK
    assert proof.holds, proof.figure
    # Reading, not just noticing: without the picture three letters out of twelve cost 1.86 nats a token.
    assert proof.figure.right < 1.5
    # Of the processor, its own and that of the stages it starts: on a busy machine a clock says nothing.
    assert sum(os.times()[:4]) - begin < 600
