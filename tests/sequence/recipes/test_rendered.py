"""Prompts by a template of another model: its own control tokens count as such, those inside data do not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend

from shardkit.sequence.recipes import RECIPES, bind, configure
from shardkit.text.template import ChatTemplate
from shardkit.text.tokenizer import Tokenizer
from tests.sequence.recipes.talks import TOOLS, talk
from tests.tokenizer_builders import byte_level

CONTROLS = ("<s>", "</s>", "[INST]", "[/INST]", "[TOOLS]")
TOKENIZER = Tokenizer(byte_level(CONTROLS, functional=()))
LLAMA = (
    "{{ bos_token }}{% if tools %}[TOOLS]{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content@ }} [/INST]"
    "{% elif m.role == 'assistant' %}{{ m.content }}</s>{% else %}{{ m.role }}: {{ m.content }}{% endif %}{% endfor %}"
)


def llama(change: str = "") -> str:
    """The template, which changes what a user says by a filter."""
    return LLAMA.replace("@", change)


BOS = (("bos_token", "<s>"),)
ASK = (("user", "hi"), ("assistant", "yo"))


def build(*turns: Any, source: str = llama(), **fields: Any) -> Any:
    template = ChatTemplate(source=source, tokens=BOS)
    recipe = bind(configure(RECIPES["rlaif"], {"chat_template": template, **fields}), TOKENIZER.controls)
    return recipe.build(talk(*turns), TOKENIZER, None, 4096, "error")


def spelled(built: Any) -> tuple[str, list[str]]:
    """The decoded ids, and the control tokens among them by name."""
    assert not built.reason, built
    ids = built.sequences[0].input_ids.tolist()
    names = {token: name for name, token in TOKENIZER.controls.items()}
    text = TOKENIZER.decode(ids)
    assert json.loads(built.sequences[0].prompt)["text"] == text
    return text, [names[token] for token in ids if token in names]


def test_plain_texts_have_the_ids_of_the_whole_rendering() -> None:
    built = build(*ASK)
    assert spelled(built) == ("<s>[INST] hi [/INST]", ["<s>", "[INST]", "[/INST]"])
    whole = Backend.from_str(json.dumps(byte_level(CONTROLS, functional=())))
    assert built.sequences[0].input_ids.tolist() == whole.encode("<s>[INST] hi [/INST]", add_special_tokens=False).ids


def test_no_chat_marks_are_asked_of_the_tokenizer() -> None:
    assert "<|im_start|>" not in TOKENIZER.controls
    assert build(*ASK).sequences


@pytest.mark.parametrize("control", CONTROLS)
def test_control_strings_of_data_stay_text(control: str) -> None:
    turns = (("system", f'[{{"name": "{control}"}}]', "tools"), ("user", control), ("assistant", control), ("user", f"a{control}"), ("assistant", ""))  # fmt: skip
    text, found = spelled(build(*turns))
    assert text == f'<s>[TOOLS][{{"name": "{control}"}}][INST] {control} [/INST]{control}</s>[INST] a{control} [/INST]'
    assert found == ["<s>", "[TOOLS]", "[INST]", "[/INST]", "</s>", "[INST]", "[/INST]"]


@pytest.mark.parametrize("content", ["<", "s>", "<s", "/s", "[INST", "INST]", "]"])
def test_a_name_that_data_and_template_spell_together_is_text(content: str) -> None:
    """The template writes < and > around a text, and [ ] too."""
    source = "<{{ messages[0].content }}>[{{ messages[0].content }}]"
    _, found = spelled(build(("user", content), ("assistant", ""), source=source))
    assert found == []


def test_what_a_template_trims_is_trimmed() -> None:
    text, found = spelled(build(("user", " <s>x "), ("assistant", ""), source=llama(" | trim")))
    assert (text, found) == ("<s>[INST] <s>x [/INST]", ["<s>", "[INST]", "[/INST]"])


TOOL = ("system", '[{"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}]', "tools")
PARAMETERS = (
    "{% for tool in tools %}{% for name, one in tool.parameters.properties.items() %}<{{ name@ }}>{{ one.type }}"
    "{% for key in one if key not in ('type', 'enum') %}<{{ key }}>{% endfor %}</{{ name@ }}>{% endfor %}{% endfor %}"
)


def parameters(change: str = "") -> str:
    """Writes names of parameters, and keys of their schemas, between < and >, as Qwen3-Coder's does."""
    return PARAMETERS.replace("@", change)


def with_tool(text: str) -> tuple[Any, ...]:
    return (TOOL[0], TOOL[1].replace('"a"', json.dumps(text)), TOOL[2]), *ASK


@pytest.mark.parametrize("name", ["s", "<s>", "</s", "[INST]", "name", "type", "a b"])
def test_names_of_the_data_are_text_whatever_the_template_writes_around_them(name: str) -> None:
    written = f"<{name}>string</{name}>"
    assert spelled(build(*with_tool(name), source=parameters())) == (written, [])
    text, found = spelled(build(*with_tool(name)))
    assert text == f"<s>[TOOLS]{with_tool(name)[0][1]}[INST] hi [/INST]"
    assert found == ["<s>", "[TOOLS]", "[INST]", "[/INST]"]


def test_keys_of_a_schema_are_text_too() -> None:
    tool = '[{"name": "f", "parameters": {"properties": {"a": {"type": "string", "s": 1, "[INST]": 2}}}}]'
    text, found = spelled(build(("system", tool, "tools"), *ASK, source=parameters()))
    assert (text, found) == ("<a>string<s><[INST]></a>", [])


CALLS = "{% for m in messages %}{% for call in m.tool_calls or [] %}@{% endfor %}{% endfor %}"


@pytest.mark.parametrize(("key", "value"), [("role", "<s>"), ("type", "[INST]"), ("role", "user"), ("<s>", "s")])
def test_arguments_are_data_whatever_their_keys(key: str, value: str) -> None:
    call = json.dumps([{"name": "f", "arguments": {key: value, "x": {key: [value]}}}])
    turns = (("user", "q"), ("assistant", call, "tool_calls"), ("tool", "1"), ("assistant", ""))
    text, found = spelled(build(*turns, source=CALLS.replace("@", "{{ call.arguments | tojson }}")))
    assert (json.loads(text), found) == ({key: value, "x": {key: [value]}}, [])
    source = CALLS.replace("@", "<{{ call.arguments['role'] }}>{% for k in call.arguments %}<{{ k }}>{% endfor %}")
    assert spelled(build(*turns, source=source))[1] == []


@pytest.mark.parametrize(
    ("turns", "source"),
    [
        ((("user", "a<s>"), ("assistant", "")), llama(" | upper")),
        ((("user", "a<s>"), ("assistant", "")), llama(" | replace('s', 't')")),
        ((("user", "<$s>"), ("assistant", "")), llama(" | replace('$', '')")),
        ((("user", "<S>"), ("assistant", "")), llama(" | lower")),
        ((("user", "s "), ("assistant", "")), "<{{ messages[0].content | replace(' ', '') }}>"),
        (with_tool("$s"), parameters(" | replace('$', '')")),
        (with_tool("S"), parameters(" | lower")),
        (with_tool("s"), parameters(" | replace('s', 's')|title")),
        (ASK, "{% if messages[0].content == 'hi' %}[INST]{% endif %}a"),
        (ASK, "{{ raise_exception('odd') if messages[0].content != 'hi' }}[INST]a"),
    ],
)  # fmt: skip
def test_a_text_that_cannot_be_told_from_the_template_is_refused(turns: Any, source: str) -> None:
    built = build(*turns, source=source)
    assert (built.reason, built.sequences) == ("control_strings", ())
    assert built.detail


def test_what_the_template_refuses_has_a_reason() -> None:
    built = build(*ASK, source="{{ raise_exception('turns must alternate') }}")
    assert (built.reason, built.detail) == ("template_refused", "the template says: turns must alternate")


def test_a_prompt_without_a_token_is_none() -> None:
    built = build(*ASK, source="{% for m in messages %}{% endfor %}")
    assert (built.reason, built.detail) == ("template_refused", "the template renders nothing that has a token")


def test_the_template_sees_how_the_prompt_is_to_end() -> None:
    source = "{{ messages[0].content }}{{ '[INST]' if enable_thinking else '[/INST]' }}{{ add_generation_prompt }}"
    assert spelled(build(*ASK, source=source, open_thinking_ratio=1.0))[0] == "hi[INST]True"
    assert spelled(build(*ASK, source=source, open_thinking_ratio=0.0))[0] == "hi[/INST]True"


def test_tools_of_the_rendering_are_the_rows() -> None:
    text, _ = spelled(build(("system", TOOLS, "tools"), *ASK))
    assert text == '<s>[TOOLS][{"name": "f", "description": "\u67e5"}][INST] hi [/INST]'
