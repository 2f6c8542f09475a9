"""The receipt of a work unit, which says that it is whole and on disk, and the parts of tables that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from shardkit.digest import canonical_json, xxh3
from shardkit.records import Tally
from shardkit.records.manifest import ShardEntry
from shardkit.store.arrow_shard import TableWriter
from shardkit.store.files import DurableFile, digest_file, output_errors, publish_content, write_durably

WORK = ".work"
"""In the folder of a dataset while it is made: receipts, parts of tables, what is being written. The commit removes it."""
_PART_ROWS = 4096
"""Rows of a part that are one batch of its file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """Says that a unit is whole and on disk."""

    unit: str
    index: int
    split: str
    shards: tuple[ShardEntry, ...]
    parts: Mapping[str, Mapping[str, Any]]
    """Table name -> rows, size and xxh3 of the part file."""
    by_source: Mapping[str, Mapping[str, int]]
    tally: Mapping[str, Any]
    notes: Mapping[str, Any]
    """What the stage wants to know again on a rerun, for instance digests of the files it read."""

    def restored_tally(self) -> Tally:
        return Tally.from_json(self.tally)

    def part(self, target: Path, table: str) -> pa.Table | None:
        """The rows that the unit has for `table`."""
        if table not in self.parts:
            return None
        with pa.OSFile(str(part_file(target, self.unit, table, ".arrow"))) as file:
            return pa.ipc.open_file(file).read_all()

    def exclusions(self, target: Path) -> Iterator[bytes]:
        """The unit's exclusions, one line of JSON each."""
        if "exclusions" in self.parts:
            with part_file(target, self.unit, "exclusions", ".jsonl").open("rb") as file:
                for line in file:
                    yield line.rstrip(b"\n")


def read_receipts(folder: Path, target: Path) -> dict[str, Receipt]:
    """Receipts that a killed run left, by unit; one whose files are not there whole does not count."""
    receipts = {}
    for file in sorted(folder.glob("*.json")):
        body = orjson.loads(file.read_bytes())
        if body.pop("check") != xxh3(canonical_json(body)):
            continue
        receipt = Receipt(**{**body, "shards": tuple(ShardEntry(**shard) for shard in body["shards"])})
        if _whole(receipt, target):
            receipts[receipt.unit] = receipt
        else:
            file.unlink()
    return receipts


def _whole(receipt: Receipt, target: Path) -> bool:
    for name, part in receipt.parts.items():
        file = part_file(target, receipt.unit, name, ".jsonl" if name == "exclusions" else ".arrow")
        if not file.is_file() or digest_file(file) != (part["size"], part["xxh3"]):
            return False
    return all(
        (target / shard.path).is_file() and (target / shard.path).stat().st_size == shard.size
        for shard in receipt.shards
    )


def part_file(target: Path, unit: str, table: str, suffix: str) -> Path:
    return target / WORK / "parts" / f"{unit}.{table}{suffix}"


def write_receipt(receipt: Receipt, target: Path, scratch: Path) -> None:
    """Make a receipt durable, in the place of an older one of the unit."""
    body = asdict(receipt)
    data = canonical_json({**body, "check": xxh3(canonical_json(body))})
    final = target / WORK / "receipts" / f"{receipt.unit}.json"
    with output_errors(final):
        final.unlink(missing_ok=True)
    write_durably(final, data, scratch=scratch)


def write_part(temporary: Path, final: Path, batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> dict[str, Any]:
    """Make the rows that a unit has for a table durable; returns what the receipt says of them."""
    writer = TableWriter(temporary, schema)
    waiting: list[pa.RecordBatch] = []
    for number, batch in enumerate(batches, 1):
        waiting.append(batch)
        if number == len(batches) or sum(one.num_rows for one in waiting) >= _PART_ROWS:
            writer.write(pa.concat_batches(waiting))
            waiting = []
    written = writer.close()
    publish_content(temporary, final)
    return {"rows": written.rows, "size": written.size, "xxh3": written.xxh3}


def write_part_of_lines(temporary: Path, final: Path, lines: Sequence[bytes]) -> dict[str, Any]:
    """The same for exclusions, which are lines of JSON."""
    with DurableFile(temporary) as file:
        file.write(b"".join(line + b"\n" for line in lines))
    publish_content(temporary, final)
    return {"rows": len(lines), "size": file.size, "xxh3": file.xxh3}
