"""Which rows belong together: connected components in numpy arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shardkit.prepare.dedup.keys import Keys, group_starts

Indices = npt.NDArray[np.int64]
Edges = tuple[Indices, Indices]


def components(size: int, edges: list[Edges]) -> Indices:
    """[size] the component of each node, numbered from 0 in the order of their smallest nodes.

        edges (0, 3) (3, 4)        nodes 0 1 2 3 4  ->  0 1 2 0 0

    Roots hook onto the smallest root that an edge leads them to, then every path is cut short; rounds go on until no
    edge joins two roots, so the result is complete whatever the shape.
    """
    root = np.arange(size)
    one = np.concatenate([edge[0] for edge in edges]) if edges else np.empty(0, np.int64)
    two = np.concatenate([edge[1] for edge in edges]) if edges else np.empty(0, np.int64)
    while True:
        left, right = root[one], root[two]
        apart = left != right
        if not apart.any():
            break
        one, two, left, right = one[apart], two[apart], left[apart], right[apart]
        np.minimum.at(root, np.maximum(left, right), np.minimum(left, right))
        while not np.array_equal(further := root[root], root):
            root = further
    return np.unique(root, return_inverse=True)[1].astype(np.int64)


def same_value(values: Keys, nodes: Indices) -> Edges:
    """Edges between nodes of equal value, each to the first of them; value 0 ties nothing."""
    order = np.argsort(values, kind="stable")
    order = order[np.searchsorted(values[order], 1) :]
    starts = group_starts(values[order])
    first = np.repeat(order[starts], np.diff(np.append(starts, len(order))))
    others = order != first
    return nodes[first[others]], nodes[order[others]]


def in_many_groups(values: Keys, groups: Indices, limit: int) -> Keys:
    """Values, ascending, that stand in more than `limit` different groups; group -1 does not count."""
    counted = groups >= 0
    values, groups = values[counted], groups[counted]
    order = np.lexsort((groups, values))
    values, groups = values[order], groups[order]
    first = np.ones(len(values), np.bool_)
    first[1:] = (values[1:] != values[:-1]) | (groups[1:] != groups[:-1])
    distinct, counts = np.unique(values[first], return_counts=True)
    frequent: Keys = distinct[counts > limit]
    return frequent
