"""Chat templates: the text of a dialogue, rendered as a model's own trainer renders it.

tokenizer_config.json, chat_template.jinja or any file of jinja2  ->  ChatTemplate.load  ->  render(messages, tools=...)
the project's own template (templates/chatml.jinja)               ->  chatml()

A template is a stranger's program and runs in the sandbox of sandbox.py. Which of a text's tokens the assistant said no
template can tell; recipes that need to know lay a dialogue out themselves.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError
from jinja2.exceptions import SecurityError

from shardkit.digest import canonical_json, xxh3
from shardkit.errors import ConfigError
from shardkit.text.sandbox import Exhausted, Meter, Sandbox, called

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Template

CONFIG_FILE = "tokenizer_config.json"
TEMPLATE_FILE = "chat_template.jinja"
CHATML = Path(__file__).with_name("templates") / "chatml.jinja"
"""The project's own template, which trained tokenizers carry."""

MAX_SOURCE = 256 << 10
"""Characters of a template; the longest that are published have some 40,000."""

_ONE_AT_A_TIME = Lock()
"""A sandbox has one meter."""
_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")
"""Variables of a template that tokenizer_config.json gives."""


class TemplateRefused(Exception):  # noqa: N818 - an answer about a dialogue, not a failure
    """The template does not render this dialogue; the text of the exception says why, in one sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatTemplate:
    """Raises ConfigError where `source` is too long, no template, or uses what the sandbox does not have."""

    source: str
    tokens: tuple[tuple[str, str], ...] = ()
    """Names of control tokens by the variables that hold them in the template: (("bos_token", "<s>"), ...)."""
    where: str = field(default="", compare=False)
    """The file, for messages."""

    def __post_init__(self) -> None:
        if len(self.source) > MAX_SOURCE:
            raise self._broken(f"it has {len(self.source)} characters, more than {MAX_SOURCE}")
        try:
            _compiled(self.source)
        except TemplateSyntaxError as error:
            raise self._broken(f"line {error.lineno}: {error.message}") from error
        except SecurityError as error:
            raise self._broken(str(error)) from error
        except (RecursionError, MemoryError, SyntaxError) as error:
            raise self._broken("it is nested too deeply") from error

    @classmethod
    def load(cls, path: str | Path) -> ChatTemplate:
        """The template of a file: a tokenizer_config.json, or jinja2; or of the folder of a tokenizer.

        Raises:
            ConfigError: where there is none, or it is refused.
        """
        file = Path(path)
        if file.is_dir():
            found = [file / name for name in (TEMPLATE_FILE, CONFIG_FILE) if (file / name).is_file()]
            if not found:
                raise ConfigError(
                    f"the folder has neither {TEMPLATE_FILE} nor {CONFIG_FILE}",
                    where=str(file),
                    hint="name a file with --chat-template",
                )
            file = found[0]
        text = _read(file)
        if file.suffix == ".json":
            config = _config(text, file)
            return cls(source=_template(config, file), tokens=_tokens(config), where=str(file))
        beside = file.with_name(CONFIG_FILE)
        tokens = _tokens(_config(_read(beside), beside)) if beside.is_file() else ()
        return cls(source=text, tokens=tokens, where=str(file))

    @property
    def digest(self) -> str:
        """xxh3-128 of source and tokens, 32 hex digits."""
        return xxh3(canonical_json([self.source, self.tokens]))

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: str | Sequence[Any] | None = None,
        add_generation_prompt: bool = False,
        open_thinking: bool = False,
    ) -> str:
        """The text of a dialogue.

        Args:
            messages: role and content, and reasoning_content, tool_calls where there are any. Calls may be their JSON text.
            tools: a list, or its JSON text; without them those of the first turn, if it has `tools`.
            add_generation_prompt: end with what the assistant's next answer begins with.
            open_thinking: that answer is to begin with reasoning. Templates read it as `open_thinking` or `enable_thinking`.

        Raises:
            TemplateRefused: where the template raises, or cannot work with such a dialogue.
            ConfigError: where the template tries to leave the sandbox or goes over a limit.
        """
        if not messages:
            raise TemplateRefused("there are no turns to render")
        turns = [
            {name: _parsed(value) if name == "tool_calls" else value for name, value in message.items()}
            for message in messages
        ]
        given = {
            **dict(self.tokens),
            "messages": turns,
            "tools": _parsed(messages[0].get("tools") if tools is None else tools) or None,
            "add_generation_prompt": add_generation_prompt,
            "open_thinking": open_thinking,
            "enable_thinking": open_thinking,
        }
        environment, template = _compiled(self.source)
        try:
            with _ONE_AT_A_TIME:
                environment.meter = Meter(given)
                return template.render(given, raise_exception=called(_refuse))
        except (SecurityError, Exhausted) as error:
            raise self._broken(str(error)) from error
        except RecursionError:
            # A published template does so at a type of a tool that it does not know: the row's fault as much as its own.
            raise TemplateRefused("the template calls itself without end") from None
        except (TemplateError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            raise TemplateRefused(f"the template fails on it: {error}"[:200]) from error

    def _broken(self, why: str) -> ConfigError:
        return ConfigError(
            f"the chat template is refused: {why}",
            where=self.where,
            hint="name another file with --chat-template, or leave it out",
        )


@cache
def chatml() -> ChatTemplate:
    """The project's own template: MiniMind's and Qwen's layout, on which the chat recipes build."""
    return ChatTemplate(source=CHATML.read_text("utf-8"), where="chatml")


@lru_cache(maxsize=4)
def _compiled(source: str) -> tuple[Sandbox, Template]:
    environment = Sandbox()
    return environment, environment.template(source)


def _refuse(message: Any) -> NoReturn:
    """What templates know as raise_exception."""
    raise TemplateRefused(f"the template says: {str(message)[:150]}")


def _parsed(value: Any) -> Any:
    """The list that a text spells; what is no text as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else None
    except (ValueError, RecursionError):
        raise TemplateRefused("its tools or tool calls are a text that is no JSON") from None


# --------------------------------------------------------------------------- files
def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the chat template cannot be read ({getattr(error, 'strerror', None) or 'it is no UTF-8 text'})",
            where=str(file),
            hint=f"give a {CONFIG_FILE}, or a jinja2 file, with --chat-template",
        ) from error


def _config(text: str, file: Path) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise ConfigError("this is no JSON object", where=str(file), hint=f"give a {CONFIG_FILE} with --chat-template")
    return config


def _template(config: Mapping[str, Any], file: Path) -> str:
    """The template of a tokenizer_config.json; of several named ones that called `default`."""
    found = config.get("chat_template")
    if isinstance(found, list):
        named = [one.get("template") for one in found if isinstance(one, dict) and one.get("name") == "default"]
        found = named[0] if named else None
    if not isinstance(found, str):
        raise ConfigError(
            "it has no chat_template", where=str(file), hint="give a file that has one with --chat-template"
        )
    return found


def _tokens(config: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    values = {name: config.get(name) for name in _TOKENS}
    texts = {name: value.get("content") if isinstance(value, dict) else value for name, value in values.items()}
    return tuple((name, text) for name, text in texts.items() if isinstance(text, str))
