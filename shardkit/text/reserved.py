"""The control tokens that a trained tokenizer begins with, and the file that names others.

    0 .. 20    special       <|endoftext|> <|im_start|> <|im_end|> ... left out where a decoder skips special tokens
    21 .. 26   functional    <tool_call> ... </think>, part of what a model says: a decoder keeps them
    27 .. 35   buffers       <|buffer1|> ... for later use, so that no id moves and no embedding grows

A functional token or a buffer has special=false, which says only that a decoder does not skip it. No kind is ever made of
data text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError
from shardkit.records.toml_file import read_toml

SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>",
    "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>",
    "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
    "<|audio_start|>", "<|audio_end|>", "<|audio_pad|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>", "<tts_text_bos_single>",
)  # fmt: skip
FUNCTIONAL = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
ROLES = ("pad", "unk", "bos", "eos")
_HINT = "write special = [...], functional = [...], buffers = 9 and the names of pad, unk, bos, eos"


def buffer_names(number: int) -> tuple[str, ...]:
    return tuple(f"<|buffer{place}|>" for place in range(1, number + 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class Reserved:
    """Control tokens in the order of their ids, from 0 on."""

    special: tuple[str, ...] = SPECIAL
    functional: tuple[str, ...] = FUNCTIONAL
    buffers: tuple[str, ...] = buffer_names(9)
    roles: Mapping[str, str] = field(
        default_factory=lambda: {
            "pad": "<|endoftext|>",
            "unk": "<|endoftext|>",
            "bos": "<|im_start|>",
            "eos": "<|im_end|>",
        }
    )
    """Of ROLES, the control token that tokenizer_config.json names; a role may be left out."""

    def __post_init__(self) -> None:
        names = self.names
        for name in names:
            if not name or not name.isprintable() or names.count(name) > 1:
                why = "comes twice" if names.count(name) > 1 else "is empty or cannot be printed"
                raise ConfigError(f"the control token {name!r} {why}", hint="name each control token once")
        for role, name in self.roles.items():
            if role not in ROLES:
                raise ConfigError(f"there is no role {role!r}; there are {', '.join(ROLES)}", hint=_HINT)
            if name not in names:
                raise ConfigError(f"{role} = {name!r} is none of the control tokens", hint="add it to special = [...]")

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.special, *self.functional, *self.buffers)

    def to_json(self) -> dict[str, Any]:
        return {
            "special": list(self.special),
            "functional": list(self.functional),
            "buffers": list(self.buffers),
            **{role: self.roles[role] for role in ROLES if role in self.roles},
        }


def read_reserved(file: Path) -> Reserved:
    """The control tokens that a TOML or JSON file names; kinds that it leaves out are empty, and roles have none.

    `buffers` is a number, or a list of names.

    Raises:
        ConfigError: where the file cannot be read, or names them in another form.
    """
    find = "give a TOML or JSON file"
    if file.suffix == ".json":
        body = _read_json(file, find)
    else:
        body = read_toml(file, "the file of control tokens", find=find, write=_HINT)
    try:
        return _reserved(body)
    except ConfigError as error:
        raise ConfigError(error.what, where=str(file), hint=error.hint) from None


def _read_json(file: Path, find: str) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            f"the file of control tokens cannot be read ({error.strerror})", where=str(file), hint=find
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the file of control tokens is no JSON ({error})", where=str(file), hint=_HINT) from error


def _reserved(body: Any) -> Reserved:
    known = ("special", "functional", "buffers", *ROLES)
    if not isinstance(body, dict) or not set(body) <= set(known):
        named = sorted(set(body) - set(known)) if isinstance(body, dict) else []
        what = f"there is no setting {named[0]!r} here; there are {', '.join(known)}" if named else "this is no table"
        raise ConfigError(what, hint=_HINT)
    kinds: dict[str, tuple[str, ...]] = {}
    for kind in ("special", "functional", "buffers"):
        value = body.get(kind, [])
        if kind == "buffers" and type(value) is int and 0 <= value <= 1 << 16:
            value = list(buffer_names(value))
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise ConfigError(f"{kind} is no list of names", hint=_HINT)
        kinds[kind] = tuple(value)
    roles = {role: body[role] for role in ROLES if role in body}
    if not all(isinstance(name, str) for name in roles.values()):
        raise ConfigError("a role is no name of a control token", hint=_HINT)
    return Reserved(**kinds, roles=roles)
