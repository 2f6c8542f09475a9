"""JSON lines: one value a line, plain or compressed. Only a line feed ends a line.

plan    file -> slices that begin at line starts           (parent)
chunks  slice -> up to 256 lines each, with their number    (parent)
records chunk -> rows and exclusions                        (worker)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from shardkit.prepare.ingest.columns import Required
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.streams import Damaged, Opener, Stream
from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record, exclusion, refused
from shardkit.prepare.ingest.units import CHUNK_BYTES, CHUNK_RECORDS, InputFile, Slice
from shardkit.records import Exclusion

MAX_LINE = 64 << 20
"""Bytes; a longer line is excluded under `line_too_long` and never held whole."""

_BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 20
_BLANK = b" \t\r\n\v\f"


@dataclass(frozen=True, kw_only=True, slots=True)
class LineChunk:
    """Whole lines without their last line feed, or the place of one that is too long."""

    input: str
    folder: str
    first: int
    """Number of the first line."""
    data: bytes = b""
    too_long: int = 0
    """Bytes of the one line that this chunk stands for."""
    open_end: bool = False
    """The last line is the file's last and has no line feed."""
    damage: str = ""
    """What broke off the stream here; the chunk holds nothing else."""
    changes: Counter[str] = field(default_factory=Counter)


def plan(file: InputFile, config: IngestConfig, _opener: Opener) -> Iterator[Slice]:
    """Slices of at most `config.unit_size` bytes that begin at line starts.

    A compressed file is cut by its bytes after decompression, and only where it is larger than a unit itself.
    """
    if file.size - file.start <= config.unit_size:
        yield _slice(file, file.start, -1, file.first)
        return
    rest, line = file.start, file.first
    stream = Stream(file)
    try:
        for start, end, first, following in _cuts(_blocks(stream, file, config), config.unit_size):
            if end > file.start:
                yield (
                    _slice(file, start, end, first) if start > file.start else _slice(file, file.start, end, file.first)
                )
                rest, line = end, following
    finally:
        stream.close()
    yield _slice(file, rest, -1, line)


def _slice(file: InputFile, start: int, end: int, first: int) -> Slice:
    size = max(0, (file.size if end < 0 else end) - start)
    return Slice(container="jsonl", file=file, start=start, end=end, first=first, size=size)


def _cuts(blocks: Iterator[bytes], unit: int) -> Iterator[tuple[int, int, int, int]]:
    """(start, end, first line, line at end) of each stretch but the last: the longest of whole lines within `unit`.

    A line longer than `unit` is a stretch of its own.
    """
    start, first = 0, 1
    line, last, last_line = 1, 0, 1
    seen = 0
    for block in blocks:
        at = 0
        while seen + len(block) - start > unit:
            limit = start + unit - seen
            end = block.rfind(b"\n", at, max(at, limit)) + 1
            if not end and last <= start:
                end = block.find(b"\n", max(at, limit)) + 1
                if not end:
                    break
            if end:
                line += block.count(b"\n", at, end)
                at, last, last_line = end, seen + end, line
            yield start, last, first, last_line
            start, first = last, last_line
        end = block.rfind(b"\n", at) + 1
        if end:
            line += block.count(b"\n", at, end)
            last, last_line = seen + end, line
        seen += len(block)


def check(file: InputFile, _required: Required, _config: IngestConfig) -> None:
    """Refuse a file of another encoding, of other line ends, or that is one JSON array.

    Raises:
        SourceError: by name.
    """
    check_encoding(file)
    check_line_ends(file)
    head = _head(file).removeprefix(_BOM).lstrip()
    first = head.split(b"\n", 1)[0].rstrip()
    if head.startswith(b"[") and head[1:].lstrip().startswith(b"{") and not first.endswith(b"]"):
        error = refused(file.name, "the file is one JSON array over several lines, not a value on each line")
        error.hint = "name it .json, or write its entries one a line: jq -c '.[]' IN > OUT"
        raise error


def are_values(head: bytes) -> bool:
    """Whether a file called .json, by its first bytes, is JSON lines: an object on its first line, and on its second."""
    lines = head.removeprefix(_BOM).lstrip().split(b"\n", 2)
    if len(lines) < 2 or not lines[0].startswith(b"{") or not lines[1].lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(parse(lines[0].rstrip()).value, dict)
    except Bad:
        return False


def check_line_ends(file: InputFile) -> None:
    """Refuse text whose lines end in carriage returns alone: it would be one record.

    Raises:
        SourceError: by name.
    """
    head = _head(file)
    if head.count(b"\r") > 1 and b"\n" not in head:
        error = refused(file.name, "the lines end in carriage returns alone, not in line feeds")
        error.hint = "convert it first: tr '\\r' '\\n' < IN > OUT"
        raise error


def _head(file: InputFile) -> bytes:
    """The first bytes, unpacked; none of a stream that is damaged there, which its reader meets again."""
    stream = Stream(file)
    try:
        return stream.read(1 << 16)
    except Damaged:
        return b""
    finally:
        stream.close()


def check_encoding(file: InputFile) -> None:
    """Refuse what is no UTF-8 text as a whole, by name.

    Raises:
        SourceError: for UTF-16 and UTF-32.
    """
    stream = Stream(file)
    try:
        head = stream.read(4)
    except Damaged:
        return  # the reader of the records meets it again and says where
    finally:
        stream.close()
    wide = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
    name = next((name for mark, name in wide.items() if head.startswith(mark)), None)
    if name is None and len(head) == 4 and 0 in head:
        # Without a mark: every other byte of four is zero.
        name = "UTF-16" if [byte != 0 for byte in head] in ([False, True] * 2, [True, False] * 2) else None
    if name is not None:
        error = refused(file.name, f"the text is {name}, not UTF-8")
        error.hint = f"convert it first: iconv -f {name} -t UTF-8 IN > OUT"
        raise error


def _blocks(stream: Stream, file: InputFile, config: IngestConfig) -> Iterator[bytes]:
    try:
        while block := stream.read(_BLOCK):
            yield block
    except Damaged as damage:
        if not config.salvage:
            raise refused(file.name, f"{damage.what} after {damage.place} bytes") from damage


def chunks(piece: Slice, config: IngestConfig, opener: Opener) -> Iterator[LineChunk]:
    """The lines of a slice, a few hundred at a time."""
    stream = opener.at(piece.file, piece.start)
    folder = piece.file.name.rpartition("/")[0]
    left = piece.end - piece.start if piece.end >= 0 else None
    number = piece.first
    held = bytearray()
    skipped = 0
    fresh = piece.start == 0
    damage = None
    while left is None or left > 0:
        try:
            block = stream.read(_BLOCK if left is None else min(_BLOCK, left))
        except Damaged as broken:
            damage = broken
            break
        if not block:
            break
        if left is not None:
            left -= len(block)
        if fresh:
            fresh = False
            if block.startswith(_BOM):
                block = block[len(_BOM) :]
                yield LineChunk(input=piece.file.name, folder=folder, first=1, changes=Counter(byte_order_mark=1))
        cut = block.rfind(b"\n") + 1
        if not cut:
            if skipped or len(held) + len(block) > MAX_LINE:
                skipped += len(held) + len(block)
                held.clear()
            else:
                held += block
            continue
        if skipped:
            first_end = block.find(b"\n")
            yield LineChunk(input=piece.file.name, folder=folder, first=number, too_long=skipped + first_end)
            number += 1
            block, cut, skipped = block[first_end + 1 :], cut - first_end - 1, 0
        lines = (bytes(held) + block[:cut]).split(b"\n")[:-1]
        held = bytearray(block[cut:])
        for start, stop in _portions(lines):
            data = b"\n".join(lines[start:stop])
            yield LineChunk(input=piece.file.name, folder=folder, first=number + start, data=data)
        number += len(lines)
    if damage is not None:
        what = f"{damage.what} after {damage.place} bytes"
        if not config.salvage:
            raise refused(piece.file.name, what)
        yield LineChunk(input=piece.file.name, folder=folder, first=number, damage=what)
    elif skipped:
        yield LineChunk(input=piece.file.name, folder=folder, first=number, too_long=skipped + len(held))
    elif held:
        yield LineChunk(input=piece.file.name, folder=folder, first=number, data=bytes(held), open_end=True)


def _portions(lines: list[bytes]) -> Iterator[tuple[int, int]]:
    """Stretches of at most CHUNK_RECORDS lines and about CHUNK_BYTES."""
    start = size = 0
    for index, line in enumerate(lines):
        if index > start and (index - start >= CHUNK_RECORDS or size + len(line) > CHUNK_BYTES):
            yield start, index
            start, size = index, 0
        size += len(line)
    if start < len(lines):
        yield start, len(lines)


def broken(chunk: LineChunk) -> Exclusion | None:
    """The exclusion that a chunk without lines stands for."""
    if chunk.too_long:
        detail = f"the line has {chunk.too_long} bytes, the limit is {MAX_LINE}"
        return exclusion(chunk.input, str(chunk.first), "line_too_long", detail)
    if chunk.damage:
        return exclusion(chunk.input, str(chunk.first), "damaged_input", chunk.damage)
    return None


def records(chunk: LineChunk, _config: IngestConfig) -> Iterator[Record | Exclusion | Counter[str]]:
    """Rows and exclusions of a chunk in order; a Counter stands for changes that belong to no row."""
    if chunk.changes:
        yield chunk.changes
    if (found := broken(chunk)) is not None:
        yield found
        return
    if not chunk.data:
        return
    loose: Counter[str] = Counter()
    lines = chunk.data.split(b"\n")
    for offset, line in enumerate(lines):
        text = line
        if text.endswith(b"\r"):
            text = text[:-1]
            loose["crlf_line"] += 1
        if not text.strip(_BLANK):
            loose["blank_line"] += 1
            continue
        position = str(chunk.first + offset)
        try:
            parsed = parse(text)
        except Bad as bad:
            reason, detail = bad.reason, bad.detail
            if chunk.open_end and reason in ("invalid_utf8", "invalid_json"):
                reason, detail = "cut_off", f"the last line has no end, the file may be incomplete ({detail})"
            yield exclusion(chunk.input, position, reason, detail)
            continue
        yield Record(
            input=chunk.input, position=position, value=parsed.value, folder=chunk.folder, changes=parsed.changes
        )
    if loose:
        yield loose
