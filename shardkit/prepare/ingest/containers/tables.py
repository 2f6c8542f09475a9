"""CSV and TSV: strict, and every value a string.

CSV quotes a field by `"` at its first character, and doubles it inside; elsewhere a quotation mark is an ordinary sign.
TSV, and tables parted by `|`, have no quoting at all, but for a TSV that quotes every column of its header. A first line that has an address in it is no header but data; so is
one of IMAGE#NUMBER TAB text, as Flickr8k's and Flickr30k's token files have it. A first line `sep=;`, which Excel writes, names
the delimiter. A record whose quotes do not close costs its own line only: the next line begins a record.

    plan    file -> slices that begin at records               (parent)
    chunks  slice -> up to 256 records each, with their number  (parent)
    records chunk -> rows and exclusions                        (worker)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from shardkit.errors import SourceError
from shardkit.prepare.ingest.columns import Required, check_columns
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.lines import MAX_LINE, check_encoding, check_line_ends
from shardkit.prepare.ingest.containers.streams import Damaged, Opener, Stream
from shardkit.prepare.ingest.reasons import plain
from shardkit.prepare.ingest.record import Record, exclusion, refused
from shardkit.prepare.ingest.units import CHUNK_BYTES, CHUNK_RECORDS, InputFile, Slice
from shardkit.records import Exclusion

_BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 20
_SEPARATOR = re.compile(rb'"?sep=([,;|\t])"?', re.IGNORECASE)
_NUMBERED = re.compile(rb"[^\t\r\n]+\.(?:jpe?g|png|webp|gif|bmp)#[0-9]+\t", re.IGNORECASE)
_ALL_QUOTED = re.compile(rb'"[^"\t]+"(?:\t"[^"\t]+")+')
_NUMBERED_COLUMNS = ("image", "caption_number", "caption")


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    delimiter: bytes
    quoted: bool
    padded: bool = False
    """One space behind a delimiter is no part of the field."""
    numbered: bool = False
    """The first field is IMAGE#NUMBER, and counts as two."""


_TAB = Dialect(delimiter=b"\t", quoted=False)
_QUOTED_TAB = Dialect(delimiter=b"\t", quoted=True)
_CSV = Dialect(delimiter=b",", quoted=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class TableChunk:
    input: str
    folder: str
    first: int
    """Number of the first record; a header is not counted."""
    header: tuple[str, ...]
    dialect: Dialect
    raw: tuple[bytes, ...] = ()
    """Records without their line end; b"" for one that is too long."""
    damage: str = ""
    changes: Counter[str] = field(default_factory=Counter)


class _Frames:
    """Cuts a stream into records.

    Attributes:
        position: byte at which the next record begins.
        changes: byte order mark, CRLF ends and blank lines so far.
    """

    def __init__(self, stream: Stream, dialect: Dialect) -> None:
        self.position = stream.position
        self.changes: Counter[str] = Counter()
        self._stream = stream
        self.use(dialect)
        self._held = bytearray()
        self._ended = False
        self._back: tuple[bytes, int] | None = None

    def put_back(self, raw: bytes, position: int) -> None:
        """Let `raw`, which was the record at byte `position`, come next once more."""
        self._back = raw, self.position
        self.position = position

    def use(self, dialect: Dialect) -> None:
        self._record = _record_pattern(dialect)
        self._quoted = dialect.quoted

    def next(self) -> bytes | None:
        """The next record that is no blank line, b"" for one that is too long, None at the end."""
        if self._back is not None:
            (raw, self.position), self._back = self._back, None
            return raw
        while (line := self._line(0)) is not None:
            if line > MAX_LINE:
                self._pass_line()
                return b""
            raw = bytes(self._held[:line])
            if self._quoted and b'"' in raw and not self._record.fullmatch(raw.rstrip(b"\r")):
                line, raw = self._across_lines(line, raw)
            del self._held[: line + 1]
            self.position += line + 1
            if raw.endswith(b"\r"):
                self.changes["crlf_line"] += 1
                raw = raw[:-1]
            if raw.strip():
                return raw
            self.changes["blank_line"] += 1
        return None

    def _line(self, start: int) -> int | None:
        """Where the line that holds byte `start` of the buffer ends, looked for up to MAX_LINE and a block.

        None at the end of the file.
        """
        searched = start
        while (end := self._held.find(b"\n", searched)) < 0:
            searched = len(self._held)
            block = b"" if self._ended or searched - start > MAX_LINE else self._stream.read(_BLOCK)
            if not block:
                self._ended = self._ended or searched - start <= MAX_LINE
                return searched if searched > start else None
            self._held += block
        return end

    def _pass_line(self) -> None:
        """Throw away the line at the head of the buffer without holding all of it."""
        while (end := self._held.find(b"\n")) < 0:
            self.position += len(self._held)
            self._held.clear()
            block = self._stream.read(_BLOCK)
            if not block:
                self._ended = True
                return
            self._held += block
        del self._held[: end + 1]
        self.position += end + 1

    def _across_lines(self, line: int, raw: bytes) -> tuple[int, bytes]:
        """The record that begins with an open quote, or its first line alone where it never closes well."""
        end = line
        while (following := self._line(end + 1)) is not None and following <= MAX_LINE:
            added = self._held.count(b'"', end, following)
            end = following
            if added % 2:
                whole = bytes(self._held[:end])
                return (end, whole) if self._record.fullmatch(whole.rstrip(b"\r")) else (line, raw)
        return line, raw


def _record_pattern(dialect: Dialect) -> re.Pattern[bytes]:
    d = re.escape(dialect.delimiter)
    one = rb'(?:"[^"]*(?:""[^"]*)*"|[^"\r\n' + d + rb"][^\r\n" + d + rb"]*|)"
    return re.compile(one + rb"(?:" + d + one + rb")*")


def _fields(raw: bytes, dialect: Dialect) -> list[bytes] | None:
    """The fields of a record, or None where its quotes do not close."""
    if dialect.numbered:
        name, tab, text = raw.partition(dialect.delimiter)
        image, mark, number = name.rpartition(b"#")
        return [image, number, text] if tab and mark else [raw]
    if not dialect.quoted or b'"' not in raw:
        first, *others = raw.split(dialect.delimiter)
        return [first, *(field.removeprefix(b" ") for field in others)] if dialect.padded else [first, *others]
    fields, at = [], 0
    while True:
        if raw.startswith(b'"', at):
            end = at + 1
            while (end := raw.find(b'"', end)) >= 0 and raw.startswith(b'"', end + 1):
                end += 2
            if end < 0 or (end + 1 < len(raw) and not raw.startswith(dialect.delimiter, end + 1)):
                return None
            fields.append(raw[at + 1 : end].replace(b'""', b'"'))
            end += 1
        else:
            end = raw.find(dialect.delimiter, at)
            end = len(raw) if end < 0 else end
            fields.append(raw[at:end])
        if end >= len(raw):
            return fields
        at = end + 1


def _open(file: InputFile, stream: Stream) -> tuple[_Frames, tuple[str, ...], Dialect]:
    """Frames behind the header, the header, the dialect. Of a table without a header the first record is data."""
    is_tsv = file.name.lower().split(".")[-1] == "tsv" or ".tsv." in file.name.lower()
    frames = _Frames(stream, _TAB if is_tsv else _CSV)
    raw = frames.next()
    if raw is None:
        return frames, (), _TAB
    start = 0
    if raw.startswith(_BOM):
        raw = raw[len(_BOM) :]
        frames.changes["byte_order_mark"] += 1
    told = _SEPARATOR.fullmatch(raw)
    if told is not None:
        frames.changes["separator_line"] += 1
        start = frames.position
        raw = frames.next()
        if raw is None:
            return frames, (), _TAB
    dialect = _dialect(raw, is_tsv=is_tsv, delimiter=None if told is None else told[1])
    frames.use(dialect)
    if dialect.numbered:
        frames.put_back(raw, start)
        return frames, _NUMBERED_COLUMNS, dialect
    names = _fields(raw, dialect)
    try:
        header = tuple(name.decode("utf-8").strip() or f"column_{k}" for k, name in enumerate(names or (), 1))
    except UnicodeDecodeError:
        raise refused(file.name, "the header line is no UTF-8 text") from None
    if any(map(_is_address, header)):
        frames.put_back(raw, start)
        return frames, _names_of(header), dialect
    if not header or len(set(header)) != len(header):
        raise SourceError(
            f"the header line names a column twice, or its quotes do not close: {plain(raw.decode(), 80)}",
            where=f"{file.name}:1",
            hint="give each column a name of its own",
        )
    return frames, header, dialect


def is_numbered(line: bytes) -> bool:
    """Whether a line is IMAGE#NUMBER, a tab and a text."""
    return _NUMBERED.match(line) is not None


def _dialect(first: bytes, *, is_tsv: bool, delimiter: bytes | None) -> Dialect:
    """How the fields of a table are parted, by its first line.

    Args:
        delimiter: what the table itself says, before that line.
    """
    if delimiter is None and is_numbered(first):
        return Dialect(delimiter=b"\t", quoted=False, numbered=True)
    if delimiter is None and is_tsv:
        return _QUOTED_TAB if _ALL_QUOTED.fullmatch(first) is not None else _TAB
    found = delimiter or next((sign for sign in (b",", b";", b"\t", b"|") if sign in first), b",")
    if found == b"|":
        return Dialect(delimiter=found, quoted=False, padded=first.count(b"| ") == first.count(b"|"))
    return Dialect(delimiter=found, quoted=True)


def _is_address(field: str) -> bool:
    return field.lower().startswith(("http://", "https://"))


def _names_of(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Columns of a table without a header line, as CC3M and CC12M are published: no header is an address."""
    url = next(k for k, field in enumerate(fields) if _is_address(field))
    caption = next((k for k in range(len(fields)) if not _is_address(fields[k])), -1)
    return tuple({url: "url", caption: "caption"}.get(k, f"column_{k + 1}") for k in range(len(fields)))


def check(file: InputFile, required: Required, config: IngestConfig) -> None:
    """Refuse a table by its first line: another encoding, no column of a kind that is needed.

    Raises:
        SourceError: with what is there.
    """
    check_encoding(file)
    check_line_ends(file)
    stream = Stream(file)
    try:
        header = _open(file, stream)[1]
    except Damaged as damage:
        raise refused(file.name, f"{damage.what} after {damage.place} bytes") from damage
    finally:
        stream.close()
    check_columns(file, header, required, config)


def plan(file: InputFile, config: IngestConfig, _opener: Opener) -> Iterator[Slice]:
    """Slices of at most `config.unit_size` bytes that begin at records."""
    if file.size <= config.unit_size:
        yield Slice(container="table", file=file, end=-1, size=file.size)
        return
    start, first, number = 0, 1, 0
    stream = Stream(file)
    try:
        frames, _, _ = _open(file, stream)
        end = frames.position
        while frames.next() is not None:
            if frames.position - start > config.unit_size and end > start:
                yield Slice(container="table", file=file, start=start, end=end, first=first, size=end - start)
                start, first = end, number + 1
            number += 1
            end = frames.position
    except Damaged as damage:
        if not config.salvage:
            raise refused(file.name, f"{damage.what} after {damage.place} bytes") from damage
    finally:
        stream.close()
    yield Slice(container="table", file=file, start=start, end=-1, first=first, size=max(0, file.size - start))


def chunks(piece: Slice, config: IngestConfig, opener: Opener) -> Iterator[TableChunk]:
    """The records of a slice, a few hundred at a time."""
    folder = piece.file.name.rpartition("/")[0]
    number = piece.first
    held: list[bytes] = []
    size = 0
    damage = ""
    header: tuple[str, ...] = ()
    dialect = Dialect(delimiter=b",", quoted=True)
    changes: Counter[str] = Counter()

    def chunk() -> TableChunk:
        return TableChunk(
            input=piece.file.name, folder=folder, first=number - len(held), header=header, dialect=dialect,
            raw=tuple(held),
        )  # fmt: skip

    head = Stream(piece.file)
    try:
        frames, header, dialect = _open(piece.file, head)
        if piece.start:
            frames = _Frames(opener.at(piece.file, piece.start), dialect)
        while piece.end < 0 or frames.position < piece.end:
            raw = frames.next()
            if raw is None:
                break
            held.append(raw)
            number += 1
            size += len(raw)
            if len(held) >= CHUNK_RECORDS or size >= CHUNK_BYTES:
                yield chunk()
                held, size = [], 0
        changes = frames.changes
    except Damaged as broken:
        damage = f"{broken.what} after {broken.place} bytes"
        if not config.salvage:
            raise refused(piece.file.name, damage) from broken
    finally:
        head.close()
    if held:
        yield chunk()
    if damage or changes:
        yield TableChunk(
            input=piece.file.name, folder=folder, first=number, header=header, dialect=dialect, damage=damage,
            changes=changes,
        )  # fmt: skip


def records(chunk: TableChunk, _config: IngestConfig) -> Iterator[Record | Exclusion | Counter[str]]:
    """Rows and exclusions of a chunk in order; a Counter stands for changes that belong to no row."""
    if chunk.changes:
        yield chunk.changes
    if chunk.damage:
        yield exclusion(chunk.input, str(chunk.first), "damaged_input", chunk.damage)
    for offset, raw in enumerate(chunk.raw):
        position = str(chunk.first + offset)
        if not raw:
            yield exclusion(chunk.input, position, "line_too_long", f"the record has more than {MAX_LINE} bytes")
            continue
        fields = _fields(raw, chunk.dialect)
        if fields is None:
            near = plain(raw.decode("utf-8", "replace"))
            yield exclusion(chunk.input, position, "bad_quoting", f"a quotation mark does not close, in: {near}")
            continue
        if len(fields) != len(chunk.header):
            detail = f"{len(fields)} fields, the header has {len(chunk.header)}"
            if chunk.dialect.numbered:
                detail = "the line is not IMAGE#NUMBER, a tab and a text"
            yield exclusion(chunk.input, position, "field_count", detail)
            continue
        try:
            values = [value.decode("utf-8") for value in fields]
        except UnicodeDecodeError as error:
            detail = f"byte {error.start} of a field, 0x{error.object[error.start]:02x}, is no UTF-8"
            yield exclusion(chunk.input, position, "invalid_utf8", detail)
            continue
        yield Record(
            input=chunk.input,
            position=position,
            value=dict(zip(chunk.header, values, strict=True)),
            folder=chunk.folder,
        )
