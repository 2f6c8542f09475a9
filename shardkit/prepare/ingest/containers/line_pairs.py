"""Two text files of which line k of one belongs to line k of the other, as SBU Captions was published.

    NAME_captions.txt    a caption a line
    NAME_urls.txt        the address of its picture

plan    captions file with its addresses beside it -> one slice   (parent)
chunks  slice -> up to 256 pairs of lines each, with their number (parent)
records chunk -> rows {"url", "caption"} and exclusions           (worker)

Blank lines count as lines. Unequal numbers of lines refuse the input, for then no line can be trusted to have its own.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from shardkit.errors import SourceError
from shardkit.prepare.ingest.columns import Required
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.lines import MAX_LINE, check_encoding
from shardkit.prepare.ingest.containers.streams import Damaged, Opener, Stream
from shardkit.prepare.ingest.record import Record, exclusion, refused
from shardkit.prepare.ingest.units import CHUNK_RECORDS, InputFile, Slice
from shardkit.records import Exclusion

CAPTIONS, ADDRESSES = "_captions.txt", "_urls.txt"

_BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class LinePairChunk:
    input: str
    folder: str
    first: int
    """Number of the first line."""
    pairs: tuple[tuple[bytes, bytes], ...] = ()
    """(caption, address), without their ends."""
    changes: Counter[str] = field(default_factory=Counter)


def partner(name: str) -> str | None:
    """The name of the file that belongs to `name`; None where it is of no such pair."""
    for own, other in ((CAPTIONS, ADDRESSES), (ADDRESSES, CAPTIONS)):
        place = name.lower().rfind(own)
        if place >= 0 and name[place + len(own) :] in ("", ".gz", ".zst", ".bz2"):
            return name[:place] + other + name[place + len(own) :]
    return None


def both(file: InputFile) -> InputFile:
    """The captions file of the pair that `file` is of, with the addresses beside it.

    Raises:
        SourceError: where the other file is not there.
    """
    other_name, other_path = partner(file.name), partner(file.path)
    assert other_name is not None, "only files of such a name get here"
    assert other_path is not None, "a path ends as its name does"
    if not os.path.isfile(other_path):
        raise SourceError(
            f"{other_name.rpartition('/')[2]}, whose lines belong to those of this file, is not beside it",
            where=file.name,
            hint="lay both files into one folder, or write a table with a column of addresses and one of captions",
        )
    other = InputFile(name=other_name, path=other_path, size=os.path.getsize(other_path))
    captions, addresses = (file, other) if CAPTIONS in file.name.lower() else (other, file)
    return replace(captions, beside=(replace(addresses, beside=()),))


def check(file: InputFile, _required: Required, _config: IngestConfig) -> None:
    """Refuse files of another encoding, and such as have not the same number of lines.

    Raises:
        SourceError: by name.
    """
    (addresses,) = file.beside
    check_encoding(file)
    check_encoding(addresses)
    counts = [sum(1 for _ in _lines(one)) for one in (file, addresses)]
    if counts[0] != counts[1]:
        raise SourceError(
            f"{counts[0]} captions and {counts[1]} addresses: line k of one file belongs to line k of the other",
            where=f"{file.name}, {addresses.name}",
            hint="fetch both files again",
        )


def plan(file: InputFile, _config: IngestConfig, _opener: Opener) -> Iterator[Slice]:
    """Both files whole: a line's number is what joins them."""
    yield Slice(container="line_pairs", file=file, end=-1, size=file.size + sum(one.size for one in file.beside))


def chunks(piece: Slice, _config: IngestConfig, _opener: Opener) -> Iterator[LinePairChunk]:
    """The pairs of lines, a few hundred at a time."""
    name = piece.file.name
    pairs = zip(_lines(piece.file), _lines(piece.file.beside[0]), strict=True)
    first = 1
    while held := tuple(islice(pairs, CHUNK_RECORDS)):
        yield LinePairChunk(input=name, folder=name.rpartition("/")[0], first=first, pairs=held)
        first += len(held)


def _lines(file: InputFile) -> Iterator[bytes]:
    """The lines of a file without their line feed; a last line feed begins no line.

    Raises:
        SourceError: where a packed file breaks off, or a line is beyond the limit.
    """
    stream = Stream(file)
    held = b""
    try:
        block = stream.read(_BLOCK).removeprefix(_BOM)
        while block:
            *whole, held = (held + block).split(b"\n")
            yield from whole
            if len(held) > MAX_LINE:
                raise refused(file.name, f"a line has more than {MAX_LINE} bytes")
            block = stream.read(_BLOCK)
    except Damaged as damage:
        raise refused(file.name, f"{damage.what} after {damage.place} bytes") from damage
    finally:
        stream.close()
    if held:
        yield held


def records(chunk: LinePairChunk, _config: IngestConfig) -> Iterator[Record | Exclusion | Counter[str]]:
    """A row for each pair of lines."""
    if chunk.changes:
        yield chunk.changes
    loose: Counter[str] = Counter()
    for number, lines in enumerate(chunk.pairs, chunk.first):
        texts = []
        for line in lines:
            data = line.removesuffix(b"\r")
            loose["crlf_line"] += data is not line
            try:
                texts.append(data.decode("utf-8"))
            except UnicodeDecodeError as error:
                detail = f"byte {error.start} of the line, 0x{data[error.start]:02x}, is no UTF-8"
                yield exclusion(chunk.input, str(number), "invalid_utf8", detail)
                break
        else:
            caption, address = texts
            row = {"url": address.strip(), "caption": caption}
            yield Record(input=chunk.input, position=str(number), value=row, folder=chunk.folder)
    if +loose:
        yield +loose
