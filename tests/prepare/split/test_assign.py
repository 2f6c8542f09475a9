"""Which split a component gets, on made-up groups."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from shardkit.digest import mix64
from shardkit.errors import ConfigError
from shardkit.prepare.split.assign import GREEDY_BELOW, Assignment, Division, assign, check_not_empty, fill, strictness
from shardkit.prepare.split.ledger import Ledger
from shardkit.store.schema import TABLES

SHARES = {"train": Fraction(8, 10), "val": Fraction(1, 10), "test": Fraction(1, 10)}
TRAIN, VAL, TEST = 0, 1, 2


def groups_of(sizes: list[int]) -> SimpleNamespace:
    """One key a component."""
    of_own = np.repeat(np.arange(len(sizes)), sizes)
    per_component = np.array([mix64(f"group {k}") for k in range(len(sizes))], np.uint64)
    first = np.array([int(np.argmax(of_own == k)) for k in range(len(sizes))], np.int64)
    rows = SimpleNamespace(
        keys=per_component[of_own], num_own=len(of_own), num_here=len(of_own), num_placed=len(of_own),
        ids=np.arange(1, len(of_own) + 1), times=np.empty(0, np.int64),
    )  # fmt: skip
    size = np.array(sizes, np.int64)
    return SimpleNamespace(
        of_own=of_own, of_row=of_own, first=first, rows=rows, size=size, declared=size, num=len(sizes)
    )


def ledger_of(groups: SimpleNamespace, placed: dict[int, int]) -> Ledger:
    """A ledger that has placed the key of some components."""
    pairs = sorted((int(groups.rows.keys[groups.first[c]]), split) for c, split in placed.items())
    return Ledger(
        table=TABLES["ledger"].empty_table(),
        keys=np.array([key for key, _ in pairs], np.uint64),
        splits=np.array([split for _, split in pairs], np.int64),
    )


def division(salt: str = "", *, exact: bool = False) -> Division:
    return Division(names=tuple(SHARES), shares=SHARES, salt=salt, exact=exact)


def place(sizes: list[int], placed: dict[int, int] | None = None, salt: str = "") -> Assignment:
    groups = groups_of(sizes)
    return assign(groups, ledger_of(groups, placed or {}), division(salt))


def shares_of(sizes: list[int], assignment: Assignment) -> list[int]:
    return [int(np.array(sizes)[assignment.of_component == k].sum()) for k in range(3)]


def test_many_groups_are_placed_by_hash_near_the_shares_asked():
    sizes = [1] * 5000
    assignment = place(sizes)
    assert assignment.method == "hash"
    train, val, test = shares_of(sizes, assignment)
    # Three standard deviations of a binomial with p = .1: 64 rows.
    assert abs(val - 500) < 64
    assert abs(test - 500) < 64
    assert train + val + test == 5000


def test_hashing_places_a_group_the_same_among_any_others():
    many, more = place([1] * 400), place([1] * 900)
    assert np.array_equal(many.of_component, more.of_component[:400])
    assert not np.array_equal(many.of_component, place([1] * 400, salt="other").of_component)


def test_few_groups_fill_the_shares():
    sizes = [3] * 20
    assignment = place(sizes)
    assert assignment.method == "greedy"
    assert shares_of(sizes, assignment) == [48, 6, 6]


@pytest.mark.parametrize("count", [GREEDY_BELOW - 1, GREEDY_BELOW])
def test_a_group_larger_than_a_splits_whole_share_goes_to_the_largest_split(count: int):
    sizes = [1] * (count - 1) + [200]
    assignment = place(sizes)
    assert assignment.method == ("greedy" if count < GREEDY_BELOW else "hash")
    assert assignment.of_component[-1] == TRAIN
    large = [place([1] * (count - 1) + [200], salt=str(salt)) for salt in range(8)]
    assert all(a.of_component[-1] == TRAIN for a in large)
    if count >= GREEDY_BELOW:
        assert any(len(a.oversized) for a in large), "no salt hashed it to a small split"


def test_greedy_serves_the_split_that_lacks_most_and_has_room():
    targets = [Fraction(16), Fraction(2), Fraction(2)]
    chosen, oversized = fill([2, 3, 1, 1, 1], [0, 0, 0], targets)
    assert chosen == [VAL, TRAIN, TEST, TRAIN, TRAIN]
    assert oversized == [1]


def test_a_component_that_does_not_fit_is_taken_where_it_brings_the_share_nearer():
    targets = [Fraction(16), Fraction(2), Fraction(10)]
    # The 6 would leave the last split 1 over, without it 5 are missing; the 4 would leave it 5 over, without it 1.
    chosen, _ = fill([5, 6, 4], [16, 2, 0], targets)
    assert chosen == [TEST, TEST, TRAIN]


@pytest.mark.parametrize("seed", range(5))
def test_exact_comes_as_near_to_the_shares_as_half_a_group(seed: int):
    sizes = np.random.default_rng(seed).integers(1, 6, 900).tolist()
    groups = groups_of(sizes)
    by_hash, exact = (
        assign(groups, ledger_of(groups, {}), division(str(seed), exact=exact)) for exact in (False, True)
    )
    assert (by_hash.method, exact.method) == ("hash", "greedy")
    total = sum(sizes)
    apart = [abs(got - share * total) for got, share in zip(shares_of(sizes, exact), SHARES.values(), strict=True)]
    assert max(apart[1:]) <= 2.5
    assert apart[0] <= 5
    hashed = shares_of(sizes, by_hash)
    assert max(abs(got - share * total) for got, share in zip(hashed, SHARES.values(), strict=True)) > 5, "not vacuous"


def test_what_was_placed_stays():
    placed = {0: TEST, 1: TRAIN, 2: VAL}
    assignment = place([5, 1, 1, *[1] * 300], placed)
    assert assignment.of_component[:3].tolist() == [TEST, TRAIN, VAL]
    assert len(assignment.excluded) == 0


def joined(placed: dict[int, int]) -> tuple[Assignment, np.ndarray]:
    """Two keys of three rows each that have become one component, beside 300 others."""
    groups = groups_of([3, 3, *[1] * 300])
    ledger = ledger_of(groups, placed)
    merged = groups_of([6, *[1] * 300])
    merged.rows.keys = groups.rows.keys
    return assign(merged, ledger, division()), merged.of_own


@pytest.mark.parametrize(
    ("one", "two", "winner", "left_out"),
    [
        (TRAIN, TEST, TEST, [0, 1, 2]),
        (TEST, TRAIN, TEST, [3, 4, 5]),
        (TRAIN, VAL, VAL, [0, 1, 2]),
        (VAL, TEST, TEST, [0, 1, 2]),
        (VAL, VAL, VAL, []),
    ],
)
def test_where_two_placed_groups_join_the_stricter_split_wins_and_rows_are_left_out_not_moved(
    one, two, winner, left_out
):
    assignment, _ = joined({0: one, 1: two})
    assert assignment.of_component[0] == winner
    assert assignment.excluded.tolist() == left_out


def test_a_new_group_follows_the_one_it_joins():
    assignment, _ = joined({1: VAL})
    assert assignment.of_component[0] == VAL
    assert len(assignment.excluded) == 0


def test_strictness_of_other_names_goes_by_share():
    shares = {"big": Fraction(6, 10), "small": Fraction(1, 10), "val": Fraction(2, 10), "test": Fraction(1, 10)}
    assert [tuple(shares)[k] for k in strictness(tuple(shares), shares)] == ["test", "val", "small", "big"]


def test_an_empty_split_is_refused_with_the_reason():
    groups = groups_of([20])
    with pytest.raises(ConfigError) as caught:
        check_not_empty({"train": 20, "val": 0, "test": 0}, SHARES, groups)
    assert caught.value.what == (
        "val, test would be empty: val asks for 2 examples, test asks for 2 examples, and of the 1 groups the smallest has 20"
    )
    assert "--allow-empty" in caught.value.hint
    check_not_empty({"train": 18, "val": 1, "test": 1}, SHARES, groups)
