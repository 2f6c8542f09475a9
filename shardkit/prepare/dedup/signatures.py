"""The first reading: a 64-bit key for each row and level, and sizes for the totals. 64 bits find, they do not decide."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import orjson
import xxhash

from shardkit.digest import canonical_json
from shardkit.engine import Progress, map_ordered
from shardkit.prepare.dedup import MATCHERS
from shardkit.prepare.dedup.facts import Facts
from shardkit.prepare.dedup.inputs import Inputs, Positions, Slice, facts_of
from shardkit.prepare.dedup.keys import Keys, asset_key
from shardkit.prepare.dedup.names import Codes, Names, coded
from shardkit.text.language import LOOKED_AT, declared, identify

NAMED = np.uint64(2**64 - 1)
DOCUMENT_KINDS = frozenset({"interleaved"})
"""Relations of a document; text alone has none."""
SHORT = 32
"""Characters: so short a text agrees with its equal only, see near.CHARACTER_ERRORS."""
_CURRENCY = r"$\u00a2-\u00a5\u058f\u060b\u07fe\u07ff\u09f2\u09f3\u09fb\u0af1\u0bf9\u0e3f\u17db\u20a0-\u20cf\ua838\ufdfc"
_FIGURE = re.compile(rf"\d+|[{_CURRENCY}]")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Signed:
    """What is known of N rows after the first reading."""

    keys: dict[str, Keys]
    """Level -> [N] key of the signature; 0 where the row matches nothing."""
    removable: dict[str, npt.NDArray[np.bool_]]
    """Level -> [N] whether the level may remove the row."""
    pictures: Keys
    """[N] key of the list of pixel ids; 0 without an image."""
    texts: Keys
    """[N] key of the compared text; 0 without one."""
    sources: npt.NDArray[np.int32]
    """[N] index into `names`."""
    names: tuple[str, ...]
    """Source names, ascending."""
    images: npt.NDArray[np.int32]
    pixels: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]
    """[N] each: number of images, their pixels, payload bytes."""
    image_rows: Positions
    """[M] the row of each image."""
    image_keys: Keys
    """[M] its asset key."""
    image_pixels: Keys
    """[M] key of its pixel id."""
    figures: Keys
    """[N] see figures_key"""
    lengths: npt.NDArray[np.int64]
    """[N] characters of the compared text."""
    languages: Codes
    """[N] index into `language_names`."""
    language_names: tuple[str, ...]
    """Ascending: what a row's metadata declares as `language` or `lang`, else what its text looks like; `und` for none."""
    documents: npt.NDArray[np.bool_]
    """[N] whether it is a document, of DOCUMENT_KINDS, with several lines."""
    roles: Keys
    """[N] key of who speaks when, 0 where nobody does; `NAMED` for texts that are compared whole or not at all."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Part:
    positions: Positions
    numbers: npt.NDArray[np.uint64]
    """[n, levels + 4] keys, then picture, text, figures and roles."""
    flags: npt.NDArray[np.bool_]
    """[n, levels + 1] whether each may remove the row, then whether it is a document of several lines."""
    sizes: npt.NDArray[np.int64]
    """[n, 4]"""
    sources: tuple[list[str], Codes]
    languages: tuple[list[str], Codes]
    image_keys: Keys
    image_pixels: Keys


def key_of(data: bytes | None) -> int:
    """xxh3-64, never 0; 0 for None."""
    return 0 if data is None else xxhash.xxh3_64_intdigest(data) or 1


def sign_slice(levels: tuple[str, ...], piece: Slice) -> _Part:
    """Keys of the rows of a slice; run by a worker."""
    numbers, flags, sizes, sources, image_keys, pixels = [], [], [], [], [], []
    spoken: list[tuple[str | None, str]] = []
    for facts in facts_of(piece):
        matchers = [MATCHERS[level] for level in levels]
        numbers.append([*(key_of(m.signature(facts)) for m in matchers), *(key(facts) for key in _KEYS)])
        flags.append([*(matcher.removable(facts) for matcher in matchers), _is_document(facts)])
        sizes.append([len(facts.assets), facts.num_pixels, facts.num_bytes, len(facts.text)])
        spoken.append(spoken_in(facts))
        sources.append(facts.source)
        image_keys += [asset_key(*image) for image in zip(facts.assets, facts.frames, strict=True)]
        pixels += [int(pixel[:16], 16) for pixel in facts.pixels]
    return _Part(
        positions=piece.positions,
        languages=coded(languages_of(spoken)),
        numbers=np.array(numbers, np.uint64),
        flags=np.array(flags, np.bool_),
        sizes=np.array(sizes, np.int64),
        sources=coded(sources),
        image_keys=np.array(image_keys, np.uint64),
        image_pixels=np.array(pixels, np.uint64),
    )


def _is_document(facts: Facts) -> bool:
    return (
        DOCUMENT_KINDS.issuperset(facts.kinds)
        and not facts.roles
        and sum(len(text.splitlines()) for text in facts.texts) > 1
    )


def spoken_in(facts: Facts) -> tuple[str | None, str]:
    """The language that the metadata declares, and where it declares none the beginning of the text."""
    declared = _declared_language(facts)
    return declared, "" if declared else facts.raw_text.lstrip()[:LOOKED_AT]


def languages_of(spoken: Sequence[tuple[str | None, str]]) -> list[str]:
    """The language of each row, declared or identified from its text; the model is loaded where one is not declared."""
    found = identify(text for declared, text in spoken if declared is None)
    codes = iter(found)
    return [next(codes)[0] if declared is None else declared for declared, _ in spoken]


def _declared_language(facts: Facts) -> str | None:
    return declared(orjson.loads(facts.metadata)) if "lang" in facts.metadata else None


def _picture(facts: Facts) -> int:
    return key_of(canonical_json(facts.pixels) if facts.pixels else None)


def _text(facts: Facts) -> int:
    return key_of(facts.text.encode() if facts.text else None)


def figures_key(facts: Facts) -> int:
    """Pages are compared only where it is equal: numbers and currency signs of the text, of a short one the whole text;
    0 without an image or a text."""
    if not (facts.pixels and facts.text):
        return 0
    return key_of((facts.text if len(facts.text) <= SHORT else " ".join(figures(facts.text))).encode())


def figures(text: str) -> list[str]:
    """Numbers and currency signs of a compared text, whatever their order."""
    return sorted(_FIGURE.findall(text))


def _roles(facts: Facts) -> int:
    return int(NAMED) if facts.named else key_of(facts.roles or None)


_KEYS = (_picture, _text, figures_key, _roles)


def sign(inputs: Inputs, levels: tuple[str, ...], *, workers: int, on_progress: Progress) -> Signed:
    """Read all rows once."""
    num_rows, total = inputs.num_rows, sum(len(dataset.shards) for dataset in inputs.datasets)
    numbers = np.zeros((len(levels) + len(_KEYS), num_rows), np.uint64)
    flags = np.zeros((len(levels) + 1, num_rows), np.bool_)
    sizes = np.zeros((4, num_rows), np.int64)
    sources, languages = Names(num_rows), Names(num_rows)
    image_rows, image_keys, image_pixels = [np.empty(0, np.int64)], [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for done, part in enumerate(_parts(inputs, levels, workers), 1):
        numbers[:, part.positions] = part.numbers.T
        flags[:, part.positions] = part.flags.T
        sizes[:, part.positions] = part.sizes.T
        sources.put(part.positions, *part.sources)
        languages.put(part.positions, *part.languages)
        image_rows.append(np.repeat(part.positions, part.sizes[:, 0]))
        image_keys.append(part.image_keys)
        image_pixels.append(part.image_pixels)
        on_progress(done, total, "reading")
    codes, names = sources.sorted()
    language_codes, language_names = languages.sorted()
    return Signed(
        keys=dict(zip(levels, numbers[: len(levels)], strict=True)),
        removable=dict(zip(levels, flags[:-1], strict=True)),
        documents=flags[-1],
        pictures=numbers[-4],
        texts=numbers[-3],
        figures=numbers[-2],
        roles=numbers[-1],
        sources=codes.astype(np.int32),
        names=names,
        images=sizes[0].astype(np.int32),
        pixels=sizes[1],
        bytes=sizes[2],
        lengths=sizes[3],
        languages=language_codes,
        language_names=language_names,
        image_rows=np.concatenate(image_rows),
        image_keys=np.concatenate(image_keys),
        image_pixels=np.concatenate(image_pixels),
    )


def _parts(inputs: Inputs, levels: tuple[str, ...], workers: int) -> Iterator[_Part]:
    return map_ordered(partial(sign_slice, levels), inputs.slices(), workers=workers)
