"""Arrow and tar shards: what goes in comes out, checked, and equal content is an equal file."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pyarrow as pa
import pytest

from shardkit.errors import IntegrityError
from shardkit.records import Example
from shardkit.store.arrow_shard import ArrowReader
from shardkit.store.blocks import BlockCheck, Verify
from shardkit.store.columns import to_rows
from shardkit.store.rows import Block, Written
from shardkit.store.schema import EXAMPLES as SCHEMA
from shardkit.store.tar_shard import TarReader, header, index_path
from shardkit.store.units import SHARD_FORMATS
from tests.store.builders import make_example, to_row

EXAMPLES = [make_example(number, num_images=number % 3, size=600) for number in range(150)]


def write(path: Path, examples: list[Example], fmt: str) -> Written:
    writer = SHARD_FORMATS[fmt](path)
    for example in examples:
        writer.add(to_rows([example], [{}]))
    return writer.close()


def read(path: Path, written: Written, fmt: str, verify: Verify = "read") -> ArrowReader | TarReader:
    check = BlockCheck(name=path.name, size=written.size, digest=written.xxh3, blocks=written.blocks, verify=verify)
    if fmt == "arrow":
        return ArrowReader(path, check)
    index = BlockCheck(
        name=index_path(path).name,
        size=written.index_size or 0,
        digest=written.index_xxh3 or "",
        blocks=written.blocks,
        verify="off" if verify == "off" else "open",
    )
    return TarReader(path, check, index)


@pytest.mark.parametrize("fmt", SHARD_FORMATS)
@pytest.mark.parametrize("verify", ["read", "open", "off"])
def test_what_goes_in_comes_out(tmp_path: Path, fmt: str, verify: Verify):
    written = write(tmp_path / "a", EXAMPLES, fmt)
    reader = read(tmp_path / "a", written, fmt, verify)
    assert written.rows == reader.num_rows == 150
    assert [reader.example(row) for row in range(150)] == EXAMPLES
    assert bytes(reader.image_bytes(149, 1)) == EXAMPLES[149].images[1].data
    assert reader.columns(["example_id"])["example_id"].to_pylist() == [e.example_id for e in EXAMPLES]
    reader.close()


@pytest.mark.parametrize("fmt", SHARD_FORMATS)
def test_rows_are_read_as_they_are_stored_whichever_comes_first(tmp_path: Path, fmt: str):
    reader = read(tmp_path / "a", write(tmp_path / "a", EXAMPLES, fmt), fmt)
    for row in (149, 0, 70, *range(150)):
        example = EXAMPLES[row]
        example_id, segments, images = reader.content(row)
        assert example_id == example.example_id
        assert segments == tuple(one.text if one.kind == "text" else one.image for one in example.segments)
        assert [*map(bytes, images)] == [image.data for image in example.images]
        assert reader.images(row, range(len(images))[::-1], copy=True) == [image.data for image in example.images][::-1]
    for row, number in [(0, 0), (149, 2), (149, -1)]:
        with pytest.raises(IndexError, match=f"row {row} has no image {number}"):
            reader.images(row, (number,))
    reader.close()


def test_pictures_that_are_not_in_the_file_as_they_are_are_an_error(tmp_path: Path):
    rows = [to_row(example) for example in EXAMPLES[:4]]
    with pa.OSFile(str(tmp_path / "a"), "wb") as file:
        packed = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_file(file, SCHEMA, options=packed) as writer:
            writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    size = (tmp_path / "a").stat().st_size
    block = Block(first_row=0, num_rows=4, offset=0, size=0, xxh3="")
    reader = ArrowReader(tmp_path / "a", BlockCheck(name="a", size=size, digest="", blocks=[block], verify="off"))
    with pytest.raises(IntegrityError, match="the file is not a readable shard"):
        reader.image_bytes(1, 0)
    reader.close()


@pytest.mark.parametrize("fmt", SHARD_FORMATS)
def test_columns_of_a_range_are_those_of_its_rows(tmp_path: Path, fmt: str):
    written = write(tmp_path / "s", EXAMPLES, fmt)
    names = ["example_id", "segments", "images"]
    whole = read(tmp_path / "s", written, fmt).columns(names).to_pylist()
    for first, last in [(0, 1), (3, 9), (60, 70), (len(EXAMPLES) - 1, len(EXAMPLES)), (0, len(EXAMPLES))]:
        found = read(tmp_path / "s", written, fmt).columns(names, rows=range(first, last))
        assert found.to_pylist() == whole[first:last]


def test_columns_of_a_range_look_at_its_blocks_alone(tmp_path: Path):
    written = write(tmp_path / "s", EXAMPLES, "arrow")
    last = next(block for block in reversed(written.blocks) if block.num_rows)
    data = bytearray((tmp_path / "s").read_bytes())
    data[last.offset + last.size // 2] ^= 1
    (tmp_path / "s").write_bytes(data)
    reader = read(tmp_path / "s", written, "arrow")
    assert reader.columns(["example_id"], rows=range(1)).num_rows == 1
    with pytest.raises(IntegrityError):
        reader.columns(["example_id"])


@pytest.mark.parametrize("rows", [EXAMPLES[:1], EXAMPLES[0:60:3], EXAMPLES[1:60:3], EXAMPLES[:64]])
def test_a_block_has_the_bytes_that_plain_pyarrow_would_write(tmp_path: Path, rows: list[Example]):
    write(tmp_path / "a", rows, "arrow")
    with pa.OSFile(str(tmp_path / "b"), "wb") as file, pa.ipc.new_file(file, SCHEMA) as plain:
        plain.write_batch(pa.RecordBatch.from_pylist([to_row(example) for example in rows], schema=SCHEMA))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("fmt", SHARD_FORMATS)
def test_blocks_cover_the_file_without_holes(tmp_path: Path, fmt: str):
    written = write(tmp_path / "a", EXAMPLES, fmt)
    place = row = 0
    for block in written.blocks:
        assert (block.offset, block.first_row) == (place, row)
        place += block.size
        row += block.num_rows
    assert (place, row) == ((tmp_path / "a").stat().st_size, 150)
    assert [block.num_rows for block in written.blocks if block.num_rows] == [64, 64, 22]


def test_arrow_to_tar_to_arrow_is_the_same_file(tmp_path: Path):
    first = write(tmp_path / "one.arrow", EXAMPLES, "arrow")
    from_arrow = read(tmp_path / "one.arrow", first, "arrow")
    middle = write(tmp_path / "two.tar", [from_arrow.example(row) for row in range(150)], "tar")
    from_tar = read(tmp_path / "two.tar", middle, "tar")
    write(tmp_path / "three.arrow", [from_tar.example(row) for row in range(150)], "arrow")
    assert (tmp_path / "one.arrow").read_bytes() == (tmp_path / "three.arrow").read_bytes()


def test_tar_members_carry_no_trace_of_the_machine(tmp_path: Path):
    write(tmp_path / "a.tar", EXAMPLES[:3], "tar")
    with tarfile.open(tmp_path / "a.tar") as archive:
        members = archive.getmembers()
    ids = [e.example_id for e in EXAMPLES]
    assert [m.name for m in members] == [
        f"00000000-{ids[0]}.json",
        f"00000001-{ids[1]}.0.jpg",
        f"00000001-{ids[1]}.json",
        f"00000002-{ids[2]}.0.png",
        f"00000002-{ids[2]}.1.png",
        f"00000002-{ids[2]}.json",
    ]
    assert {(m.uid, m.gid, m.mtime, m.mode, m.uname, m.type) for m in members} == {(0, 0, 0, 0o644, "", b"0")}


def test_a_member_name_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="101 bytes"):
        header("x" * 101, 0)


@pytest.mark.parametrize("fmt", SHARD_FORMATS)
def test_every_changed_byte_is_found_before_a_row_comes_out_altered(tmp_path: Path, fmt: str):
    examples = EXAMPLES[:5]
    path = tmp_path / "shard"
    written = write(path, examples, fmt)
    for file in [path] if fmt == "arrow" else [path, index_path(path)]:
        clean = file.read_bytes()
        for offset in range(0, len(clean), 23):
            damaged = bytearray(clean)
            damaged[offset] ^= 0xFF
            file.write_bytes(damaged)
            with pytest.raises(IntegrityError, match="xxh3"):
                read_all(path, written, fmt, examples)
            file.write_bytes(clean)


def read_all(path: Path, written: Written, fmt: str, examples: list[Example]) -> None:
    reader = read(path, written, fmt)
    for row, example in enumerate(examples):
        assert reader.example(row) == example


@pytest.mark.parametrize("fmt", SHARD_FORMATS)
@pytest.mark.parametrize("keep", [0, 1, 511, 512, -1])
def test_a_file_of_another_size_is_refused_with_both_sizes(tmp_path: Path, fmt: str, keep: int):
    path = tmp_path / "shard"
    written = write(path, EXAMPLES[:5], fmt)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(IntegrityError, match=rf"has {keep if keep >= 0 else size - 1} bytes, the manifest says {size}"):
        read(path, written, fmt)


def test_a_row_beyond_the_end_is_an_index_error(tmp_path: Path):
    written = write(tmp_path / "a", EXAMPLES[:5], "arrow")
    reader = read(tmp_path / "a", written, "arrow")
    with pytest.raises(IndexError, match="has 5 rows, not row 5"):
        reader.example(5)
