"""Names become columns, and types are judged, before a row is read."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass, replace

from shardkit.errors import ConfigError
from shardkit.prepare.select.columns import ALIASES, ANY, COLUMNS, METADATA, NUMBER, TEXT, TRUTH
from shardkit.prepare.select.evaluate import check_pattern
from shardkit.prepare.select.tree import Node, written

PRESENT = "present"
"""The type under which a metadata field is asked for by `is null` alone."""

Field = tuple[tuple[str, ...], str]
"""A metadata field, by the names that lead to it, and the type it is read as."""

_ORDERED = (NUMBER, TEXT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """A condition whose names are (column,) or (metadata, ..., type), and what it asks for."""

    parts: tuple[Node, ...]
    """All of them must hold: the condition, cut at its outermost `and`."""
    columns: frozenset[str]
    fields: frozenset[Field]

    @property
    def of_images(self) -> bool:
        """Whether it says anything of single images."""
        return any(COLUMNS[name].of_image for name in self.columns)


def bind(condition: Node, known: Collection[str]) -> Bound:
    """Judge a condition.

    Args:
        known: metadata fields that the first rows have. A name that is no column is one of these.

    Raises:
        ConfigError: for unknown names, types that do not fit, and any() or all() inside one another.
    """
    binder = _Binder(known)
    parts = condition.parts if condition.kind == "and" else (condition,)
    bound = tuple(binder.truth(part) for part in parts)
    if not binder.columns and not binder.fields:
        raise ConfigError("--where names no column", hint=_columns_hint())
    return Bound(parts=bound, columns=frozenset(binder.columns), fields=frozenset(binder.fields))


def near_names(name: str, known: Collection[str]) -> str:
    """Names that `name` may have meant, in words; empty where none is near."""
    near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _columns_hint() -> str:
    return f"columns are {', '.join(COLUMNS)}, and {METADATA}.NAME"


class _Binder:
    def __init__(self, known: Collection[str]) -> None:
        self._known = frozenset(known)
        self._inside = ""
        self.columns: set[str] = set()
        self.fields: set[Field] = set()

    def truth(self, node: Node) -> Node:
        """A node that must be true or false."""
        kind, found = self._typed(node)
        if kind == ANY:
            return self._read_as(found, TRUTH)
        if kind != TRUTH:
            raise ConfigError(
                f"--where: {written(node)} is {kind}, not true or false", hint="compare it with something"
            )
        return found

    def _typed(self, node: Node) -> tuple[str, Node]:
        if node.kind == "literal":
            return {bool: TRUTH, str: TEXT}.get(type(node.value), NUMBER), node
        if node.kind == "name":
            return self._name(node)
        if node.kind in ("not", "and", "or"):
            return TRUTH, replace(node, parts=tuple(map(self.truth, node.parts)))
        if node.kind in ("any", "all"):
            return TRUTH, self._quantified(node)
        if node.kind in ("arithmetic", "negative"):
            return NUMBER, replace(node, parts=tuple(self._as(NUMBER, part, node) for part in node.parts))
        if node.kind in ("like", "matches"):
            check_pattern(node.kind, node.parts[1].value)
            return TRUTH, replace(node, parts=(self._as(TEXT, node.parts[0], node), node.parts[1]))
        if node.kind == "is_null":
            kind, found = self._typed(node.parts[0])
            found = self._read_as(found, PRESENT) if kind == ANY else found
            return TRUTH, replace(node, parts=(found,))
        if node.kind == "in":
            return TRUTH, self._in(node)
        return TRUTH, self._compare(node)

    def _compare(self, node: Node) -> Node:
        (left, one), (right, two) = map(self._typed, node.parts)
        if left == right == ANY:
            left = right = TEXT if node.value in ("==", "!=") else NUMBER
            one, two = self._read_as(one, left), self._read_as(two, right)
        elif left == ANY:
            left, one = right, self._read_as(one, right)
        elif right == ANY:
            right, two = left, self._read_as(two, left)
        if left != right:
            raise ConfigError(
                f"--where: {written(node)} compares {left} with {right}", hint="compare a column with its own kind"
            )
        if left not in _ORDERED and node.value not in ("==", "!="):
            raise ConfigError(f"--where: {written(node)} asks for an order of true and false", hint="use == or !=")
        return replace(node, parts=(one, two))

    def _in(self, node: Node) -> Node:
        kinds = {self._typed(choice)[0] for choice in node.parts[1:]}
        if len(kinds) > 1:
            raise ConfigError(
                f"--where: the list of {written(node)} mixes {' and '.join(sorted(kinds))}", hint="give one kind"
            )
        return replace(node, parts=(self._as(kinds.pop(), node.parts[0], node), *node.parts[1:]))

    def _as(self, wanted: str, part: Node, node: Node) -> Node:
        kind, found = self._typed(part)
        if kind == ANY:
            return self._read_as(found, wanted)
        if kind != wanted:
            raise ConfigError(
                f"--where: in {written(node)}, {written(part)} is {kind}, not {wanted}",
                hint="compare a column with its own kind",
            )
        return found

    def _quantified(self, node: Node) -> Node:
        if self._inside:
            raise ConfigError(f"--where: {node.kind}() stands inside {self._inside}()", hint="take one of them out")
        self._inside = node.kind
        before = set(self.columns)
        self.columns.clear()
        part = self.truth(node.parts[0])
        self._inside = ""
        if not any(COLUMNS[name].of_image for name in self.columns):
            raise ConfigError(
                f"--where: {written(node)} says nothing of an image",
                hint=f"any() and all() are for {', '.join(name for name, column in COLUMNS.items() if column.of_image)}",
            )
        self.columns |= before
        return replace(node, parts=(part,))

    def _name(self, node: Node) -> tuple[str, Node]:
        parts: tuple[str, ...] = node.value
        first = ALIASES.get(parts[0], parts[0])
        if len(parts) == 1 and first in COLUMNS:
            self.columns.add(first)
            return COLUMNS[first].type, replace(node, value=(first,))
        if parts[0] == METADATA and len(parts) > 1:
            return ANY, replace(node, value=parts[1:])
        if parts[0] in self._known and first not in COLUMNS:
            return ANY, node
        shown = written(node)
        if first in COLUMNS:
            raise ConfigError(f"--where: {shown}: {parts[0]} is a column and has no parts", hint=_columns_hint())
        known = {*COLUMNS, *ALIASES, *self._known}
        raise ConfigError(
            f"--where: {shown} is neither a column nor a metadata field of the first rows{near_names(parts[0], known)}",
            hint=_columns_hint(),
        )

    def _read_as(self, node: Node, kind: str) -> Node:
        """A metadata field under the type that its surroundings ask for."""
        self.fields.add((node.value, kind))
        return replace(node, value=(METADATA, *node.value, kind))
