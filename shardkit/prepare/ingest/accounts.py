"""The accounts of a run: read = kept + excluded for every input, and whether that is good enough to commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa

from shardkit.digest import canonical_json
from shardkit.errors import SourceError
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.reasons import plain
from shardkit.prepare.ingest.roots import FileRead
from shardkit.records import Exclusion, Tally
from shardkit.store.schema import TABLES

Accounts = dict[str, Tally]
"""Of each input."""

JUDGED_FROM = 1000
"""Records: below it --max-bad is not judged, so that small sets commit."""


_SHOWN = 5


def judge(
    tally: Tally, config: IngestConfig, source: str, first_excluded: Exclusion | None, accounts: Accounts
) -> None:
    """Refuse to commit what is mostly not what the format says.

    Raises:
        SourceError: with the reasons counted.
    """
    excluded = sum(tally.excluded.values())
    reasons = ", ".join(f"{reason} {count}" for reason, count in tally.excluded.most_common())
    if tally.read >= JUDGED_FROM and excluded > config.max_bad * tally.read:
        raise SourceError(
            f"{excluded} of {tally.read} records are bad, more than {config.max_bad:.0%} ({reasons}); nothing was committed",
            where=source,
            hint=f"{_other_inputs(accounts)}look into the inputs, or allow a larger share with --max-bad SHARE",
        )
    if tally.read and not tally.kept and set(tally.excluded) == {"missing_field"}:
        detail = first_excluded.detail if first_excluded else reasons
        raise SourceError(
            f"no record has what {config.format} needs: {detail}; nothing was committed",
            where=source,
            hint="name the column with --field NAME=COLUMN",
        )


def _other_inputs(accounts: Accounts) -> str:
    """What may be wrong where whole inputs hold nothing of the format, and others do."""
    empty = sorted(name for name, account in accounts.items() if account.read and not account.kept)
    if not empty or len(empty) == len(accounts):
        return ""
    more = f" and {len(empty) - _SHOWN} more" if len(empty) > _SHOWN else ""
    names = ", ".join(plain(name) for name in empty[:_SHOWN])
    return f"not one record of {names}{more} is kept: give the files that are meant without these; or "


def inputs_table(
    accounts: Accounts, digests: Mapping[str, FileRead], *, maps: Iterable[FileRead], beside: Collection[str]
) -> pa.Table:
    """Rows of tables/inputs for the inputs that hold records, the tables beside archives, and address maps.

    Raises:
        SourceError: where an input's accounts do not balance.
    """
    for name, account in accounts.items():
        if not account.balanced:
            raise SourceError(
                f"rows are lost: read {account.read}, kept {account.kept}, excluded {sum(account.excluded.values())}",
                where=name,
                hint="this is a fault of shardkit; please report it with the command line",
            )
    rows = [
        input_row(file, None if name in beside else accounts.get(name, Tally()))
        for name, file in sorted(digests.items())
    ]
    rows += [input_row(file, None) for file in maps]
    return pa.Table.from_pylist(rows, schema=TABLES["inputs"])


def input_row(file: FileRead, account: Tally | None) -> dict[str, object]:
    """A row of tables/inputs; the counts are null for a file that holds no records."""
    counts = dict.fromkeys(("read", "kept", "excluded")) if account is None else account.to_json()
    return {
        "input": file.name,
        "size": file.size,
        "xxh3": file.xxh3,
        **{name: counts[name] for name in ("read", "kept", "excluded")},
        "excluded_by_reason": None if account is None else canonical_json(account.excluded).decode(),
    }
