"""The dataset card: README.md with a header that Hugging Face reads, and for people what is in the export and how it came about.

Nothing in it is older or younger than the dataset: no clock, no host, no path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from shardkit.prepare.export.facts import UNKNOWN, Facts
from shardkit.prepare.export.formats.format import Format

CARD = "README.md"

_HUB_LICENCES = {
    name: name
    for name in (
        "apache-2.0", "mit", "openrail", "bsd", "bsd-2-clause", "bsd-3-clause", "cc", "cc0-1.0", "cc-by-2.0", "cc-by-2.5",
        "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0",
        "cc-by-nd-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0",
        "cdla-sharing-1.0", "cdla-permissive-1.0", "cdla-permissive-2.0", "wtfpl", "gpl", "gpl-2.0", "gpl-3.0", "lgpl",
        "agpl-3.0", "odc-by", "odbl", "pddl", "unlicense", "mpl-2.0",
    )
}  # fmt: skip
"""Names that the card's header knows; any other licence is `other` there, and named in full below."""
_TASKS = {
    "caption": "image-to-text", "ocr": "image-to-text", "interleaved": "image-text-to-text",
    "dialogue": "visual-question-answering", "preference": "reinforcement-learning",
}  # fmt: skip
"""Kind of relation -> task category of the header; dialogues without pictures are text-generation."""
_SIZES = (
    (1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"), (10_000_000, "1M<n<10M"),
    (100_000_000, "10M<n<100M"), (1_000_000_000, "100M<n<1B"), (10_000_000_000, "1B<n<10B"),
)  # fmt: skip
_LISTED = 50


def card(facts: Facts, form: Format, format_name: str) -> str:
    """The card as Markdown; every value of the header is written as JSON, which YAML reads."""
    header = {name: value for name, value in _header(facts, form).items() if value}
    lines = ["---", *(f"{name}: {orjson.dumps(value).decode()}" for name, value in header.items()), "---", ""]
    return "\n".join([*lines, *_body(facts, form, format_name)]) + "\n"


def _header(facts: Facts, form: Format) -> dict[str, Any]:
    counts = facts.counts
    known = [_HUB_LICENCES.get(name.lower(), "other") for name in facts.licences]
    known += ["unknown"] if counts.licences[UNKNOWN] else []
    licences = list(dict.fromkeys(known))
    tasks = sorted(
        {_TASKS.get(kind, "text-generation") if counts.images else "text-generation" for kind in counts.relations}
    )
    # A split without rows is not listed: `datasets` refuses a whole set for one.
    configs = [
        {"split": split, "path": [file.path for file in facts.files[split]]}
        for split, rows in _rows(facts, form).items()
        if rows
    ]
    return {
        "pretty_name": facts.name,
        "license": licences[0] if len(licences) == 1 else licences,
        "license_name": ", ".join(facts.licences) if "other" in licences else None,
        "language": list(facts.languages),
        "task_categories": tasks,
        "size_categories": next((name for least, name in _SIZES if counts.examples < least), "n>1T"),
        "tags": ["shardkit", *(["image"] if counts.images else []), "text"],
        "configs": [{"config_name": "default", "data_files": configs}] if form.configs and configs else None,
    }


def _rows(facts: Facts, form: Format) -> dict[str, int]:
    """Split, as the format calls it -> its examples."""
    found = dict.fromkeys(facts.files, 0)
    for split, count in facts.counts.by_split.items():
        found[form.split_name(split)] += count
    return found


def _body(facts: Facts, form: Format, format_name: str) -> Iterator[str]:
    counts, about = facts.counts, facts.about
    yield f"# {_cell(facts.name)}"
    yield ""
    yield f"{counts.examples} examples with {counts.images} images, exported by shardkit as {format_name}: {form.about}."
    yield f"It is the dataset `{facts.dataset_id}`; `shardkit-export.json` has every file with its sha256."
    yield ""
    yield from (f"- {line}" for line in _about(about.url, about.creators, about.published))
    yield ""
    yield "Read it with"
    yield ""
    yield f"    {form.read.format(path='FOLDER')}"
    yield ""
    yield "## Splits"
    yield ""
    rows = _rows(facts, form).items()
    yield from _table(("split", "examples", "files"), ((s, n, len(facts.files[s])) for s, n in rows))
    yield "## Sources and licences"
    yield ""
    yield from _table(("source", "examples"), sorted(counts.by_source.items()))
    yield from _table(("licence", "images"), _frequent(counts.licences))
    yield from _table(("kind of relation", "relations"), sorted(counts.relations.items()))
    yield from _table(("annotator", "relations"), _frequent(counts.annotators))
    if counts.languages:
        yield "Languages are what the rows declare, else what a classifier finds in the beginning of their text."
        yield ""
        yield from _table(("language", "examples"), _frequent(counts.languages))
    yield "## How it was made"
    yield ""
    yield "From the newest stage back. Rows that a stage read are the rows that it kept and those that it left out."
    yield ""
    yield from _table(
        ("stage", "dataset", "read", "kept", "left out, and why"),
        ((a.stage, a.dataset_id[:16], a.read, a.kept, _reasons(a.excluded)) for a in facts.stages),
    )
    missing = sorted({name for account in facts.stages for name in account.missing})
    if missing:
        yield f"What came before could not be reached: {', '.join(name[:16] for name in missing)}."
        yield ""
    yield from _fields(facts)
    if about.citation:
        yield from ("## Citation", "", *(f"    {line}" for line in about.citation.splitlines()), "")


def _fields(facts: Facts) -> Iterator[str]:
    yield "## Fields"
    yield ""
    yield "`text` has an `<image>` mark for each entry of `images`, in order; `image_sizes` are [height, width] in pixels, upright."
    yield "`ocr_labels` are token ids and `reading_order` is the patch order, one list an image."
    yield "`_shardkit` has the segments, relations, layout, metadata and origins, from which `shardkit ingest rows` makes the same examples."
    if facts.counts.other_ids:
        yield (
            f"{facts.counts.other_ids} of them get another example id then: their pictures lost bytes that are no picture "
            "(EXIF, comments) when they were taken in."
        )
    yield "Pictures are the stored bytes, never encoded again."
    yield ""


def _about(url: str | None, creators: tuple[str, ...], published: str | None) -> Iterator[str]:
    if url:
        yield f"home: <{url}>"
    if creators:
        yield f"made by: {', '.join(map(_cell, creators))}"
    if published:
        yield f"published: {published}"


def _frequent(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """The most frequent first; of many the rest in one line."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = ordered[_LISTED:]
    return ordered[:_LISTED] + ([(f"{len(rest)} more", sum(count for _, count in rest))] if rest else [])


def _reasons(excluded: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(excluded.items())) or "none"


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> Iterator[str]:
    found = list(rows)
    if found:
        yield f"| {' | '.join(head)} |"
        yield f"|{' --- |' * len(head)}"
        yield from (f"| {' | '.join(map(_cell, row))} |" for row in found)
        yield ""


def _cell(value: object) -> str:
    """A value as it may stand in a table: names come from data, and may hold anything."""
    text = "".join(sign if sign.isprintable() else " " for sign in str(value))
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")[:200]
