"""Digests of bytes, fingerprints of configs, and the one 64-bit mixer behind every random choice."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
import xxhash

_MASK = 0xFFFFFFFFFFFFFFFF


def sha256(data: bytes | memoryview) -> str:
    """sha256 of `data`, 64 hex digits: the identity of an asset."""
    return hashlib.sha256(data).hexdigest()


def xxh3(data: bytes | memoryview) -> str:
    """xxh3-128 of `data`, 32 hex digits: the fast key for joins and checks. It finds accidents, not attackers."""
    return xxhash.xxh3_128_hexdigest(data)


def canonical_json(value: Any) -> bytes:
    """The one JSON form of `value`: UTF-8, keys sorted, no spaces.

    Raises:
        TypeError: for what JSON cannot hold exactly (integers over 64 bits, lone surrogates, other types).
    """
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def fingerprint(config: Any) -> str:
    """xxh3-128 of a config's canonical JSON, 32 hex digits."""
    return xxh3(canonical_json(config))


def mix64(*parts: int | str | bytes) -> int:
    """A 64-bit integer that depends on every part and on nothing else: the only source of chance in shardkit.

    Parts are folded left to right through splitmix64's finalizer (Steele, Lea and Flood, 2014); text and bytes
    enter by their xxh3-64. The same on every platform, version and process.

        mix64(seed, epoch, example_id, "order")
    """
    state = 0x9E3779B97F4A7C15
    for part in parts:
        if isinstance(part, int):
            word = part & _MASK
        else:
            word = xxhash.xxh3_64_intdigest(part.encode() if isinstance(part, str) else part)
        state = _finalize((state ^ word) + 0x9E3779B97F4A7C15 & _MASK)
    return state


def _finalize(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return z ^ (z >> 31)
