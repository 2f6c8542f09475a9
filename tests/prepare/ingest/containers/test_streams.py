"""Compressed streams: all members, never an early end."""

from __future__ import annotations

import bz2
import gzip

import pyarrow as pa
import pytest

from shardkit.prepare.ingest.containers.streams import Damaged, Opener, Stream
from tests.prepare.ingest.builders import input_file


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACKERS = {"gzip": gzip.compress, "bzip2": bz2.compress, "zstd": zstd}
PARTS = [b"first " * 50, b"second " * 50, b"third " * 50]


def read_all(stream: Stream) -> bytes:
    blocks = []
    try:
        while block := stream.read(100):
            blocks.append(block)
    finally:
        stream.close()
    return b"".join(blocks)


@pytest.mark.parametrize("kind", PACKERS)
def test_every_member_comes_out(tmp_path, kind):
    stream = Stream(input_file(tmp_path, "x", b"".join(map(PACKERS[kind], PARTS))))
    assert stream.compression == kind
    assert read_all(stream) == b"".join(PARTS)


@pytest.mark.parametrize("kind", PACKERS)
def test_a_stream_that_is_cut_anywhere_raises(tmp_path, kind):
    members = [PACKERS[kind](part) for part in PARTS]
    whole = b"".join(members)
    borders = {len(members[0]), len(members[0] + members[1]), len(whole)}
    cuts = [cut for cut in range(5, len(whole)) if cut not in borders]
    for cut in cuts:
        with pytest.raises(Damaged):
            read_all(Stream(input_file(tmp_path, "x", whole[:cut])))
    assert len(cuts) > 50


@pytest.mark.parametrize("kind", PACKERS)
def test_a_damaged_second_member_is_not_the_end(tmp_path, kind):
    first, second, third = (PACKERS[kind](part) for part in PARTS)
    broken = bytes([second[0] ^ 0xFF]) + second[1:]
    with pytest.raises(Damaged) as damage:
        read_all(Stream(input_file(tmp_path, "x", first + broken + third)))
    assert damage.value.place <= len(PARTS[0])


def test_zeros_behind_a_gzip_member_are_padding(tmp_path):
    data = gzip.compress(b"a") + bytes(300) + gzip.compress(b"b") + bytes(70_000)
    assert read_all(Stream(input_file(tmp_path, "x", data))) == b"ab"


@pytest.mark.parametrize("kind", ["plain", *PACKERS])
def test_the_opener_goes_on_where_it_was_and_back_where_it_must(tmp_path, kind):
    data = bytes(range(256)) * 40
    file = input_file(tmp_path, "x", PACKERS.get(kind, bytes)(data))
    opener = Opener()
    for position in (0, 10, 5000, 5100, 200, 9999):
        assert opener.at(file, position).read(50)[:10] == data[position : position + 10]
    opener.close()


def test_zstd_may_begin_with_a_frame_to_skip(tmp_path):
    data = pa.compress(b"text", codec="zstd", asbytes=True)
    file = input_file(tmp_path, "a.zst", b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + data)
    stream = Stream(file)
    assert stream.compression == "zstd"
    assert stream.read() == b"text"
    stream.close()
