"""Samples of archives: whatever stands together in name comes together, once."""

from __future__ import annotations

import gzip
import random
import tarfile
from collections import Counter

import pytest

from shardkit.errors import SourceError
from shardkit.prepare.ingest import run
from shardkit.prepare.ingest.containers import tars
from shardkit.records import Exclusion
from tests.prepare.ingest.builders import changes, config, entries, input_file, pieces, tar


def samples(tmp_path, data: bytes, **settings) -> list[tuple[str, object]]:
    """(key, {member: bytes}) of samples and (key, reason) of exclusions."""
    got = entries("tar", input_file(tmp_path, "t.tar", data), config(format="webdataset", **settings))
    return [
        (e.position, e.reason if isinstance(e, Exclusion) else {m.name: m.data for m in e.value})
        for e in got
        if not isinstance(e, dict)
    ]


def test_the_key_ends_at_the_last_dot_of_the_base_name(tmp_path):
    data = tar([("v.1/22.05.png", b"i"), ("v.1/22.05.txt", b"t"), ("v.1/22.06.JPG", b"j")])
    assert samples(tmp_path, data) == [
        ("v.1/22.05", {"v.1/22.05.png": b"i", "v.1/22.05.txt": b"t"}),
        ("v.1/22.06", {"v.1/22.06.JPG": b"j"}),
    ]


@pytest.mark.parametrize(
    ("names", "found", "beside"),
    [
        ("a.jpg a.txt a.seg.png a.feat.npy b.jpg b.json", {"a": ["a.jpg", "a.txt"], "b": ["b.jpg", "b.json"]}, 2),
        ("a.image.jpg a.caption.txt a.meta.json", {"a": ["a.caption.txt", "a.image.jpg", "a.meta.json"]}, 0),
        ("a.jpg a.caption.txt", {"a": ["a.caption.txt", "a.jpg"]}, 0),
        ("2.5.jpg 2.5.txt 2.5.seg.png", {"2.5": ["2.5.jpg", "2.5.txt"]}, 1),
        ("a.jpg a.txt a.2.png", {"a": ["a.jpg", "a.txt"], "a.2": ["a.2.png"]}, 0),
        ("a.x.jpg a.y.jpg a.z.txt", {"a.x": ["a.x.jpg"], "a.y": ["a.y.jpg"], "a.z": ["a.z.txt"]}, 0),
        ("a.x.jpg a.y.txt a.z.txt", {"a.x": ["a.x.jpg"], "a.y": ["a.y.txt"], "a.z": ["a.z.txt"]}, 0),
        ("a.x.jpg a.x.txt a.y.jpg a.y.txt", {"a.x": ["a.x.jpg", "a.x.txt"], "a.y": ["a.y.jpg", "a.y.txt"]}, 0),
    ],
)
def test_extensions_of_two_parts_belong_to_one_sample(tmp_path, names, found, beside):
    file = input_file(tmp_path, "t.tar", tar([(name, b"x") for name in names.split()]))
    got = entries("tar", file, config(format="webdataset"))
    records = [entry for entry in got if not isinstance(entry, dict)]
    assert {one.position: sorted(member.name for member in one.value) for one in records} == found
    assert changes(got)["member_beside_sample"] == beside


def test_names_that_differ_in_unicode_form_alone_are_one_sample(tmp_path):
    data = tar([("e\u0301.png", b"i"), ("\u00e9.txt", b"t"), ("plain.png", b"p")], tarfile.PAX_FORMAT)
    assert samples(tmp_path, data) == [
        ("e\u0301", {"e\u0301.png": b"i", "\u00e9.txt": b"t"}),
        ("plain", {"plain.png": b"p"}),
    ]
    twice = tar([("e\u0301.png", b"i"), ("\u00e9.png", b"j")], tarfile.PAX_FORMAT)
    assert [found for _, found in samples(tmp_path, twice)] == ["duplicate_member"]


def many() -> list[tuple[str, bytes]]:
    return [
        member
        for n in range(40)
        for member in (
            (f"{n:03}.jpg", bytes([n]) * 3000),
            (f"{n:03}.txt", b"caption %d" % n),
            (f"{n:03}.npy", b"?" * 100),
        )
    ]


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_members_changes_nothing_but_the_order_of_images(tmp_path, seed):
    members = many()
    images, others = members[0::3], members[1::3] + members[2::3]
    random.Random(seed).shuffle(others)
    whole = samples(tmp_path, tar(members))
    assert whole == samples(tmp_path, tar(images + others)) == samples(tmp_path, tar(others + images))
    assert whole[7] == ("007", {"007.jpg": b"\7" * 3000, "007.txt": b"caption 7"})


def test_compression_and_unit_size_change_nothing(tmp_path):
    data = tar(many())
    whole = samples(tmp_path, data)
    for unit_size in (1, 9000, 10**9):
        assert samples(tmp_path, data, unit_size=unit_size) == whole
        assert samples(tmp_path, gzip.compress(data), unit_size=unit_size) == whole
    assert len(pieces("tar", input_file(tmp_path, "t.tar", data), config(unit_size=9000))) == 20


def test_a_name_that_comes_twice_costs_its_sample(tmp_path):
    data = tar([("a.jpg", b"1"), ("b.jpg", b"2"), ("a.jpg", b"3"), ("b.txt", b"4")])
    assert samples(tmp_path, data) == [("a", "duplicate_member"), ("b", {"b.jpg": b"2", "b.txt": b"4"})]


def test_the_baggage_of_archivers_is_counted_and_passed_over(tmp_path):
    names = ["._a.jpg", "a.jpg", ".DS_Store", "x/._b.txt", "__MACOSX/a.jpg", "a.txt"]
    got = entries("tar", input_file(tmp_path, "t.tar", tar([(n, b"x") for n in names])), config())
    assert changes(got) == {"system_member_skipped": 4}
    assert [e.position for e in got if not isinstance(e, dict)] == ["a"]


def test_a_member_over_the_limit_is_excluded_by_name(tmp_path):
    settings = config(limits=config().limits.__class__(max_bytes=100))
    for packer in (bytes, gzip.compress):
        file = input_file(tmp_path, "t.tar", packer(tar([("a.jpg", b"x" * 101), ("b.jpg", b"x" * 100)])))
        got = entries("tar", file, settings)
        assert [getattr(e, "reason", "kept") for e in got] == ["too_many_bytes", "kept"]
        assert "a.jpg has 101 bytes" in got[0].detail


def test_a_damaged_archive_is_refused_and_salvaged_on_demand(tmp_path):
    data = tar(many())
    cut = data[: data.index(b"005.txt") + 600]
    with pytest.raises(SourceError, match=r"t\.tar: damaged at byte \d+"):
        samples(tmp_path, cut)
    got = samples(tmp_path, cut, salvage=True)
    assert [key for key, _ in got] == ["000", "001", "002", "003", "004", "005", "end"]
    assert got[-1] == ("end", "damaged_input")
    assert got[5] == ("005", {"005.jpg": b"\5" * 3000, "005.txt": b"caption 5"})


def test_an_archive_that_changes_under_the_reader_is_an_error(tmp_path):
    file = input_file(tmp_path, "t.tar", tar(many()))
    opener = tars.Opener()
    piece = next(tars.plan(file, config(), opener))
    chunk = next(tars.chunks(piece, config(), opener))
    (tmp_path / "t.tar").write_bytes(b"short")
    with pytest.raises(SourceError, match="changed while it was read"):
        list(tars.records(chunk, config()))


@pytest.mark.parametrize("unit_size", [3_000, 30_000, 256_000_000])
def test_an_archive_is_walked_once_however_many_a_unit_holds(tmp_path, monkeypatch, unit_size):
    walked = Counter()
    index = tars.index

    def counted(file, config):
        walked[file.name] += 1
        return index(file, config)

    monkeypatch.setattr(tars, "index", counted)
    for number in range(7):
        (tmp_path / f"{number}.tar").write_bytes(tar([(f"{number}{n}.txt", b"t" * 2000) for n in range(5)]))
    paths = sorted(tmp_path.glob("*.tar"))
    result = run(config(format="webdataset", paths=tuple(paths), dry_run=True, max_bad=1.0, unit_size=unit_size))
    assert result.tally.read == 35
    assert walked == {path.name: 1 for path in paths}
