"""Runs of objectives and the bytes that they stand for."""

from __future__ import annotations

from shardkit.sequence.objectives import spread


def test_runs_are_spread_to_a_byte_a_token() -> None:
    assert spread([{"objective": 0, "length": 2}, {"objective": 4, "length": 1}]) == b"\x00\x00\x04"
    assert spread([]) == b""
