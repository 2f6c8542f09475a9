"""The walk over a tar agrees with the standard library on good archives and is silent about no bad one."""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest

from shardkit.prepare.ingest.containers.streams import Damaged, Stream
from shardkit.store.tar_walk import BLOCK, Member, walk
from tests.prepare.ingest.builders import input_file, tar

MEMBERS = [("a.jpg", b"x" * 700), ("a.txt", b"text"), ("b/c.jpg", b""), ("b/c.txt", b"y" * 512)]


def members(tmp_path, data: bytes, *, keep: int = 0) -> list[Member]:
    file = input_file(tmp_path, "t.tar", data)
    stream = Stream(file)
    try:
        return list(walk(stream, size=file.size if stream.compression is None else None, keep=keep))
    finally:
        stream.close()


def place_of_damage(tmp_path, data: bytes) -> int | None:
    """Where the walk finds an archive damaged; None where it finds the members of MEMBERS."""
    try:
        got = members(tmp_path, data)
    except Damaged as damage:
        return damage.place
    assert [(m.name, m.size) for m in got] == [(name, len(value)) for name, value in MEMBERS]
    return None


def test_names_places_and_sizes_are_those_of_the_archive(tmp_path):
    data = tar(MEMBERS)
    got = members(tmp_path, data)
    assert [(m.name, data[m.offset : m.offset + m.size]) for m in got] == MEMBERS


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_and_foreign_names(tmp_path, form):
    names = ["deep/" * 18 + "n.jpg", "bild-für-图.jpg"]
    if form != tarfile.USTAR_FORMAT:
        names.append("deep/" * 60 + "x" * 200 + ".jpg")
    got = members(tmp_path, tar([(name, b"x") for name in names], form))
    assert [m.name for m in got] == names


def test_a_compressed_archive_has_the_same_members(tmp_path):
    plain = members(tmp_path, tar(MEMBERS))
    packed = members(tmp_path, gzip.compress(tar(MEMBERS)), keep=600)
    assert [(m.name, m.offset, m.size) for m in packed] == [(m.name, m.offset, m.size) for m in plain]
    assert [m.data for m in packed] == [None, b"text", b"", b"y" * 512]


def test_links_devices_and_names_that_lead_out_are_marked_and_folders_passed_over(tmp_path):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, kind in [
            ("dir", tarfile.DIRTYPE), ("soft", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("pipe", tarfile.FIFOTYPE),
            ("dev", tarfile.CHRTYPE), ("../up.jpg", tarfile.REGTYPE), ("/abs.jpg", tarfile.REGTYPE),
            ("a/../../b.jpg", tarfile.REGTYPE), ("./fine//x.jpg", tarfile.REGTYPE),
        ]:  # fmt: skip
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/hostname"
            archive.addfile(info)
    got = {m.name: bool(m.unsafe) for m in members(tmp_path, out.getvalue())}
    assert got == {
        "soft": True, "hard": True, "pipe": True, "dev": True, "../up.jpg": True, "/abs.jpg": True,
        "a/../../b.jpg": True, "fine/x.jpg": False,
    }  # fmt: skip


def test_every_turned_byte_of_a_header_is_found(tmp_path):
    data = tar(MEMBERS)
    start = members(tmp_path, data)[1].offset - BLOCK
    silent = []
    for place in range(start, start + BLOCK):
        broken = bytearray(data)
        broken[place] ^= 0xFF
        found = place_of_damage(tmp_path, bytes(broken))
        if found is None:
            silent.append(place - start)
        else:
            assert found == start
    # Only the byte behind the closed checksum says nothing.
    assert silent == [155]


def test_every_cut_is_found(tmp_path):
    data = tar(MEMBERS)
    end = members(tmp_path, data)[-1].offset + 512
    for size in [*range(0, end + 1, 37), end]:
        with pytest.raises(Damaged):
            members(tmp_path, data[:size])
        if size:
            with pytest.raises(Damaged):
                members(tmp_path, gzip.compress(data[:size]))
    assert len(members(tmp_path, data[: end + BLOCK])) == len(MEMBERS), "one block of zeros ends an archive"


@pytest.mark.parametrize("size", ["9" * 5000, "9" * 20, "-1", "x"])
def test_a_size_that_is_no_number_of_bytes_is_found(tmp_path, size):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("a.jpg")
        info.pax_headers = {"size": size}
        archive.addfile(info)
    with pytest.raises(Damaged, match=f"an extended header gives the size '{size[:20]}'"):
        members(tmp_path, out.getvalue())


def test_two_joined_archives_are_found(tmp_path):
    with pytest.raises(Damaged, match="follow the end mark"):
        members(tmp_path, tar(MEMBERS) + tar(MEMBERS))


def with_size(field: bytes) -> bytes:
    """An archive whose second header states another size, under a fitting checksum."""
    data = bytearray(tar(MEMBERS))
    start = 1024 + 512
    data[start + 124 : start + 136] = field.ljust(12, b"\0")
    data[start + 148 : start + 156] = b" " * 8
    data[start + 148 : start + 156] = b"%06o\0 " % sum(data[start : start + 512])
    return bytes(data)


@pytest.mark.parametrize(
    "field", [b"-1000", b"\xff" * 12, b"\x80" + b"\xff" * 11, b"77777777777", b"1_0", b"+10", b"9", b"abc"]
)
def test_an_impossible_size_is_found(tmp_path, field):
    with pytest.raises(Damaged):
        members(tmp_path, with_size(field))


def test_a_size_in_base_256_is_read(tmp_path):
    got = members(tmp_path, with_size(b"\x80" + (4).to_bytes(11, "big")))
    assert [m.size for m in got] == [700, 4, 0, 512]


def test_a_broken_extended_header_is_found(tmp_path):
    data = bytearray(tar([("x" * 150, b"data")], tarfile.PAX_FORMAT))
    assert data[512:515] == b"160"
    data[512:515] = b"999"
    with pytest.raises(Damaged, match="extended"):
        members(tmp_path, bytes(data))
