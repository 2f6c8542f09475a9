from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shardkit.prepare.components import components, in_many_groups, same_value


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_components_are_numbered_by_their_smallest_nodes():
    assert components(5, [(ints(0, 3), ints(3, 4))]).tolist() == [0, 1, 2, 0, 0]
    assert components(3, []).tolist() == [0, 1, 2]
    assert components(0, []).tolist() == []


@given(
    st.integers(1, 14).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))))
    )
)
def test_as_a_walk_over_the_edges_finds_them(graph: tuple[int, list[tuple[int, int]]]):
    size, edges = graph
    near: dict[int, set[int]] = {node: {node} for node in range(size)}
    for one, two in edges:
        near[one].add(two)
        near[two].add(one)
    expected: dict[int, int] = {}
    for node in range(size):
        waiting = [node] if node not in expected else []
        number = len(set(expected.values()))
        while waiting:
            found = waiting.pop()
            if found not in expected:
                expected[found] = number
                waiting += near[found]
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    assert components(size, [(pairs[:, 0], pairs[:, 1])]).tolist() == [expected[node] for node in range(size)]


def test_a_long_path_is_one_component_in_any_order_of_its_nodes():
    size = 100_000
    nodes = np.random.default_rng(7).permutation(size)
    assert components(size, [(nodes[:-1], nodes[1:])]).max() == 0
    assert components(size, [(nodes[:-2], nodes[1:-1])]).max() == 1


def test_equal_values_tie_each_node_to_the_first_and_zero_ties_nothing():
    values = np.array([5, 0, 5, 9, 0, 5], np.uint64)
    one, two = same_value(values, ints(10, 11, 12, 13, 14, 15))
    assert list(zip(one.tolist(), two.tolist(), strict=True)) == [(10, 12), (10, 15)]


def test_frequent_is_what_stands_in_more_different_groups_than_the_limit():
    values = np.array([1, 1, 1, 2, 2, 2, 3, 3, 3], np.uint64)
    groups = ints(0, 1, 2, 0, 0, 1, 0, -1, -1)
    assert in_many_groups(values, groups, 2).tolist() == [1]
    assert in_many_groups(values, groups, 1).tolist() == [1, 2]
    assert in_many_groups(values[:0], groups[:0], 1).tolist() == []
