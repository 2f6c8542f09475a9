"""A million sequences: what a restore costs, in processor time."""

import time

import numpy as np
import pytest

from shardkit.sequence.plan import Cursor, Mixture
from shardkit.sequence.plan.draw import Draw
from tests.sequence.plan.builders import make_lengths, make_plan

NUMBER = 1_000_000


@pytest.fixture(scope="module")
def many():
    random = np.random.default_rng(0)
    return make_lengths(
        np.clip(random.lognormal(6, 1, NUMBER), 2, 4096).astype(np.int64),
        keys=random.integers(0, 2**63, NUMBER),
        shard_rows=2000,
        sources=["ab"[code] for code in (np.arange(NUMBER) % 3 == 0).tolist()],
    )


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("mixed", [False, True])
def test_the_first_step_after_a_restore_takes_less_than_a_second(many, share, mixed):
    block = int(NUMBER * share) // 4096
    offset = block * 4096
    mixture = Mixture.of({"by": "token", "weights": {"a": 1, "b": 1}, "epoch": {"source": "a"}}) if mixed else None
    streams = (offset // 3, offset // 3) if mixed else (offset,)
    none = (0,) * len(streams)
    origin = Draw(passes=none, offsets=none, amounts=none)
    draw = Draw(passes=none, offsets=streams, amounts=(0, 0) if mixed else (0,))
    cursor = Cursor(epoch=0, step=block * 10, block=block, pack=3, draw=draw, origin=origin)

    started = time.process_time()
    plan = make_plan(many, mixture=mixture, max_tokens=4096, global_batch=8)
    plan.remember(cursor, 10**6)
    step = next(plan.steps(cursor))
    seconds = time.process_time() - started

    assert step.step == cursor.step
    assert seconds < 1
