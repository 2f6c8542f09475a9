"""A tokenizer.json, read so that data can never speak in control tokens.

tokenizer.json -> all tokens  -> decode, token_id        what the model reads
               -> data tokens -> encode, encode_batch    what a text may become
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import orjson
from tokenizers import Tokenizer as Backend

from shardkit.digest import canonical_json, xxh3
from shardkit.errors import ConfigError
from shardkit.text.definition import (
    data_definition,
    keeps_every_text,
    next_id,
    spelling,
    unknown_id,
    with_added_tokens,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

TOKENIZER_FILE = "tokenizer.json"
CONFIG_FILE = "tokenizer_config.json"


class Tokenizer:
    """Ids of data texts, and the ids of control tokens by name.

    A control token is every added token of the file, special or not: the tokenizers library finds such a token inside
    any text, also one that it calls not special. Data is therefore encoded with a second tokenizer, made from the same
    file without them; a control string inside data becomes the ordinary pieces that it is spelled with. Only a model
    without an alphabet of its own (WordPiece, WordLevel, Unigram) still says its unknown token of what it cannot spell.

    Args:
        definition: the parsed tokenizer.json. Truncation and padding in it are ignored.
        config: the bytes of the tokenizer_config.json beside it, if there is one; carried along, never interpreted.
        where: the file's place, for messages.
    """

    def __init__(self, definition: dict[str, Any], *, config: bytes | None = None, where: str = "") -> None:
        self._definition = {**definition, "truncation": None, "padding": None}
        self._config = config
        self._where = where
        self._full = _backend(self._definition, where)
        self.controls: Mapping[str, int] = MappingProxyType(
            {token["content"]: int(token["id"]) for token in self._definition.get("added_tokens") or ()}
        )
        """Control tokens by name, in the file's order."""
        for name, token in self.controls.items():
            if self._full.token_to_id(name) != token:
                raise ConfigError(
                    f"the added token {name!r} is given id {token}, but its text has id {self._full.token_to_id(name)}",
                    where=where,
                    hint="give a consistent tokenizer.json with --tokenizer",
                )
        plain = data_definition(self._definition)
        self._data = _backend(plain, where)
        self._never = frozenset(self.controls.values()) - {unknown_id(self._definition)}
        self._names = {token: name for name, token in self.controls.items()}
        self.lossless = keeps_every_text(plain)
        """Whether decode(encode(text)) is the text, whatever the text: byte-level BPE with all 256 bytes."""
        self.vocab_size = next_id(self._definition)
        """One more than the highest id: the rows that an embedding needs, holes included."""
        self.digest = xxh3(canonical_json(self._definition))
        """xxh3-128 of the definition's canonical JSON: spacing, key order and the config file do not count."""

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """The tokenizer in a folder, or in a tokenizer.json itself; tokenizer_config.json is taken from beside it."""
        file = Path(path) / TOKENIZER_FILE if Path(path).is_dir() else Path(path)
        try:
            data = file.read_bytes()
            config = file.with_name(CONFIG_FILE).read_bytes() if file.with_name(CONFIG_FILE).exists() else None
        except OSError as error:
            raise ConfigError(
                f"the tokenizer cannot be read ({error.strerror})",
                where=str(file),
                hint="give a tokenizer.json, or the folder that holds one",
            ) from error
        try:
            definition = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise _not_a_tokenizer(str(file), str(error)) from error
        model = definition.get("model") if isinstance(definition, dict) else None
        if not isinstance(model, dict) or "type" not in model:
            raise _not_a_tokenizer(str(file), "it names no model type")
        return cls(definition, config=config, where=str(file))

    def with_controls(self, names: Iterable[str]) -> Tokenizer:
        """This tokenizer with `names` as control tokens too; new ones get the next ids, in the order given.

        A name that the vocabulary already holds as an ordinary entry becomes a control token under the id it has.
        """
        missing = [name for name in dict.fromkeys(names) if name not in self.controls]
        if not missing:
            return self
        return Tokenizer(with_added_tokens(self._definition, missing), config=self._config, where=self._where)

    @cached_property
    def entries(self) -> Mapping[str, int]:
        """The vocabulary without control tokens, as the file spells it: what texts can be encoded to."""
        vocab = self._definition["model"]["vocab"]
        every = vocab.items() if isinstance(vocab, dict) else ((piece, i) for i, (piece, _) in enumerate(vocab))
        return MappingProxyType({name: i for name, i in every if i not in self._never})

    @cached_property
    def spellings(self) -> frozenset[bytes]:
        """The entries as what they stand for, so that vocabularies of different kinds can be compared."""
        return frozenset(spelling(self._definition, name) for name in self.entries)

    def token_id(self, name: str) -> int | None:
        """The id of the control token `name`, or None; ordinary vocabulary entries are not looked up."""
        return self.controls.get(name)

    def encode(self, text: str) -> list[int]:
        """The ids of a data text; never a control token's."""
        with _spelling(self._where):
            ids = self._data.encode(text, add_special_tokens=False).ids
        return self._checked(ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text."""
        with _spelling(self._where):
            encodings = self._data.encode_batch_fast(list(texts), add_special_tokens=False)
        found = [encoding.ids for encoding in encodings]
        if not self._never.isdisjoint(chain.from_iterable(found)):
            for ids in found:
                self._checked(ids)
        return found

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; control tokens come out as their names."""
        return str(self._full.decode(list(ids), skip_special_tokens=False))

    def keeps(self, text: str, ids: Sequence[int]) -> bool:
        """Whether `ids`, the encoding of `text`, decode to it; a vocabulary with gaps drops what it cannot spell."""
        return self.lossless or self.decode(ids) == text

    def files(self) -> dict[str, bytes]:
        """The tokenizer as files that `load` reads back to this one, added control tokens included."""
        files = {TOKENIZER_FILE: orjson.dumps(self._definition, option=orjson.OPT_INDENT_2)}
        return files if self._config is None else {**files, CONFIG_FILE: self._config}

    def __reduce__(self) -> tuple[object, ...]:
        # The two backends are cheap to build beside shipping them, and this form is the same in every version.
        return (_rebuild, (self._definition, self._config, self._where))

    def _checked(self, ids: list[int]) -> list[int]:
        # The data tokenizer cannot make a control id by construction; a forged image slot would cost more than this look.
        if not self._never.isdisjoint(ids):
            name = next(self._names[token] for token in ids if token in self._never)
            raise ConfigError(
                f"data text was encoded to the control token {name!r}",
                where=self._where,
                hint="use another tokenizer with --tokenizer",
            )
        return ids


@contextmanager
def _spelling(where: str) -> Iterator[None]:
    """Say of a text that the model cannot spell, and has no unknown token for, what the library says without a kind."""
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:
            raise
        raise ConfigError(
            f"the tokenizer cannot encode a text ({error})", where=where, hint="use another tokenizer with --tokenizer"
        ) from error


def _backend(definition: dict[str, Any], where: str) -> Backend:
    try:
        return Backend.from_str(orjson.dumps(definition).decode())
    except Exception as error:
        # The library raises the bare class for every malformed definition; anything narrower is a bug of its own.
        if type(error) is not Exception:
            raise
        raise _not_a_tokenizer(where, str(error)) from error


def _not_a_tokenizer(where: str, why: str) -> ConfigError:
    return ConfigError(
        f"this is not a tokenizer of the tokenizers library ({why})",
        where=where,
        hint="give a tokenizer.json, or the folder that holds one",
    )


def _rebuild(definition: dict[str, Any], config: bytes | None, where: str) -> Tokenizer:
    return Tokenizer(definition, config=config, where=where)
