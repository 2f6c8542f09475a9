"""What is near to too many, and which ties a giant is told by."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from shardkit.errors import SourceError
from shardkit.prepare.split.groups import near_ties, near_to_many
from tests.prepare.builders import example, write
from tests.prepare.split.builders import split


def rows_of(groups: list[list[int]], near: list[tuple[int, int]]) -> SimpleNamespace:
    """Value k + 1 stands in the rows of groups[k]; -1 is a row without a declared group."""
    values = [k + 1 for k, own in enumerate(groups) for _ in own]
    declared = [group for own in groups for group in own]
    ends = np.array(near, np.uint64).reshape(-1, 2) + np.uint64(1)
    return SimpleNamespace(
        values=np.array(values, np.uint64), value_rows=np.arange(len(values)), declared=np.array(declared, np.int64),
        near=(ends[:, 0], ends[:, 1]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("groups", "near", "limit", "listed"),
    [
        # Drawn in the docstring: the middle one sees four groups.
        ([[1, 2], [3], [4]], [(0, 1), (1, 2)], 3, [0, 1, 2]),
        ([[1, 2], [3], [4]], [(0, 1), (1, 2)], 4, []),
        # A chain in which nobody sees more than three groups, however long it is.
        ([[k] for k in range(9)], [(k, k + 1) for k in range(8)], 3, []),
        # A hub: its spokes are copies of it, and so near to one another that they tie nothing either.
        ([[k] for k in range(6)], [(0, k) for k in range(1, 6)], 3, [0, 1, 2, 3, 4, 5]),
        # What is near to a spoke alone is not listed.
        ([[k] for k in range(7)], [*((0, k) for k in range(1, 6)), (5, 6)], 3, [0, 1, 2, 3, 4, 5]),
        # The same groups seen again, and groups that nobody declared, do not count.
        ([[1, 1, 1, -1], [1, 2, -1, -1], [2, 2]], [(0, 1), (1, 2)], 2, []),
        # One value in more groups than the limit is enough; without a near one there is nothing to list.
        ([[1, 2, 3, 4], [5], [6, 7, 8, 9]], [(0, 1)], 3, [0, 1]),
        ([[1], [2]], [], 1, []),
    ],
)
def test_what_is_near_to_too_many_groups(groups, near, limit, listed):
    rows = rows_of(groups, near)
    frequent = np.array([k + 1 for k, own in enumerate(groups) if len({g for g in own if g >= 0}) > limit], np.uint64)
    assert (near_to_many(rows, frequent, limit).astype(int) - 1).tolist() == listed


def test_a_pair_ties_unless_both_are_listed():
    rows = rows_of([[1], [2], [3]], [(0, 1), (1, 2)])
    one, two = near_ties(rows, np.array([1, 2], np.uint64))
    assert (one.tolist(), two.tolist()) == ([2], [3])


def test_a_giant_is_told_by_near_texts_too(tmp_path: Path):
    words = " ".join(f"word{k}" for k in range(40))
    rows = [example(f"row {k}", group=f"g{k % 3}") for k in range(1001)]
    rows += [example(f"{words} changed {k}", group=f"g{k}") for k in range(3)]
    write(tmp_path / "a", rows)
    with pytest.raises(SourceError) as caught:
        split(tmp_path / "a", None)
    assert caught.value.what.startswith(
        "1004 of 1004 examples (100.0%, the limit is 5.0%) and 3 declared groups hang together"
    )
    assert "tied by text word0 word1" in caught.value.what
    assert "near to 2 of other groups" in caught.value.what


def test_a_giant_is_told_by_parents_too(tmp_path: Path):
    rows = [example(f"row {k}", group=f"g{k % 2}") for k in range(1001)]
    rows += [example(f"of the same {k}", group=f"g{k}", of="ab" * 16) for k in range(2)]
    write(tmp_path / "a", rows)
    with pytest.raises(SourceError, match=r"they are tied by a parent in 2 groups \(1 such\)"):
        split(tmp_path / "a", None, parent_field="of")
