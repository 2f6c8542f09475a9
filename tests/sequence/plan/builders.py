"""Lengths for plans, generated."""

import numpy as np

from shardkit.sequence.plan import Lengths, Plan, PlanSettings


def make_lengths(tokens, *, images=None, patches=None, sources=None, shard_rows=10, keys=None, supervised=None):
    """Lengths of sequences with these tokens; shards hold `shard_rows` each, all but one token is a text target."""
    tokens = np.asarray(tokens, np.int64)
    number = len(tokens)
    names = sorted(set(sources or ["one"] if number else []))
    if supervised is None:
        supervised = np.zeros((7, number), np.int64)
        supervised[1] = tokens - 1
    return Lengths(
        key=np.arange(number, dtype=np.uint64) * np.uint64(7919) if keys is None else np.asarray(keys, np.uint64),
        shard=(np.arange(number) // shard_rows).astype(np.int32),
        row=(np.arange(number) % shard_rows).astype(np.int32),
        tokens=tokens,
        images=np.zeros(number, np.int64) if images is None else np.asarray(images, np.int64),
        patches=np.zeros(number, np.int64) if patches is None else np.asarray(patches, np.int64),
        supervised=supervised,
        source=np.array([names.index(name) for name in sources or ["one"] * number], np.int32),
        sources=tuple(names),
    )


def random_lengths(number, *, seed=0, longest=100, sources=None, shard_rows=10):
    random = np.random.default_rng(seed)
    images = random.integers(0, 3, number)
    return make_lengths(
        random.integers(2, longest + 1, number),
        images=images,
        patches=images * 4,
        sources=sources and [sources[code] for code in random.integers(0, len(sources), number)],
        shard_rows=shard_rows,
        keys=random.integers(0, 2**63, number),
    )


def make_plan(lengths, *, mixture=None, rest=None, max_tokens=100, **settings):
    return Plan(
        lengths, PlanSettings(max_tokens=max_tokens, **settings), mixture=mixture, identity={"of": "a test"}, rest=rest
    )


def epoch_steps(plan, epoch):
    return list(plan.steps(plan.start(epoch)))


def members(steps):
    """Every sequence of some steps, in order."""
    return [index for step in steps for pack in step.packs for index in pack]
