"""From findings to rows left out and evidence written: pure, one item of a benchmark beside one row at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from shardkit.prepare.decontaminate.find import Finding
from shardkit.prepare.decontaminate.items import Bench, Item
from shardkit.prepare.decontaminate.reasons import COMMON, CONTAMINATED, REVIEW
from shardkit.prepare.dedup.near import agrees
from shardkit.prepare.dedup.signatures import figures
from shardkit.text.excerpt import excerpt
from shardkit.text.normalize import normalize

COMMON_LISTED = 3
"""Rows that evidence lists of a common item; how many there are stands beside them."""
_EXCERPT = 200
_LEAD = 24
"""Characters of a passage by which its place in a text is found."""


@dataclass(kw_only=True, slots=True)
class Verdicts:
    """What all findings come to."""

    evidence: list[Finding] = field(default_factory=list)
    """By item, then row; of common items the first rows."""
    occurrences: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    """(item, kind, verdict) -> rows."""
    worst: dict[int, Finding] = field(default_factory=dict)
    """Row -> why it is contaminated: a picture rather than a text, the better score."""
    items: Sequence[Item] = ()
    owner: Sequence[int] = ()
    """Benchmark of each item."""


def collect(findings: Iterable[Finding], benches: Sequence[Bench]) -> Verdicts:
    """Judge pages, count, and keep what is to be written.

    Args:
        findings: in the order of rows.
    """
    made = Verdicts(
        items=[item for bench in benches for item in bench.items],
        owner=[number for number, bench in enumerate(benches) for _ in bench.items],
    )
    for found in findings:
        finding = _page(found, made.items[found.item]) if found.is_page else found
        key = (finding.item, finding.kind, finding.verdict)
        made.occurrences[key] += 1
        if finding.verdict != COMMON or made.occurrences[key] <= COMMON_LISTED:
            made.evidence.append(replace(finding, text=_shown(finding, made.items[finding.item])))
        if finding.verdict == CONTAMINATED:
            before = made.worst.get(finding.position)
            if before is None or _rank(finding) > _rank(before):
                made.worst[finding.position] = made.evidence[-1]
    made.evidence.sort(key=lambda one: (one.item, one.position, one.kind))
    return made


def _rank(finding: Finding) -> tuple[bool, float, int]:
    return finding.kind == "image", finding.score, -finding.item


def _page(finding: Finding, item: Item) -> Finding:
    """Two pages that look alike are one where their texts agree; without a text, a person has to look."""
    one, other = normalize(item.text), finding.text
    if one and other:
        same = agrees(one, other) and figures(one) == figures(other)
        return replace(finding, verdict=CONTAMINATED if same else REVIEW)
    return replace(finding, verdict=REVIEW)


def _shown(finding: Finding, item: Item) -> str:
    """The part of the matched text that an evidence row shows."""
    if not finding.text:
        return ""
    folded = " ".join(finding.text.split())
    for part in (item.question, item.context, *item.answers):
        lead = " ".join(part.split())[:_LEAD]
        at = folded.casefold().find(lead.casefold()) if lead else -1
        if at >= 0:
            return excerpt(folded[at:], _EXCERPT)
    return excerpt(folded, _EXCERPT)


def removed_rows(made: Verdicts, num_rows: int) -> npt.NDArray[np.bool_]:
    """[N] rows that hold an item."""
    flags = np.zeros(num_rows, np.bool_)
    flags[list(made.worst)] = True
    return flags


def by_benchmark(made: Verdicts, benches: Sequence[Bench], searchable: Sequence[bool]) -> dict[str, dict[str, object]]:
    """Name -> digest, items, items that can be looked for, items by verdict, and examples that hold one.

    An item counts once, under the gravest of its verdicts.
    """
    gravest: dict[int, str] = {}
    for verdict in (COMMON, REVIEW, CONTAMINATED):
        gravest |= {item: verdict for item, _, found in made.occurrences if found == verdict}
    holders: dict[int, set[int]] = {number: set() for number in range(len(benches))}
    for finding in made.evidence:
        if finding.verdict == CONTAMINATED:
            holders[made.owner[finding.item]].add(finding.position)
    table: dict[str, dict[str, object]] = {}
    first = 0
    for number, bench in enumerate(benches):
        own = range(first, first + len(bench.items))
        first += len(bench.items)
        counts = Counter(gravest[item] for item in own if item in gravest)
        table[bench.name] = {
            "digest": bench.digest,
            "items": len(bench.items),
            "searchable": sum(searchable[item] for item in own),
            **{verdict: counts[verdict] for verdict in (CONTAMINATED, COMMON, REVIEW)},
            "examples": len(holders[number]),
        }
    return table
