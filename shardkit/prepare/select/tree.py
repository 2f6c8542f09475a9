"""A condition as a tree. Every node knows how it is written, and how deep it is, so that no walk over one runs away."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Literal = float | str | bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """
    literal     value
    name        value: the parts of the name, ("metadata", "score")
    compare     value: == != < <= > >=      parts: left, right
    in          value: not negated          parts: what is looked for, then the literals
    is_null     value: not negated          parts: what is looked at
    like        value: not negated          parts: text, then the pattern;      matches: the same
    arithmetic  value: + - * /              parts: left, right;                 negative: one part
    not and or                              parts
    any all                                 parts: the condition on an image
    """

    kind: str
    value: Any = None
    parts: tuple[Node, ...] = ()
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", 1 + max((part.depth for part in self.parts), default=0))


_RANK = {"or": 1, "and": 2, "not": 3}
"""How strongly a part holds its own parts together; what is not named here needs no brackets below these."""


def written(node: Node) -> str:
    """The condition as text, one way of writing for each meaning; parsing it gives the same tree."""
    parts = node.parts
    if node.kind == "literal":
        return _literal(node.value)
    if node.kind == "name":
        return ".".join(part if k == 0 or _plain(part) else _literal(part) for k, part in enumerate(node.value))
    if node.kind in ("and", "or"):
        return f" {node.kind} ".join(_inside(part, node.kind) for part in parts)
    if node.kind == "not":
        return f"not {_inside(parts[0], 'not')}"
    if node.kind in ("any", "all"):
        return f"{node.kind}({written(parts[0])})"
    if node.kind == "negative":
        return f"-{_value(parts[0])}"
    first = _value(parts[0])
    if node.kind in ("compare", "arithmetic"):
        return f"{first} {node.value} {_value(parts[1])}"
    if node.kind == "is_null":
        return f"{first} is {'' if node.value else 'not '}null"
    word = node.kind if node.value else f"not {node.kind}"
    if node.kind == "in":
        return f"{first} {word} ({', '.join(map(written, parts[1:]))})"
    return f"{first} {word} {written(parts[1])}"


def _inside(node: Node, outer: str) -> str:
    brackets = _RANK.get(node.kind, 9) <= _RANK[outer] and node.kind != "not"
    return f"({written(node)})" if brackets else written(node)


def _value(node: Node) -> str:
    return written(node) if node.kind in ("literal", "name", "any", "all") else f"({written(node)})"


def _literal(value: Literal) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _plain(text: str) -> bool:
    return text.isascii() and text.isidentifier()
