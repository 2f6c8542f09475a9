"""jinja2 for templates that a stranger wrote: no way out of the data, no random numbers or clocks, and an end in sight.

jinja2's own sandbox keeps a template away from Python. It does not keep it from running on: loops in loops, texts doubled
forty times. So the syntax tree is rewritten before it is compiled. Each step of a loop, each call and each text or list that
an expression makes goes through a meter, which stops the rendering at a limit; between two looks at the meter lies at
most one operation on values that the meter has weighed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView
from typing import TYPE_CHECKING, Any, cast

from jinja2 import TemplateSyntaxError, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.filters import do_indent, do_round
from jinja2.runtime import LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.parser import Parser
    from jinja2.runtime import Context

MAX_STEPS = 1_000_000
"""Steps of loops, calls, and values in lists that are made; and 1,000 more for each value of the data."""
MAX_CHARACTERS = 4 << 20
"""Characters of all texts that are made on the way, the result included; and 64 more for each character of the data."""
MAX_SECONDS = 10.0
"""Processor time of one rendering."""
MAX_INTEGER = 1 << 63
"""Of integers that are made on the way; or the largest of the data."""
MAX_PRECISION = 300
"""Digits of a rounding, which takes ten to the power of them."""

_FILTERS = frozenset([
    "abs", "attr", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "int", "items",
    "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "safe", "select",
    "selectattr", "sort", "string", "title", "trim", "unique", "upper",
])  # fmt: skip
"""Those of jinja2 that stay; indent, join, replace, round and tojson are our own. Others make texts of any size, or are random."""

_TEXT = frozenset([
    "capitalize", "casefold", "count", "endswith", "find", "index", "isalnum", "isalpha", "isascii", "isdecimal",
    "isdigit", "islower", "isnumeric", "isspace", "istitle", "isupper", "join", "lower", "lstrip", "partition",
    "removeprefix", "removesuffix", "replace", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "split",
    "splitlines", "startswith", "strip", "swapcase", "title", "upper",
])  # fmt: skip
_LOOP = frozenset([
    "changed", "cycle", "depth", "depth0", "first", "index", "index0", "last", "length", "nextitem", "previtem",
    "revindex", "revindex0",
])  # fmt: skip
_ATTRIBUTES: tuple[tuple[type[Any], frozenset[str]], ...] = (
    (str, _TEXT),
    (dict, frozenset(["get", "items", "keys", "values"])),
    (list, frozenset(["count", "index"])),
    (tuple, frozenset(["count", "index"])),
    (LoopContext, _LOOP),
    (Macro, frozenset(["arguments", "name"])),
)
"""What a template may ask of values; keys of a dict are no attributes and always free."""

_FORBIDDEN = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


class Exhausted(Exception):  # noqa: N818 - an answer about a template, not a failure
    """A rendering went over a limit, which the text of the exception names."""


class Meter:
    """What one rendering has used up."""

    def __init__(self, data: Any) -> None:
        """An empty meter; its limits grow with what the template is given."""
        self.steps = self.characters = 0
        self._max_steps = self._max_characters = 1 << 62
        self._end = float("inf")
        self._largest = MAX_INTEGER
        self._measures = True
        self.weigh(data)
        self._measures = False
        self._max_steps = MAX_STEPS + 1000 * self.steps
        self._max_characters = MAX_CHARACTERS + 64 * self.characters
        self.steps = self.characters = 0
        self._end = time.thread_time() + MAX_SECONDS

    def step(self, count: int = 1) -> None:
        before, self.steps = self.steps, self.steps + count
        if self.steps > self._max_steps:
            raise Exhausted(f"it takes more than {self._max_steps} steps")
        if before >> 6 != self.steps >> 6:
            self._look_at_the_clock()

    def text(self, count: int) -> None:
        """`count` characters more."""
        self.characters += count
        if self.characters > self._max_characters:
            raise Exhausted(f"it makes texts of more than {self._max_characters} characters")
        if count > 1 << 16:
            self._look_at_the_clock()

    def weigh(self, value: Any) -> Any:
        """`value`, with all that it holds on the meter."""
        left = [value]
        while left:
            one = left.pop()
            self.step()
            if isinstance(one, str):
                self.text(len(one))
            elif isinstance(one, int):
                if not -self._largest <= one <= self._largest:
                    if not self._measures:
                        raise Exhausted("it makes an integer of more than 64 bits")
                    self._largest = abs(one)
            elif isinstance(one, Mapping):
                left.extend(one.keys())
                left.extend(one.values())
            elif isinstance(one, list | tuple | MappingView):
                left.extend(one)  # type: ignore[arg-type]  # views of a dict: keys, values, items
        return value

    def each(self, values: Iterable[Any]) -> Iterator[Any]:
        """`values` one by one, each a step."""
        for value in values:
            self.step()
            yield value

    def _look_at_the_clock(self) -> None:
        if time.thread_time() > self._end:
            raise Exhausted(f"it takes more than {MAX_SECONDS:g} seconds")


class _Namespace(Namespace):
    """What it holds is set without a look at the meter, so it never becomes a text with all of that in it."""

    def __repr__(self) -> str:
        return "<Namespace>"


class _Called:
    """A method, a function or a block of a template: to be called. As a text it would be its place in memory."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __repr__(self) -> str:
        raise SecurityError("it writes a function as a text; a call has ( ) behind its name")


class Sandbox(ImmutableSandboxedEnvironment):
    """One rendering at a time; set `meter` before it."""

    meter: Meter
    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _Generation],
            finalize=_finalize,
        )
        self.filters = {name: function for name, function in self.filters.items() if name in _FILTERS}
        self.filters |= {"indent": _indent, "join": _join, "list": _list, "replace": _replace, "round": _round}
        self.filters |= {"tojson": _tojson}
        self.filters |= {"_each": _each, "_bounded": _bounded}
        known = {"range": self.globals["range"], "dict": dict, "namespace": _Namespace}
        self.globals = {name: _Called(function) for name, function in known.items()}

    def template(self, source: str) -> Template:
        """Compile a template, metered.

        Raises:
            TemplateSyntaxError: for what is no template, or names what is not there.
        """
        tree = _Metered().visit(self.parse(source))
        code = self.compile(tree)
        return self.template_class.from_code(self, code, self.make_globals(None), None)

    def getattr(self, obj: Any, attribute: str) -> Any:
        return _called_or_value(super().getattr(_function_or_value(obj), attribute))

    def getitem(self, obj: Any, argument: Any) -> Any:
        return _called_or_value(super().getitem(_function_or_value(obj), argument))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        del value
        if isinstance(obj, Namespace):
            return not attr.startswith("_")
        return any(attr in names for kind, names in _ATTRIBUTES if isinstance(obj, kind))

    def unsafe_undefined(self, obj: Any, attribute: str) -> Any:
        raise SecurityError(f"it asks a {type(obj).__name__} for {attribute!r}")

    def wrap_str_format(self, value: Any) -> None:
        """`format` is no attribute here: it makes texts of any size."""
        del value

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" or (operator == "%" and isinstance(left, str | bytes)):
            raise SecurityError(f"it uses the operator {operator} in a way that makes values of any size")
        if operator == "*":
            many, number = (left, right) if isinstance(right, int) else (right, left)
            if isinstance(many, str | list | tuple) and isinstance(number, int):
                self.meter.text(len(many) * max(0, number))
        return self.meter.weigh(super().call_binop(context, operator, left, right))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805, PYI063 - as in jinja2
        __self.meter.step()
        target = _function_or_value(__obj)
        owner = getattr(target, "__self__", None)
        if isinstance(owner, str) and target.__name__ in ("join", "replace"):
            function = _join_texts if target.__name__ == "join" else _replace_text
            return function(__self.meter, owner, *args, **kwargs)
        result = super().call(__context, target, *args, **kwargs)
        return result if isinstance(result, Namespace) else __self.meter.weigh(result)


def _called_or_value(value: Any) -> Any:
    is_function = callable(value) and not isinstance(value, Undefined | LoopContext | Macro)
    return _Called(value) if is_function else value


def _function_or_value(value: Any) -> Any:
    return value.function if isinstance(value, _Called) else value


def called(function: Callable[..., Any]) -> Any:
    """`function` as a template may be given it."""
    return _Called(function)


class _Generation(Extension):
    """`{% generation %}`, by which transformers marks answers: its body stands as it is."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 reads it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Metered(NodeTransformer):
    """Puts a look at the meter around what makes values, and into loops."""

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        if isinstance(node, _FORBIDDEN):
            raise TemplateSyntaxError("it wants another file", node.lineno)
        return super().generic_visit(node, *args, **kwargs)

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - the name of the node
        self.generic_visit(node)
        node.iter = _through("_each", cast("nodes.Expr", node.iter))
        return node

    def visit_Output(self, node: nodes.Output) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        # What stands between the tags would bypass the meter; as an expression it does not.
        node.nodes = [
            _through("_bounded", nodes.Const(child.data, lineno=child.lineno))
            if isinstance(child, nodes.TemplateData)
            else child
            for child in node.nodes
        ]
        return node

    def _made(self, node: nodes.Expr) -> nodes.Expr:
        self.generic_visit(node)
        return _through("_bounded", node)

    visit_Concat = visit_List = visit_Dict = _made  # noqa: N815

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return _through("_bounded", node) if node.ctx == "load" else node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        # Without a node of its own it is the filter of a block, which jinja2 fills in.
        return node if node.node is None else _through("_bounded", node)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return _through("_bounded", node) if isinstance(node.arg, nodes.Slice) else node


def _through(name: str, node: nodes.Expr) -> nodes.Expr:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


# --------------------------------------------------------------------------- filters, which see the meter by the context
def _meter(context: Context) -> Meter:
    return cast("Sandbox", context.environment).meter


@pass_context
def _finalize(context: Context, value: Any) -> str:
    meter = _meter(context)
    text = str(meter.weigh(value))
    meter.text(len(text))
    return text


@pass_context
def _each(context: Context, values: Any) -> Iterator[Any]:
    return _meter(context).each(values)


@pass_context
def _bounded(context: Context, value: Any) -> Any:
    """A value that an expression made; what would make its items one by one makes them now."""
    meter = _meter(context)
    if isinstance(value, Iterator):
        return [meter.weigh(item) for item in value]
    return meter.weigh(value)


@pass_context
def _list(context: Context, values: Iterable[Any]) -> list[Any]:
    return list(_meter(context).each(values))


@pass_context
def _join(context: Context, values: Iterable[Any], d: str = "", attribute: str | None = None) -> str:
    if attribute is not None:
        values = [context.environment.getitem(value, attribute) for value in _meter(context).each(values)]
    return _join_texts(_meter(context), str(d), [str(value) for value in _meter(context).each(values)])


@pass_context
def _replace(context: Context, text: Any, old: str, new: str, count: int = -1) -> str:
    return _replace_text(_meter(context), str(text), str(old), str(new), count)


@pass_context
def _indent(context: Context, text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    room = width if isinstance(width, int) else len(width)
    _meter(context).text(len(text) + max(0, room) * (text.count("\n") + 1))
    return do_indent(text, width, first, blank)


def _round(value: float, precision: int = 0, method: str = "common") -> float:
    if not -MAX_PRECISION <= precision <= MAX_PRECISION:
        raise SecurityError(f"it rounds to more than {MAX_PRECISION} digits")
    return do_round(value, precision, method)  # type: ignore[arg-type]  # jinja2 itself refuses other methods


def _join_texts(meter: Meter, between: str, values: Iterable[str]) -> str:
    texts = list(meter.each(values))
    meter.text(len(between) * len(texts) + sum(map(len, texts)))
    return between.join(texts)


def _replace_text(meter: Meter, text: str, old: str, new: str, count: int = -1) -> str:
    found = text.count(old)
    meter.text(len(text) + (found if count < 0 else min(found, count)) * len(new))
    return text.replace(old, new, count)


@pass_context
def _tojson(
    context: Context,
    value: Any,
    *,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """One line of JSON, spaces behind commas and colons, keys in their order, characters as they are."""
    if indent is not None and not 0 <= indent <= 16:
        raise SecurityError("it indents JSON by more than 16")
    _meter(context).weigh(value)
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, allow_nan=False
    )
