"""Chat templates: golden renderings, what a dialogue may be, and templates that mean harm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox
import pytest

from shardkit.errors import ConfigError
from shardkit.text.template import MAX_SOURCE, ChatTemplate, TemplateRefused, chatml

USER = {"role": "user", "content": "q"}
EMPTY = "<think>\n\n</think>\n\n"
TOOL = {
    "type": "function",
    "function": {"name": "f", "description": '\u67e5 <b> & "x"', "parameters": {"b": 1, "a": 2}},
}
TOOL_LINE = '{"type": "function", "function": {"name": "f", "description": "\u67e5 <b> & \\"x\\"", "parameters": {"b": 1, "a": 2}}}'
TOOLS_TURN = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
    f"{TOOL_LINE}\n</tools>\n\n"
    "For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n"
    '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n'
)
CALL = {"name": "f", "arguments": {"z": "\u4e00", "a": 1}}
CALL_TEXT = '<tool_call>\n{"name": "f", "arguments": {"z": "\u4e00", "a": 1}}\n</tool_call>'


def user(text: str = "q") -> str:
    return f"<|im_start|>user\n{text}<|im_end|>\n"


def says(text: str, think: str = EMPTY) -> str:
    return f"<|im_start|>assistant\n{think}{text}<|im_end|>\n"


GOLDEN: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "prompt": ([USER], {"add_generation_prompt": True}, f"{user()}<|im_start|>assistant\n{EMPTY}"),
    "open-thinking": (
        [USER],
        {"add_generation_prompt": True, "open_thinking": True},
        f"{user()}<|im_start|>assistant\n<think>\n",
    ),
    "open-thinking-without-a-prompt": ([USER], {"open_thinking": True}, user()),
    "answer": ([USER, {"role": "assistant", "content": "\n\n a\n"}], {}, user() + says(" a\n")),
    "system": ([{"role": "system", "content": "s"}, USER], {}, f"<|im_start|>system\ns<|im_end|>\n{user()}"),
    "system-later": (
        [USER, {"role": "assistant", "content": "a"}, {"role": "system", "content": "s"}],
        {},
        f"{user()}{says('a')}<|im_start|>system\ns<|im_end|>\n",
    ),
    "reasoning": (
        [USER, {"role": "assistant", "content": "a", "reasoning_content": "\nhm\n"}],
        {},
        user() + says("a", "<think>\nhm\n</think>\n\n"),
    ),
    "reasoning-in-the-content": (
        [USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\na"}],
        {},
        user() + says("a", "<think>\nhm\n</think>\n\n"),
    ),
    "tools": ([USER], {"tools": [TOOL]}, f"<|im_start|>system\n{TOOLS_TURN}{user()}"),
    "tools-and-system": (
        [{"role": "system", "content": "s"}, USER],
        {"tools": [TOOL]},
        f"<|im_start|>system\ns\n\n{TOOLS_TURN}{user()}",
    ),
    "tools-as-text": ([USER], {"tools": json.dumps([TOOL])}, f"<|im_start|>system\n{TOOLS_TURN}{user()}"),
    "tools-of-the-system-turn": (
        [{"role": "system", "content": "s", "tools": json.dumps([TOOL])}, USER],
        {},
        f"<|im_start|>system\ns\n\n{TOOLS_TURN}{user()}",
    ),
    "calls": (
        [USER, {"role": "assistant", "content": "", "tool_calls": [CALL, {"type": "function", "function": CALL}]}],
        {},
        user() + says(f"{CALL_TEXT}\n{CALL_TEXT}"),
    ),
    "calls-behind-content": (
        [USER, {"role": "assistant", "content": "a", "tool_calls": [CALL]}],
        {},
        user() + says(f"a\n{CALL_TEXT}"),
    ),
    "calls-as-text": (
        [USER, {"role": "assistant", "content": "a", "tool_calls": json.dumps([CALL])}],
        {},
        user() + says(f"a\n{CALL_TEXT}"),
    ),
    "arguments-as-text": (
        [USER, {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": '{"z": "\u4e00", "a": 1}'}]}],
        {},
        user() + says(CALL_TEXT),
    ),
    "results": (
        [USER, {"role": "assistant", "content": "a"}, {"role": "tool", "content": "1"}, {"role": "tool", "content": ""}],
        {"add_generation_prompt": True},
        user()
        + says("a")
        + "<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n\n</tool_response><|im_end|>\n"
        + f"<|im_start|>assistant\n{EMPTY}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_renderings_byte_for_byte(name: str) -> None:
    messages, options, text = GOLDEN[name]
    assert chatml().render(messages, **options).encode() == text.encode()


@pytest.mark.parametrize("name", GOLDEN)
def test_the_template_of_minimind_renders_the_same(shared: Path, name: str) -> None:
    messages, options, text = GOLDEN[name]
    assert ChatTemplate.load(shared / "data" / "tokenizers" / "minimind").render(messages, **options) == text


@pytest.mark.parametrize("name", [name for name in GOLDEN if "as-text" not in name and "of-the-system" not in name])
def test_the_template_needs_nothing_but_what_transformers_gives(name: str) -> None:
    """A trained tokenizer carries it, and its users render it in this environment, with texts parsed before."""

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = refuse
    messages, options, text = GOLDEN[name]
    assert environment.from_string(chatml().source).render(messages=messages, **options) == text
    with pytest.raises(jinja2.TemplateError, match="tool_calls is a text"):
        environment.from_string(chatml().source).render(messages=[{"role": "assistant", "tool_calls": "[]"}])


@pytest.mark.parametrize("name", ["sft", "sft_tool", "rlaif"])
@pytest.mark.parametrize("options", [{}, {"add_generation_prompt": True}, {"open_thinking": True, "add_generation_prompt": True}])  # fmt: skip
def test_real_dialogues_render_as_by_minimind_but_for_an_empty_system_text(
    shared: Path, name: str, options: dict[str, bool]
) -> None:
    other = ChatTemplate.load(shared / "data" / "tokenizers" / "minimind" / "tokenizer_config.json")
    blank, ours = "<|im_start|>system\n\n\n# Tools", "<|im_start|>system\n# Tools"
    for line in (shared / "data" / "chat" / f"{name}.jsonl").read_text("utf-8").splitlines():
        messages = json.loads(line)["conversations"]
        text = other.render(messages, **options)
        if text.startswith(blank):
            text = text.replace(blank, ours, 1)
        assert chatml().render(messages, **options) == text


@pytest.mark.parametrize(
    "content", ["no <think>hm</think>", "<think>open", "closed</think>", "<think>a<think>b</think>c"]
)
def test_think_marks_that_are_no_block_at_the_head_are_text(content: str) -> None:
    assert chatml().render([USER, {"role": "assistant", "content": content}]) == user() + says(content)


def test_a_content_in_parts_is_its_texts() -> None:
    parts = [{"type": "text", "text": "a"}, "b", {"type": "text", "text": "c"}]
    assert chatml().render([{"role": "user", "content": parts}]) == user("abc")
    assert chatml().render([{"role": "user", "content": None}]) == user("")


# ------------------------------------------------------------------ dialogues that cannot be rendered
@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "there are no turns to render"),
        ([{"role": "robot", "content": "a"}], "the template says: the role of a turn is unknown"),
        ([{"role": "user", "content": [{"type": "image"}]}], "the template says: a part of a content is no text"),
        ([{"role": "assistant", "content": "", "tool_calls": "f()"}], "its tools or tool calls are a text that is no JSON"),
        ([{"role": "assistant", "content": "", "tool_calls": [{}]}], "the template fails on it: "),
        ([{"role": "assistant", "content": "", "tool_calls": 7}], "the template fails on it: "),
    ],
)  # fmt: skip
def test_what_cannot_be_rendered_says_why(messages: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(TemplateRefused) as caught:
        chatml().render(messages)
    assert str(caught.value).startswith(says)


# ------------------------------------------------------------------ templates that mean harm
LOOPS = "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3
DOUBLE = "{%% set ns = namespace(x='ab') %%}{%% for i in range(99) %%}%s{%% endfor %%}"
HOSTILE = {
    "attribute": "{{ ''.__class__ }}",
    "attribute-by-item": "{{ ''['__class__'] }}",
    "attribute-by-filter": "{{ '' | attr('__class__') }}",
    "attribute-by-map": "{{ [''] | map(attribute='__class__') | list }}",
    "globals": "{{ namespace.__init__.__globals__ }}",
    "method-of-a-function": "{{ raise_exception.__globals__ }}",
    "macro-internals": "{% macro m() %}{% endmacro %}{{ m._environment }}",
    "generator-frame": "{{ ([1] | map('string')).gi_frame.f_builtins }}",
    "context": "{{ self._TemplateReference__context }}",
    "format": "{{ '{0.__class__}'.format(1) }}",
    "format-width": "{{ '{:>999999999}'.format(1) }}",
    "percent": "{{ '%999999999d' % 1 }}",
    "indent": "{{ 'a\\nb' | indent(999999999) }}",
    "pad": "{{ 'a'.ljust(999999999) }}",
    "change-the-data": "{{ messages.append(1) }}",
    "change-a-turn": "{{ messages[0].update({'role': 'x'}) }}",
    "loops": LOOPS,
    "loops-that-say": LOOPS.replace("{% endfor %}", "x{% endfor %}"),
    "double-by-plus": DOUBLE % "{% set ns.x = ns.x + ns.x %}",
    "double-by-concat": DOUBLE % "{% set ns.x = ns.x ~ ns.x %}",
    "double-by-join": DOUBLE % "{% set ns.x = [ns.x, ns.x] | join %}",
    "double-by-join-method": DOUBLE % "{% set ns.x = ''.join([ns.x, ns.x]) %}",
    "double-by-replace": DOUBLE % "{% set ns.x = ns.x | replace('b', ns.x) %}",
    "double-by-replace-method": DOUBLE % "{% set ns.x = ns.x.replace('b', ns.x) %}",
    "double-by-block": DOUBLE % "{% set x %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = x %}",
    "double-by-times": DOUBLE % "{% set ns.x = ns.x * 2 %}",
    "double-list": DOUBLE % "{% set ns.x = [ns.x, ns.x] %}",
    "double-dict": DOUBLE % "{% set ns.x = dict(a=ns.x, b=ns.x) %}",
    "double-values": DOUBLE % "{% set ns.x = {1: ns.x, 2: ns.x}.values() %}",
    "double-items": DOUBLE % "{% set ns.x = dict(a=ns.x, b=ns.x).items() %}",
    "round": "{{ 1.5 | round(999999999, 'ceil') }}",
    "round-each": "{{ [1.5] | map('round', -999999999, 'floor') | list }}",
    "double-by-macro": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "times": "{{ 'a' * 999999999 }}",
    "power": "{{ 9 ** 9 ** 9 }}",
    "large-integer": "{% set ns = namespace(x=9) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "large-range": "{{ range(999999999) | list }}",
    "endless-macro": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "endless-block": "{% block a %}{{ self.a() }}{% endblock %}",
    "endless-loop": "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "sequence-of-tests": "{% for a in range(99999) recursive %}{{ loop(range(99999)) if loop.first }}{% endfor %}",
    "deep-tuple": "{% set ns = namespace(x=()) %}{% for i in range(99999) %}{% set ns.x = (ns.x,) %}{% endfor %}{{ {ns.x: 1} }}",
    "large-list": "{{ ('a' * 4000000) | list | length }}",
    "large-split": "{{ ('a,' * 1000000).split(',') | length }}",
    "deep-json": "{{ messages | tojson(indent=99999999) }}",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_stopped(name: str) -> None:
    messages = [dict(USER)]
    with pytest.raises((ConfigError, TemplateRefused)) as caught:
        ChatTemplate(source=HOSTILE[name], where="t.jinja").render(messages)
    if isinstance(caught.value, ConfigError):
        assert (caught.value.where, caught.value.what[:29]) == ("t.jinja", "the chat template is refused:")
    assert messages == [USER]


def test_what_a_namespace_holds_is_never_spelled_out() -> None:
    source = (
        "{% set ns = namespace(x=1) %}{% for i in range(99) %}{% set ns.x = namespace(a=ns.x, b=ns.x) %}{% endfor %}"
    )
    for text in ("{{ ns }}", "{{ ns ~ '' }}", "{{ ns | string }}", "{{ [ns] | join }}"):
        assert ChatTemplate(source=source + text).render([USER]) == "<Namespace>"


@pytest.mark.parametrize(
    "written",
    [
        "{{ messages[0].items }}", "{{ messages[0]['items'] }}", "{{ messages[0] | attr('items') }}", "{{ 'a' ~ ''.strip }}",
        "{{ [''.strip] }}", "{{ {'a': ''.strip} | string }}", "{{ [range] | join }}", "{{ range }}", "{{ dict | upper }}",
        "{{ raise_exception }}", "{{ namespace | trim }}", "{% block a %}{% endblock %}{{ self.a }}", "{{ [{}] | map(attribute='items') | join }}",
        "{% for m in messages %}{{ loop.cycle }}{% endfor %}", "{% set ns = namespace(a=range) %}{{ ns.a }}", "{{ ''.strip | escape }}",
        "{{ 'a' | replace('a', ''.strip) }}", "{% set f = messages[0].items %}{{ f }}", "{% filter trim %}{{ ''.strip }}{% endfilter %}",
        "{{ (messages[0].items, 1) }}", "{{ ''.strip | indent }}", "{{ messages[0].items | tojson }}", "{{ '' + ''.strip }}", "{{ ''.strip | list }}",
    ],
)  # fmt: skip
def test_a_function_is_called_and_never_spelled_out(written: str) -> None:
    """As a text it would be another in every process: the place where it lies in memory."""
    with pytest.raises((ConfigError, TemplateRefused)) as caught:
        ChatTemplate(source=written).render([USER])
    assert "0x" not in str(caught.value)


def test_a_large_integer_of_the_data_is_no_harm_and_one_that_is_made_is() -> None:
    turns = [{"role": "user", "content": 10**30}]
    assert ChatTemplate(source="{{ messages[0].content }}{{ messages | tojson }}").render(turns).count("0" * 30) == 2
    with pytest.raises(ConfigError, match="an integer of more than 64 bits"):
        ChatTemplate(source="{{ messages[0].content * 9 }}").render(turns)


def test_functions_are_called_in_any_way_that_templates_know() -> None:
    source = (
        "{% set f = messages[0].items %}{% for name, value in f() %}{{ name ~ value }}{% endfor %}"
        "{% set ns = namespace(a=1) %}{% for m in messages %}{{ loop.cycle('x', 'y') }}{% endfor %}"
        "{{ range(2) | list }}{{ dict(b=ns.a).get('b') }}{% block c %}{{ ''.strip is defined }}{% endblock %}{{ self.c() }}"
        "{{ messages[0].get.x is defined }}{% if messages[0].items %}!{% endif %}"
        "{% set ns.r = range(2) %}{% for i in ns.r %}{{ i }}{% endfor %}"
    )
    assert ChatTemplate(source=source).render([USER]) == "roleusercontentqx[0, 1]1TrueTrueFalse!01"


def test_numbers_are_rounded() -> None:
    assert ChatTemplate(source="{{ 2.345 | round(1) }} {{ 2.5 | round(method='floor') }}").render([USER]) == "2.3 2.0"


def test_a_template_that_calls_itself_without_end_leaves_out_a_row_not_the_run() -> None:
    """As a published one does at a parameter whose type it does not know: each letter of a text is a text again."""
    source = (
        "{% macro kind(x) %}{% if x in ('a', 'b') %}!{% else %}{% for one in x %}{{ kind(one) }}{% endfor %}{% endif %}"
        "{% endmacro %}{{ kind(messages[0].content) }}"
    )
    assert ChatTemplate(source=source).render([{"role": "user", "content": "ab"}]) == "!!"
    with pytest.raises(TemplateRefused, match="the template calls itself without end"):
        ChatTemplate(source=source).render([USER])


def test_a_loop_without_end_is_stopped_by_its_steps_not_by_the_clock() -> None:
    with pytest.raises(ConfigError, match="it takes more than 1016000 steps"):
        ChatTemplate(source=LOOPS).render([USER])


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{% include 'x' %}", "it wants another file"),
        ("{% import 'x' as x %}", "it wants another file"),
        ("{% from 'x' import y %}", "it wants another file"),
        ("{% extends 'x' %}", "it wants another file"),
        ("{{ [1, 2] | random }}", "No filter named 'random'"),
        ("{{ 1 | format(1) }}", "No filter named 'format'"),
        ("{% if %}", "line 1: "),
        ("(" * 9000 + "{{" + "(" * 9000 + "1" + ")" * 9000 + "}}", "it is nested too deeply"),
        (" " * (MAX_SOURCE + 1), f"it has {MAX_SOURCE + 1} characters, more than {MAX_SOURCE}"),
    ],
)
def test_what_is_no_template_for_us_is_refused_before_it_runs(source: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ChatTemplate(source=source)
    assert says in caught.value.what
    assert "--chat-template" in caught.value.hint


def test_a_large_dialogue_is_no_harm() -> None:
    turns = [{"role": "user" if i % 2 == 0 else "assistant", "content": "x" * 1000} for i in range(3000)]
    assert len(chatml().render(turns)) > 3_000_000


def test_templates_of_others_have_what_they_are_used_to() -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}"
        "{% if m.role == 'assistant' %}{% generation %}[{{ m['content'] | trim }}]{% endgeneration %}"
        "{% else %}{{ m.content.strip() | upper }}{% endif %}{% endfor %}"
        "{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% endif %}{{ tools | tojson(indent=1) | indent(2) }}"
    )
    template = ChatTemplate(source=source, tokens=(("bos_token", "<s>"),))
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": " a "},
        {"role": "assistant", "content": " b "},
    ]
    assert template.render(messages, tools=["\u4e00"]) == '<s>A[b][\n   "\u4e00"\n  ]'  # fmt: skip


# ------------------------------------------------------------------ files and digests
def test_a_template_is_found_where_tokenizers_keep_it(tmp_path: Path) -> None:
    config = {
        "chat_template": "{{ bos_token }}!",
        "bos_token": {"content": "<s>"},
        "eos_token": "</s>",
        "pad_token": None,
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    found = ChatTemplate.load(tmp_path)
    assert (found.source, found.tokens) == ("{{ bos_token }}!", (("bos_token", "<s>"), ("eos_token", "</s>")))
    assert ChatTemplate.load(tmp_path / "tokenizer_config.json") == found
    assert found.render([USER]) == "<s>!"
    (tmp_path / "chat_template.jinja").write_text("{{ eos_token }}?")
    assert ChatTemplate.load(tmp_path).render([USER]) == "</s>?"
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert ChatTemplate.load(tmp_path / "tokenizer_config.json").source == "d"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("tokenizer_config.json", b"{}", "it has no chat_template"),
        ("tokenizer_config.json", b"[]", "this is no JSON object"),
        ("tokenizer_config.json", b"{", "this is no JSON object"),
        ("x.jinja", b"\xff", "the chat template cannot be read (it is no UTF-8 text)"),
        ("x.jinja", None, "the chat template cannot be read (No such file or directory)"),
    ],
)
def test_a_file_without_a_template_is_refused(tmp_path: Path, name: str, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        ChatTemplate.load(tmp_path / name)
    assert (caught.value.what, caught.value.where) == (says, str(tmp_path / name))


def test_a_folder_without_a_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither chat_template"):
        ChatTemplate.load(tmp_path)


def test_the_digest_is_that_of_source_and_tokens() -> None:
    plain = ChatTemplate(source="a", where="here")
    assert plain.digest == ChatTemplate(source="a", where="there").digest
    assert len({plain.digest, ChatTemplate(source="b").digest, ChatTemplate(source="a", tokens=(("bos_token", "x"),)).digest}) == 3  # fmt: skip
    assert chatml().digest == "bce70aae276ac71c493d270165933707"
