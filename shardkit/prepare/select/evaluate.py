"""A condition over columns, by pyarrow's kernels, with the logic of SQL: what is not known makes no condition hold.

lines       one an image, and one with nulls for an example without images
judged      1 holds, 0 does not, -1 cannot be told
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.errors import ConfigError
from shardkit.prepare.select.tree import Node

Judged = npt.NDArray[np.int8]

_COMPARE: dict[str, Callable[..., pa.Array]] = {
    "==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
_ARITHMETIC: dict[str, Callable[..., pa.Array]] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Lines:
    """What a condition is asked of: L lines of n examples."""

    columns: Mapping[tuple[str, ...], pa.Array]
    """[L] by the name that a bound condition has for it."""
    starts: npt.NDArray[np.int64]
    """[n] the first line of each example; every example has one."""
    num_lines: int
    images: npt.NDArray[np.bool_]
    """[L] whether the line is of an image."""


def judge(part: Node, lines: Lines) -> Judged:
    """[n] whether a part of the condition holds of every image of each example."""
    return _over(np.minimum, _ordered(_evaluate(part, lines)), lines)


def _over(reduce: np.ufunc, values: npt.NDArray[np.int8], lines: Lines) -> Judged:
    """Reduce lines to examples. 0 no, 1 not known, 2 yes: so that `and` is the minimum and `or` the maximum."""
    if not lines.num_lines:
        return np.empty(0, np.int8)
    by_example = reduce.reduceat(values, lines.starts)
    return np.array([0, -1, 1], np.int8)[by_example]


def _ordered(truth: pa.Array) -> npt.NDArray[np.int8]:
    known = np.asarray(pc.fill_null(truth, False).to_numpy(zero_copy_only=False), np.int8) * 2
    known[np.asarray(truth.is_null().to_numpy(zero_copy_only=False))] = 1
    return known


def _evaluate(node: Node, lines: Lines) -> pa.Array:
    """[L] values of a node, null where they are not known. As deep as the condition, which is bounded."""
    if node.kind == "literal":
        return pa.repeat(pa.scalar(node.value), lines.num_lines)
    if node.kind == "name":
        return lines.columns[node.value]
    if node.kind in ("any", "all"):
        return _quantified(node, lines)
    if node.kind == "in":
        return _among(node, lines)
    first = _evaluate(node.parts[0], lines)
    if node.kind in ("and", "or"):
        combine = pc.and_kleene if node.kind == "and" else pc.or_kleene
        for part in node.parts[1:]:
            first = combine(first, _evaluate(part, lines))
        return first
    if node.kind == "not":
        return pc.invert(first)
    if node.kind == "negative":
        return pc.negate(first)
    if node.kind == "compare":
        return _COMPARE[node.value](first, _evaluate(node.parts[1], lines))
    if node.kind == "arithmetic":
        result = _ARITHMETIC[node.value](first, _evaluate(node.parts[1], lines))
        return pc.if_else(pc.is_finite(result), result, pa.scalar(None, pa.float64()))  # no number: a share of nothing
    if node.kind == "is_null":
        return first.is_null() if node.value else first.is_valid()
    found = _matched(node.kind, first, node.parts[1].value)
    return found if node.value else pc.invert(found)


def check_pattern(kind: str, pattern: str) -> None:
    """Refuse what is no pattern before a row is read.

    Raises:
        ConfigError: with what is wrong.
    """
    try:
        _matched(kind, pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        raise ConfigError(
            f"--where: {pattern!r} is no pattern for {kind} ({str(error).splitlines()[0]})",
            hint="matches takes the regular expressions of RE2: no backreferences, no lookaround, no huge repeats",
        ) from None


def _matched(kind: str, texts: pa.Array, pattern: str) -> pa.Array:
    """like has % and _; matches is a regular expression of RE2, which needs no more than linear time."""
    return pc.match_like(texts, pattern) if kind == "like" else pc.match_substring_regex(texts, pattern)


def _among(node: Node, lines: Lines) -> pa.Array:
    first = _evaluate(node.parts[0], lines)
    choices = pa.array([choice.value for choice in node.parts[1:]]).cast(first.type)
    found = pc.if_else(first.is_valid(), pc.is_in(first, value_set=choices), pa.scalar(None, pa.bool_()))
    return found if node.value else pc.invert(found)


def _quantified(node: Node, lines: Lines) -> pa.Array:
    """any: of one image at least; all: of each. Without an image nothing is true of any, and all is true."""
    some = node.kind == "any"
    values = _ordered(_evaluate(node.parts[0], lines))
    values = np.where(lines.images, values, 0 if some else 2).astype(np.int8)
    judged = _over(np.maximum if some else np.minimum, values, lines)
    sizes = np.diff(np.append(lines.starts, lines.num_lines))
    spread = np.repeat(judged, sizes)
    return pa.array(spread == 1, mask=spread < 0)
