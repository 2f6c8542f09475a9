"""`shardkit report`: tables of the stages and rows of the shards -> pages -> a folder that appears whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from shardkit.engine import Progress, silent
from shardkit.prepare.audit.config import AuditConfig, AuditResult
from shardkit.prepare.audit.run import run as audit
from shardkit.prepare.lineage.ancestry import Ancestry
from shardkit.prepare.report.site import pages
from shardkit.prepare.report.site.config import ReportConfig, ReportResult
from shardkit.prepare.report.site.markup import Html, page
from shardkit.prepare.report.site.shown import Gallery
from shardkit.prepare.report.stats import StatsConfig
from shardkit.prepare.report.stats import run as stats
from shardkit.store.dataset import Dataset
from shardkit.store.folder import Folder

NOTE = "shardkit-report.json"


def run(config: ReportConfig, on_progress: Progress = silent) -> ReportResult:
    """Write the pages; or find that the same report is there.

    Raises:
        SourceError: where no dataset is.
        IntegrityError: where it is damaged.
        OutputError: where something else is at the output.
    """
    dataset = Dataset.open(config.dataset, base=config.bases)
    holders = {shard.holder.path for shard in dataset.shards}
    with Folder(
        config.output,
        note=NOTE,
        made_from=config.made_from(dataset.id),
        protected=[config.dataset, *sorted(holders)],
        overwrite=config.overwrite,
    ) as folder:
        if folder.unchanged:
            note = folder.note
            return ReportResult(
                path=config.output, dataset_id=dataset.id, pages=note["pages"], leaks=note["leaks"], unchanged=True
            )
        found = _audited(config, dataset, on_progress)
        made = dict(_pages(config, dataset, found, on_progress))
        nav = {f"{name}.html": title for name, (title, _) in made.items()}
        files = [folder.write(f"{name}.html", page(title, nav, body)) for name, (title, body) in made.items()]
        leaks = None if found is None else sum(found.leaks.values())
        counts = {name: len(body) for name, (_, body) in made.items()}
        folder.commit(files, {"pages": counts, "leaks": leaks})
    return ReportResult(path=config.output, dataset_id=dataset.id, pages=counts, leaks=leaks, unchanged=False)


def _audited(config: ReportConfig, dataset: Dataset, on_progress: Progress) -> AuditResult | None:
    if not config.audit or len(dataset.splits) < 2:
        return None
    return audit(
        AuditConfig(dataset=config.dataset, bases=config.bases, workers=config.workers, listed=config.shown),
        on_progress,
    )


def _pages(
    config: ReportConfig, dataset: Dataset, found: AuditResult | None, on_progress: Progress
) -> Iterator[tuple[str, tuple[str, list[Html]]]]:
    """(name, (title, body)) of each page that has something to show."""
    figures = stats(StatsConfig(dataset=config.dataset, bases=config.bases, workers=config.workers), on_progress)
    yield "index", ("Overview", list(pages.overview(dataset, figures)))
    road = [index.dataset for index in Ancestry(dataset).indices]
    excluded = list(pages.exclusions(road, shown=config.shown))
    if excluded:
        yield "exclusions", ("Exclusions", excluded)
    for name, title, table, show in (
        ("clusters", "Duplicates", "clusters", pages.clusters),
        ("near", "Near, and kept", "near", pages.near),
        ("benchmarks", "In benchmarks", "evidence", pages.benchmarks),
    ):
        holder = _newest(road, table)
        if holder is not None:
            with closing(Gallery(holder, side=config.side)) as gallery:
                yield name, (title, list(show(holder, gallery, shown=config.shown)))
    holder = next((one for one in reversed(road) if one.stage == "split"), None)
    if holder is not None:
        yield "split", ("Split", list(pages.split(holder, shown=config.shown)))
    if found is not None:
        with closing(Gallery(dataset, side=config.side)) as gallery:
            yield "leaks", ("Leaks", list(pages.leaks(dataset, found, gallery)))


def _newest(road: list[Dataset], table: str) -> Dataset | None:
    """The dataset nearest to the one asked for that has a table."""
    return next((one for one in reversed(road) if one.has_table(table)), None)
