"""The pages of a report: each takes what the tables of the stages say, and shows the first of it.

overview    accounts from the raw rows on, shares, sizes            clusters    what dedup joined and removed
exclusions  by stage and reason, with samples                       near        pairs that look alike and stayed
split       shares asked and given, boilerplate, conflicts          leaks       what audit finds on two sides
benchmarks  what decontaminate found
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.prepare.audit.config import AuditResult
from shardkit.prepare.report.site.markup import Html, cards, excerpt, facts, heading, line, table
from shardkit.prepare.report.site.shown import Gallery
from shardkit.store.dataset import Dataset

_MEMBERS = 8
"""Rows of one cluster that are shown."""
_VALUES = 40
"""Rows of a table of shares."""


def overview(dataset: Dataset, figures: Mapping[str, Any]) -> Iterator[Html]:
    """What it is, and what became of every raw row."""
    yield facts({"dataset": dataset.id, "made by": dataset.stage, "splits": ", ".join(dataset.splits)})
    accounts = figures["accounts"]
    yield heading("From the raw rows on")
    yield table(
        ("stage", "dataset", "read", "kept", "excluded"),
        (
            (one["stage"], one["id"][:12], one["read"], one["kept"], one["excluded"])
            for one in reversed(accounts["stages"])
        ),
    )
    unknown = accounts["rows_of_missing_inputs"]
    yield line(
        f"{accounts['raw_rows']:,} raw rows"
        + (f" and {unknown:,} rows of inputs that were not found" if unknown else "")
        + f" = {accounts['final_rows']:,} here and {accounts['num_excluded']:,} excluded on the way"
    )
    yield heading("By source and split")
    units = ("examples", "images", "pixels", "bytes", "sequences", "tokens")
    rows = [
        (f"{source} / {split}", *(cell.get(unit) for unit in units))
        for source, cells in figures["by_source_and_split"].items()
        for split, cell in cells.items()
    ]
    yield _capped(("source / split", *units), rows, _VALUES)
    for name, values in figures["shares"].items():
        yield heading(f"Shares by {name}")
        columns = sorted({unit for one in values.values() for unit in one["shares"]})
        yield _capped(
            (name, *columns),
            [(key, *(one["shares"].get(unit) for unit in columns)) for key, one in values.items()],
            _VALUES,
        )
    yield heading("Licences and languages")
    yield _capped(("licence", "rows"), list(figures["licences"].items()), _VALUES)
    yield _capped(("language", "examples"), list(figures["languages"]["examples"].items()), _VALUES)
    yield heading("Sizes")
    measured = {name: values for name, values in figures.items() if isinstance(values, dict) and "median" in values}
    columns = list(next(iter(measured.values()), {}))
    yield table(("", *columns), ((name, *(values.get(key) for key in columns)) for name, values in measured.items()))
    yield heading("Recipe")
    yield facts({key: _short(value) for key, value in dataset.recipe.items()})


def exclusions(datasets: Sequence[Dataset], *, shown: int) -> Iterator[Html]:
    """Samples of each reason, stage by stage."""
    for dataset in datasets:
        reasons = dataset.manifest.counts["excluded_by_reason"]
        if not reasons:
            continue
        yield heading(f"{dataset.stage} {dataset.id[:12]}")
        samples: dict[str, list[dict[str, Any]]] = {reason: [] for reason in reasons}
        missing = sum(min(shown, count) for count in reasons.values())
        for text in dataset.exclusions():
            if not missing:
                break
            row = orjson.loads(text)
            mine = samples.setdefault(row["reason"], [])
            if len(mine) < shown:
                mine.append(row)
                missing -= 1
        for reason, rows in samples.items():
            yield line(f"{reason}: {reasons.get(reason, 0):,}{_first(len(rows), reasons.get(reason, 0))}")
            yield table(
                ("input", "position", "detail"),
                ((excerpt(row["input"]), excerpt(row["position"]), excerpt(row["detail"])) for row in rows),
            )


def clusters(dataset: Dataset, gallery: Gallery, *, shown: int) -> Iterator[Html]:
    """What was joined: the rows that stay first, then those that were removed, with what decided."""
    members = dataset.table("clusters", ["cluster", "example_id", "source", "shard_index", "row", "kept"])
    edges = dataset.table("edges", ["level", "score", "kept_id", "removed_id"])
    numbers = np.asarray(members["cluster"].to_numpy(), np.int64)
    sizes = np.bincount(numbers) if len(numbers) else np.empty(0, np.int64)
    largest = np.lexsort((np.arange(len(sizes)), -sizes))[:shown].tolist()
    removed = int(pc.sum(pc.invert(members["kept"])).as_py() or 0)
    yield line(f"{len(sizes):,} clusters, {removed:,} rows removed{_first(len(largest), len(sizes), 'by size')}")
    levels = Counter(edges["level"].to_pylist())
    yield table(("level", "edges"), sorted(levels.items()))
    by_cluster = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[by_cluster], np.arange(len(sizes) + 1))
    for number in largest:
        rows = members.take(pa.array(by_cluster[starts[number] : starts[number + 1]])).to_pylist()
        rows.sort(key=lambda row: not row["kept"])
        yield heading(f"cluster {number}: {len(rows):,} rows{_first(min(len(rows), _MEMBERS), len(rows))}")
        ids = pa.array([row["example_id"] for row in rows[:_MEMBERS]], pa.string())
        why = {
            edge["removed_id"]: f"{edge['level']} {edge['score']:.3f}, like {edge['kept_id'][:12]}"
            for edge in edges.filter(pc.is_in(edges["removed_id"], ids)).to_pylist()
        }
        yield cards(
            gallery.at(
                row["shard_index"],
                row["row"],
                "kept" if row["kept"] else f"removed: {why.get(row['example_id'], 'equal')}",
                gone=not row["kept"],
            )
            for row in rows[:_MEMBERS]
        )


def near(dataset: Dataset, gallery: Gallery, *, shown: int) -> Iterator[Html]:
    """Pairs that dedup found near and did not remove."""
    found = dataset.table("near")
    outcomes = Counter(found["outcome"].to_pylist())
    yield table(("outcome", "pairs"), sorted(outcomes.items()))
    best = found.take(pc.sort_indices(found, [("score", "descending")])[:shown])
    yield line(f"{found.num_rows:,} pairs{_first(best.num_rows, found.num_rows, 'by score')}")
    for pair in best.to_pylist():
        yield line(f"{pair['level']} {pair['score']:.3f}, {pair['outcome']}: {excerpt(pair['evidence'] or '')}")
        yield cards([gallery.of_id(pair["example_id"]), gallery.of_id(pair["other_id"])])


def benchmarks(dataset: Dataset, gallery: Gallery, *, shown: int) -> Iterator[Html]:
    """What is in benchmarks, too."""
    found = dataset.table("evidence")
    verdicts = Counter(zip(found["benchmark"].to_pylist(), found["verdict"].to_pylist(), strict=True))
    yield table(("benchmark", "verdict", "hits"), ((*key, count) for key, count in sorted(verdicts.items())))
    yield line(f"{found.num_rows:,} hits{_first(min(shown, found.num_rows), found.num_rows)}")
    for hit in found.slice(0, shown).to_pylist():
        yield line(
            f"{hit['benchmark']} {hit['item']}: {hit['kind']} {hit['measure']} {hit['score']:.3f}, {hit['verdict']}: "
            f"{excerpt(hit['excerpt'] or '')}"
        )
        if hit["example_id"]:
            yield cards([gallery.of_id(hit["example_id"])])


def split(dataset: Dataset, *, shown: int) -> Iterator[Html]:
    """What the split was asked for and gave, what ties nothing, what did not go as asked."""
    report = dataset.manifest.report
    for note in report["notes"]:
        yield line(note, kind="bad")
    head = ("", "split", "asked", "examples", "groups", "share", "deviation")
    yield heading("Splits")
    yield table(head[1:], ((name, *(report["splits"][name][key] for key in head[2:])) for name in dataset.splits))
    yield facts({**report["groups"], "method": report["method"]})
    for name in ("by_source", "by_language"):
        yield heading(name.replace("_", " "))
        rows = [
            (key, split_, *(cell[column] for column in head[3:]))
            for key, cells in report[name].items()
            for split_, cell in ((one, cells[one]) for one in dataset.splits)
        ]
        yield _capped((head[0], *head[1:2], *head[3:]), rows, 3 * _VALUES)
    yield heading("Streaming order: the worst share of a source over the first shards")
    yield table(
        ("split", "shards", "worst deviation", "source", "after shards"),
        (
            (name, one["shards"], one["worst_deviation"], one["source"], one["after_shards"])
            for name, one in report["prefixes"].items()
        ),
    )
    yield heading("Groups larger than a split, conflicts with an older split")
    yield _capped(("group", "examples"), [tuple(one.values()) for one in report["oversized"]["listed"]], shown)
    yield _capped(
        ("group", "placed", "takes", "left out"),
        [(one["component"], one["placed"], one["takes"], one["left_out"]) for one in report["conflicts"]["listed"]],
        shown,
    )
    if dataset.has_table("boilerplate"):
        rows_ = dataset.table("boilerplate")
        yield heading("Boilerplate: in so many groups that it ties nothing")
        yield line(f"{rows_.num_rows:,} values{_first(min(shown, rows_.num_rows), rows_.num_rows)}")
        yield table(
            ("kind", "value", "groups", "examples", "excerpt"),
            (
                (one["kind"], excerpt(one["value"], 60), one["groups"], one["examples"], excerpt(one["excerpt"] or ""))
                for one in rows_.slice(0, shown).to_pylist()
            ),
        )


def leaks(dataset: Dataset, result: AuditResult, gallery: Gallery) -> Iterator[Html]:
    """What stands on two sides, with the rows of either."""
    error = result.error
    if error is None:
        yield line(f"no leak between {', '.join(result.splits)} in {result.examples:,} examples")
    else:
        yield line(str(error), kind="bad")
    yield table(
        ("kind", "on two sides", "permitted as boilerplate"),
        ((kind, count, result.permitted.get(kind, 0)) for kind, count in result.leaks.items()),
    )
    for level, why in result.left_out.items():
        yield line(f"near ones of level {level} were not looked at: {why}", kind="note")
    for note in result.notes:
        yield line(note, kind="note")
    place = {shard.name: shard.index for shard in dataset.shards}
    for title, items in (("Leaks", result.evidence), ("Permitted", result.boilerplate)):
        if items:
            yield heading(title)
        for item in items:
            counts = ", ".join(f"{side['examples']:,} in {name}" for name, side in item["sides"].items())
            yield line(f"{item['kind']} {excerpt(item['value'])}: {counts}")
            rows = [row.rpartition(":") for side in item["sides"].values() for row in side["rows"]]
            yield cards(gallery.at(place[name], int(row)) for name, _, row in rows if name in place)


def _capped(head: Sequence[str], rows: Sequence[Sequence[object]], cap: int) -> Html:
    """A table of the first rows; says so where there are more."""
    made = table(head, rows[:cap])
    return made if len(rows) <= cap else Html(text=made.text + line(f"{len(rows) - cap:,} more rows").text)


def _first(shown: int, count: int, order: str = "") -> str:
    return f"; the first {shown:,}{' ' + order if order else ''} are shown" if shown < count else ""


def _short(value: Any) -> str:
    return excerpt(orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode(), 400)
