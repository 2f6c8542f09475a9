"""Mixing: shares at every prefix, passes, ends of epochs."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from shardkit.digest import mix64
from shardkit.sequence.plan import Mixture, Rest
from shardkit.sequence.plan.draw import Draw, Streams
from shardkit.sequence.plan.mixer import mix64_array
from tests.sequence.plan.builders import epoch_steps, make_lengths, make_plan, members


def make_streams(lengths, mixture=None, **more):
    return Streams(lengths, Mixture.of(mixture) if mixture else None, seed=1, window=2, **more)


def draw_many(streams, count):
    """The indices of the first draws, with no end of an epoch."""
    endless = replace(streams.start(), passes=(10**9,) * len(streams.names))
    return streams.draw(streams.start(), count, origin=endless).indices


def draw_epoch(streams, start, count=16):
    """The indices of an epoch, drawn in blocks, and the draw after it."""
    drawn, before = [], start
    while True:
        block = streams.draw(before, count, origin=start)
        drawn += block.indices.tolist()
        before = block.after
        if block.last:
            return drawn, before


def sources_of(sizes):
    """Lengths with sources a, b, ... of the given token lists."""
    names = [name for name, tokens in zip("abcdefghij", sizes, strict=False) for _ in tokens]
    return make_lengths([size for tokens in sizes for size in tokens], sources=names)


@pytest.mark.parametrize("seed", range(30))
def test_shares_stay_within_one_sequence_of_the_target_at_every_prefix(seed):
    random = np.random.default_rng(seed)
    number = int(random.integers(2, 11))
    weights = random.choice([1, 1, 2, 3, 5, 20, 100, 1000], number).tolist()
    by = ["example", "token"][seed % 2]
    lengths = sources_of([random.integers(2, [11, 400, 4000][k % 3], 37).tolist() for k in range(number)])
    streams = make_streams(lengths, {"by": by, "weights": dict(zip("abcdefghij", weights, strict=False))})
    units = lengths.tokens if by == "token" else np.ones(len(lengths), np.int64)

    drawn = draw_many(streams, 3000)

    amounts = np.zeros((number, 3000), np.int64)
    amounts[lengths.source[drawn], np.arange(3000)] = units[drawn]
    amounts = amounts.cumsum(axis=1)
    targets = np.array([weights]).T / sum(weights) * amounts.sum(axis=0)
    assert np.abs(amounts - targets).max() <= units.max()
    assert (amounts[:, -1] > 0).sum() >= 2, "vacuous: nothing was mixed"


def test_largest_deficit_by_hand():
    # a is 3 of 4: it is drawn first, and b as soon as a would be ahead.
    lengths = sources_of([[5] * 12, [5] * 12])
    streams = make_streams(lengths, {"weights": {"a": 3, "b": 1}})

    drawn = draw_many(streams, 8)

    assert "".join(lengths.sources[code] for code in lengths.source[drawn]) == "abaaabaa"


def test_equal_token_shares_of_short_and_long_sequences():
    lengths = sources_of([[400] * 100, [4000] * 100])
    streams = make_streams(lengths, {"by": "token", "weights": {"a": 1, "b": 1}})

    drawn = draw_many(streams, 1100)

    counts = np.bincount(lengths.source[drawn]).tolist()
    assert counts == [1000, 100]


def test_an_epoch_ends_when_the_last_source_was_drawn_whole():
    lengths = sources_of([[5] * 10, [5] * 30])
    streams = make_streams(lengths, {"weights": {"a": 1, "b": 1}})

    first, after = draw_epoch(streams, streams.start())
    second, _ = draw_epoch(streams, after)

    for drawn in (first, second):
        counts = np.bincount(drawn, minlength=40)
        assert counts[10:].tolist() == [1] * 30, "the longest source is drawn exactly once"
        assert counts[:10].sum() in (29, 30, 31)
        assert counts[:10].min() >= 2
    assert first != second


def test_passes_of_a_source_follow_one_another_whole():
    lengths = sources_of([[5] * 7, [5] * 50])
    streams = make_streams(lengths, {"weights": {"a": 1, "b": 1}})

    drawn, _ = draw_epoch(streams, streams.start(), count=5)

    of_a = [index for index in drawn if index < 7]
    passes = [of_a[start : start + 7] for start in range(0, 42, 7)]
    assert all(sorted(one) == list(range(7)) for one in passes)
    assert len({tuple(one) for one in passes}) == 6, "each pass has an order of its own"


def test_an_epoch_can_end_with_one_source_or_with_tokens():
    lengths = sources_of([[5] * 10, [5] * 30])
    by_source = make_streams(lengths, {"weights": {"a": 1, "b": 1}, "epoch": {"source": "a"}})
    by_tokens = make_streams(lengths, {"weights": {"a": 1, "b": 1}, "epoch": {"tokens": 52}})

    drawn, after = draw_epoch(by_source, by_source.start())
    assert sorted(index for index in drawn if index < 10) == list(range(10))
    assert len(drawn) in (19, 20)
    again, _ = draw_epoch(by_source, after)
    assert sorted(index for index in again if index < 10) == list(range(10))

    first, after = draw_epoch(by_tokens, by_tokens.start())
    second, _ = draw_epoch(by_tokens, after)
    assert (len(first), len(second)) == (11, 11)


def test_block_size_changes_no_draw():
    lengths = sources_of([[5, 9, 2] * 5, [50, 1] * 20, [7] * 3])
    streams = make_streams(lengths, {"by": "token", "weights": {"a": 1, "b": 2, "c": 0.5}})

    drawn = [draw_epoch(streams, streams.start(), count=count) for count in (1, 7, 1000)]

    assert drawn[0] == drawn[1] == drawn[2]


def test_sequences_that_count_nothing_are_drawn_too():
    lengths = make_lengths([5] * 20, patches=[0, 3] * 10, sources=["a"] * 10 + ["b"] * 10)
    streams = make_streams(lengths, {"by": "media", "weights": {"a": 1, "b": 1}})

    drawn, _ = draw_epoch(streams, streams.start())

    assert set(drawn) == set(range(20))


def test_one_stream_is_one_pass_an_epoch():
    streams = make_streams(make_lengths([5] * 50))

    first, after = draw_epoch(streams, streams.start())

    assert sorted(first) == list(range(50))
    assert after == Draw(passes=(1,), offsets=(0,), amounts=(0,))


def make_rest(epoch, due, began, now):
    return Rest(epoch=epoch, step=1, due=np.asarray(due), began=began, now=now)


def test_what_was_delivered_before_is_left_out_of_the_first_pass_only():
    due = np.full(50, 3)
    due[::2] = 4
    streams = make_streams(make_lengths([5] * 50), rest=make_rest(3, due, (3,), (3,)))

    first, after = draw_epoch(streams, streams.start())
    second, _ = draw_epoch(streams, after)

    assert sorted(first) == list(range(1, 50, 2))
    assert sorted(second) == list(range(50))


def test_a_mixed_source_that_was_delivered_whole_begins_its_next_pass():
    lengths = sources_of([[5] * 4, [5] * 20])
    due = [3] * 14 + [2] * 10
    streams = make_streams(lengths, {"weights": {"a": 1, "b": 1}}, rest=make_rest(2, due, (2, 2), (3, 2)))

    assert streams.start().passes == (3, 2)
    assert streams.origin().passes == (2, 2)
    block = streams.draw(streams.start(), 100, origin=streams.origin())

    assert block.last
    assert sorted(index for index in block.indices.tolist() if index >= 4) == list(range(14, 24))


def test_a_draw_survives_json():
    draw = Draw(passes=(1, 2), offsets=(3, 4), amounts=(5, 6), tokens=7, stage=1, steps=8, packs=9)

    assert Draw.of(draw.to_json()) == draw


def test_weights_may_be_fractions_of_any_size():
    lengths = sources_of([[5] * 40, [5] * 40])
    streams = make_streams(lengths, {"weights": {"a": str(Fraction(10**12 + 1, 3)), "b": 0.3333333333333333e12}})

    drawn = draw_many(streams, 40)

    assert np.bincount(lengths.source[drawn]).tolist() == [20, 20]


# ---------------------------------------------------------------- curricula, limits
def cut_into(streams, count, **more):
    """The indices of an epoch drawn in blocks of `count`."""
    return draw_epoch(streams, streams.start(), count=count, **more)[0]


def test_a_curriculum_changes_shares_at_its_tokens_whatever_the_blocks():
    lengths = sources_of([[5] * 100, [5] * 100])
    mixture = {
        "weights": {"a": 1, "b": 0},
        "then": [
            {"from_tokens": 100, "weights": {"a": 1, "b": 1}},
            {"from_tokens": 202, "weights": {"a": 0, "b": 1}},
        ],
    }
    streams = make_streams(lengths, mixture)

    drawn = cut_into(streams, 1000)

    assert [cut_into(streams, count) for count in (1, 7, 33)] == [drawn] * 3
    sources = "".join("ab"[code] for code in lengths.source[drawn])
    # 20 sequences of 5 tokens, then 21 (the change comes behind the sequence that reaches 202 tokens), then b alone.
    assert sources[:20] == "a" * 20
    assert sources[20:41].count("a") in (10, 11)
    assert set(sources[41:]) == {"b"}
    assert sources.count("b") == 100


def test_shares_are_counted_anew_where_they_change():
    lengths = sources_of([[5] * 200, [5] * 200])
    mixture = {"weights": {"a": 9, "b": 1}, "then": [{"from_tokens": 500, "weights": {"a": 1, "b": 1}}]}

    drawn = draw_many(make_streams(lengths, mixture), 120)

    counts = np.bincount(lengths.source[drawn[100:]])
    assert counts.tolist() == [10, 10], "b does not catch up on what it lacked by the new shares"


def test_a_source_is_drawn_at_most_so_often_and_then_the_others_share():
    lengths = sources_of([[5] * 4, [5] * 10, [5] * 30])
    streams = make_streams(lengths, {"weights": {"a": 1, "b": 1, "c": 1}, "repeat": {"a": 2, "b": 1}})

    first, after = draw_epoch(streams, streams.start())
    second, end = draw_epoch(streams, after)

    times = np.bincount(first, minlength=44)
    assert times[:4].tolist() == [2] * 4
    assert times[4:14].tolist() == [1] * 10
    assert times[14:].tolist() == [1] * 30
    assert sorted(second) == list(range(14, 44))
    assert end.passes == (2, 1, 2)
    assert cut_into(streams, 3) == first


def test_when_all_sources_are_used_up_nothing_comes():
    lengths = sources_of([[5] * 4, [5] * 10])
    streams = make_streams(lengths, {"weights": {"a": 1, "b": 1}, "repeat": {"a": 1, "b": 1}})

    first, after = draw_epoch(streams, streams.start())
    second, _ = draw_epoch(streams, after)

    assert sorted(first) == list(range(14))
    assert second == []


@pytest.mark.parametrize("by", ["example", "token", "media", "loss", "compute"])
@pytest.mark.parametrize("seed", range(4))
def test_every_denominator_keeps_its_shares_at_every_prefix(by, seed):
    random = np.random.default_rng(seed)
    number = 240
    images = random.integers(0, 3, number)
    lengths = make_lengths(
        random.integers(2, 300, number),
        images=images,
        patches=images * 16,
        sources=["abc"[code] for code in random.integers(0, 3, number)],
        keys=random.integers(0, 2**63, number),
    )
    more = {"objectives": {"text": 2.5}} if by == "loss" else {}
    mixture = Mixture.of({"by": by, "weights": {"a": 5, "b": 2, "c": 1}, **more})
    streams = Streams(lengths, mixture, seed=seed, window=2)
    units = mixture.units(lengths)

    drawn = draw_many(streams, 2000)

    amounts = np.zeros((3, 2000), np.int64)
    amounts[lengths.source[drawn], np.arange(2000)] = units[drawn]
    amounts = amounts.cumsum(axis=1)
    targets = np.array([[5], [2], [1]]) / 8 * amounts.sum(axis=0)
    assert np.abs(amounts - targets).max() <= units.max()


# ---------------------------------------------------------------- alternatives
def with_alternatives(number, alternatives, windows):
    """Lengths of examples, each with so many alternatives of so many sequences."""
    rng = np.random.default_rng(3)
    examples = np.repeat(rng.integers(0, 2**63, number, dtype=np.uint64), alternatives * windows)
    alternative = np.tile(np.repeat(np.arange(alternatives), windows), number)
    period = np.full(len(examples), alternatives, np.int64)
    first = (mix64_array(mix64("alternatives"), examples) % np.uint64(alternatives)).astype(np.int64)
    plain = make_lengths([5] * len(examples), keys=rng.integers(0, 2**63, len(examples)))
    return replace(plain, period=period, turn=(alternative - first) % period, example=examples), alternative


@pytest.mark.parametrize("mixture", [None, {"weights": {"one": 1}}], ids=["one", "mixed"])
@pytest.mark.parametrize(("alternatives", "windows"), [(2, 1), (3, 2), (5, 1)])
def test_passes_take_turns_with_the_alternatives_of_each_example(alternatives, windows, mixture):
    lengths, alternative = with_alternatives(40, alternatives, windows)
    streams = make_streams(lengths, mixture)

    draw, seen = streams.start(), []
    for _ in range(2 * alternatives):
        drawn, draw = draw_epoch(streams, draw)
        assert len(drawn) == 40 * windows
        chosen = {}
        for index in drawn:
            chosen.setdefault(int(lengths.example[index]), set()).add(int(alternative[index]))
        assert len(chosen) == 40, "every example is in every pass"
        assert {len(of_one) for of_one in chosen.values()} == {1}, "all its windows are of one alternative"
        seen += drawn
    assert set(np.bincount(seen).tolist()) == {2}, "each is seen equally often"
    assert len({int(alternative[index]) for index in seen[: 40 * windows]}) > 1, "a pass has several alternatives"


def test_a_rest_knows_which_alternative_was_delivered():
    lengths, _ = with_alternatives(30, 3, 1)
    plan = make_plan(lengths, block=16)
    assert plan.num_steps(0) == plan.num_steps(1) == len(epoch_steps(plan, 2))
    steps = epoch_steps(plan, 1)
    rest = plan.rest_at(steps[0].after)

    after = make_plan(lengths, block=16, seed=5, rest=rest)

    assert sorted(members(steps[:1]) + members(epoch_steps(after, 1))) == sorted(members(steps))
    assert sorted(members(epoch_steps(after, 2))) == sorted(members(epoch_steps(plan, 2)))
