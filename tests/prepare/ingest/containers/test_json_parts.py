"""JSON documents in parts: what stands in them is what the strict reader finds in the whole."""

from __future__ import annotations

import json
import random

import pytest

from shardkit.prepare.ingest.containers import documents, json_parts
from shardkit.prepare.ingest.containers.json_parts import Items, Members, parse_parts
from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.formats import SOURCES
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest import generate_captions
from tests.prepare.ingest.runs import Ingested

TEXTS = ["", "a", 'quo"te', "back\\slash", "}{][,:", "\u59d3\u540d \u2028", "line\nend", "\\", '\\"', "\U0001f600"]


def whole(value: object) -> object:
    """The value with its items."""
    if isinstance(value, Items):
        return list(value)
    return {key: whole(inner) for key, inner in value.items()} if isinstance(value, dict | Members) else value


def some_value(rng: random.Random, depth: int) -> object:
    kind = rng.randrange(7 if depth else 5)
    if kind < 5:
        return [None, True, rng.randrange(-9, 9), rng.random(), rng.choice(TEXTS)][kind]
    inner = [some_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return inner if kind == 5 else {f"{rng.choice(TEXTS)}{k}": one for k, one in enumerate(inner)}


@pytest.mark.parametrize("seed", range(60))
def test_documents_of_any_shape_hold_what_the_strict_reader_finds(seed, monkeypatch):
    monkeypatch.setattr(json_parts, "LARGE", 0 if seed % 5 else 1 << 20)
    rng = random.Random(seed)
    value = {f"k{n}": some_value(rng, 4) for n in range(4)} if seed % 2 else [some_value(rng, 4) for _ in range(9)]
    data = json.dumps(value, ensure_ascii=seed % 3 == 0, indent=seed % 4 or None).encode("utf-8")
    got = parse_parts(data).value
    assert whole(got) == parse(data).value == value
    assert isinstance(got, Items) == isinstance(value, list)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"  ", b"[", b"[1", b"[1,]", b"[,1]", b"[1 2]", b'[{"a": 1},]', b'[{"a": 1} {"b": 2}]', b'{"a": [1], "a": [2]}', b"[1] x",
        b'{"a": [1]', b'{"a" [1]}', b"{a: []}", b'{"a": [}', b"{]", b'["a]', b"nan", b'{"a": {"b": 1', b'{"a": {"b" 1}}', b'{"a": {"b": 1,}}',
        b'{"a": {"b": 1, "b": 2}}', b'{"a": {1: 2}}', b'{"a": {"b": 1} "c": 2}',
    ],
)  # fmt: skip
def test_what_is_no_json_is_told_by_the_strict_reader(data, monkeypatch):
    monkeypatch.setattr(json_parts, "LARGE", 0)
    with pytest.raises(Bad) as told:
        parse(data)
    with pytest.raises(Bad) as got:
        parse_parts(data)
    assert (got.value.reason, got.value.detail) == (told.value.reason, told.value.detail)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'[{"a": 1, "a": 2}]', "duplicate_key"),
        (b'[{"a": "\x01"}]', "control_character"),
        (b'[{"a": "\xff"}]', "invalid_utf8"),
        (b"[1e999]", "non_finite_number"),
        (b'[{"a": tru}]', "invalid_json"),
        (b"[[1}]", "invalid_json"),
    ],
)
def test_what_is_wrong_in_an_item_is_told_when_it_is_asked_for(data, reason):
    items = parse_parts(data).value
    with pytest.raises(Bad) as bad:
        items[0]
    assert bad.value.reason == reason


def test_an_item_longer_than_a_line_may_be_is_not_parsed(monkeypatch):
    monkeypatch.setattr(json_parts, "MAX_LINE", 10)
    items = parse_parts(b'[{"a": 1}, {"a": "0123456789"}]').value
    assert items[0] == {"a": 1}
    with pytest.raises(Bad) as bad:
        items[1]
    assert (bad.value.reason, bad.value.detail) == ("line_too_long", "an entry of 19 bytes at byte 11, the limit is 10")


def test_what_was_altered_to_keep_an_item_is_counted_with_it():
    items = parse_parts(b'[{"a": "\\ud800"}, 1, 123456789012345678901234567890]').value
    assert (items[1], len(items), dict(items.changes)) == (1, 3, {})
    assert list(items) == [{"a": "\ufffd"}, 1, "123456789012345678901234567890"]
    assert items.changes == {"surrogate_replaced": 1, "long_integer_as_text": 1}


@pytest.mark.parametrize("write", [generate_captions.coco, generate_captions.sbu, "karpathy", "rows"])
def test_a_large_document_gives_the_same_records(tmp_path, monkeypatch, write):
    if callable(write):
        write(tmp_path / "in")
    else:
        (tmp_path / "in").mkdir()
        names = [f"{number}.jpg" for number in range(generate_captions.COUNT)]
        document = (
            {"images": [{"filename": name, "filepath": "val", "sentences": [{"raw": f"of {name}"}]} for name in names]}
            if write == "karpathy"
            else [{"image": name, "caption": f"of {name}"} for name in names]
        )
        (tmp_path / "in" / "val").mkdir()
        for number, name in enumerate(names):
            place = tmp_path / "in" / ("val" if write == "karpathy" else "") / name
            place.write_bytes(generate_captions.photo(number))
        (tmp_path / "in" / "captions.json").write_text(json.dumps(document))
    small = Ingested(tmp_path / "small", "caption", tmp_path / "in", max_bad=1.0)
    monkeypatch.setattr(documents, "PARTED", 0)
    large = Ingested(tmp_path / "large", "caption", tmp_path / "in", max_bad=1.0)
    assert large.result.dataset == small.result.dataset
    assert (large.counts, large.changes) == (small.counts, small.changes)
    assert small.counts[0] == generate_captions.COUNT


def test_every_format_of_documents_reads_them_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "PARTED", 0)
    read = {name: source.entries for name, source in SOURCES.items() if source.entries is not None}
    samples = {
        "caption": [{"image": "a.jpg", "caption": "c"}], "rows": [{"text": "t"}], "chat": [{"messages": []}],
        "mmocr": {"data_list": [{"img_path": "a.jpg", "instances": []}]}, "ocr": [{"image": "a.jpg", "text": "t"}],
    }  # fmt: skip
    for name, entries in read.items():
        value = samples.get(name, samples["rows"])
        parted = parse_parts(json.dumps(value).encode()).value
        assert list(entries(parted).entries) == list(entries(value).entries), name


@pytest.mark.parametrize("listed", [True, False])
def test_a_large_document_of_textocr_gives_the_same_entries(monkeypatch, listed):
    document = {
        "info": {"version": "0.1"},
        "imgs": {f"i{k}": {"id": f"i{k}", "file_name": f"train/{k}.jpg", "width": 9, "height": 8} for k in range(5)},
        "anns": {
            f"i{k}_{n}": {"image_id": f"i{k}", "utf8_string": f"w{n}", "points": [0, 0, n, 0, n, 5, 0, 5]}
            for n in range(3) for k in range(5)
        },
        **({"imgToAnns": {f"i{k}": [f"i{k}_{n}" for n in (2, 0, 1)] for k in range(5)}} if listed else {}),
    }  # fmt: skip
    data = json.dumps(document).encode()
    small = list(SOURCES["mmocr"].entries(parse(data).value).entries)
    monkeypatch.setattr(json_parts, "LARGE", 0)
    parted = parse_parts(data).value
    assert isinstance(parted["anns"], Members)
    assert list(SOURCES["mmocr"].entries(parted).entries) == small
    assert small[4].position == "train/4.jpg"
    assert (
        [one["text"] for one in small[4].value["entry"]["instances"]] == ["w2", "w0", "w1"]
        if listed
        else ["w0", "w1", "w2"]
    )


def test_members_say_what_is_wrong_when_they_are_asked_for_and_what_was_altered(monkeypatch):
    monkeypatch.setattr(json_parts, "LARGE", 0)
    members = parse_parts(b'{"a": {"good": "\\ud800", "b\\u00e4d": [1e999], "twice": {"k": 1, "k": 2}}}').value["a"]
    assert (list(members), len(members), "good" in members) == (["good", "b\u00e4d", "twice"], 3, True)
    assert (members["good"], members.get("absent"), dict(members.changes)) == (
        "\ufffd",
        None,
        {"surrogate_replaced": 1},
    )
    for name, reason in (("b\u00e4d", "non_finite_number"), ("twice", "duplicate_key")):
        with pytest.raises(Bad) as bad:
            members[name]
        assert bad.value.reason == reason


def test_deep_and_long_items_cost_no_recursion():
    deep = b"[" * 50_000 + b"]" * 50_000
    assert len(parse_parts(b"[" + deep + b"]").value) == 1
    long = b'[{"a": "' + b"x\\\\" * 400_000 + b'"}, {"b": {"c": []}}]'
    assert [len(one) for one in parse_parts(long).value] == [1, 1]
