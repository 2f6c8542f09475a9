"""Audit of what was made from a split: views, sequences, datasets with shards of their own; and what is permitted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from shardkit.errors import IntegrityError, LeakError
from shardkit.prepare.audit.config import AuditConfig, AuditResult
from shardkit.prepare.audit.run import run
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.tokenize.config import TokenizeConfig
from shardkit.prepare.tokenize.run import run as tokenize
from shardkit.records import Tally
from shardkit.records.manifest import Manifest
from shardkit.store import Dataset, Output, Sealed
from shardkit.store.arrow_shard import TableWriter
from tests.prepare.audit.careless import NEAR, RECORD, write_split
from tests.prepare.audit.planting import rewrite
from tests.prepare.builders import example, write
from tests.prepare.dedup.pictures import photo
from tests.prepare.split.builders import split
from tests.tokenizer_builders import byte_level

FABLE = (
    "a crow sat on a high branch with a piece of cheese in its beak and a fox that walked below looked up and said "
    "what a fine bird you are surely your voice must be as lovely as your feathers are black"
)
TRAIN = [example(FABLE), *(example(f"train {k}") for k in range(4))]
TEST = [example(f"test {k}") for k in range(3)]


def audit(path: Path, **options) -> AuditResult:
    return run(AuditConfig(dataset=path, **options))


# ---------------------------------------------------------------------- sequences
@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.json").write_bytes(orjson.dumps(byte_level()))
    write_split(tmp_path / "s", {"train": TRAIN, "test": TEST})
    tokenize(
        TokenizeConfig(
            inputs=(tmp_path / "s",),
            output=tmp_path / "t",
            tokenizer=tmp_path / "tokenizer.json",
            recipe="vlm",
            settings={"image_size": "28"},
            max_tokens=400,
        )
    )
    return tmp_path / "t"


def rewrite_sequences(path: Path, shard: int, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Write a shard of sequences anew; digests in the manifest and its id fit."""
    ref = Dataset.open(path).sequence_shards[shard]
    with pa.memory_map(str(ref.path)) as source:
        table = pa.ipc.open_file(source).read_all()
        rows, schema = change(table.to_pylist()), table.schema
        del table
    ref.path.unlink()
    writer = TableWriter(ref.path, schema)
    writer.write_batch(rows)
    written = writer.close()
    body = orjson.loads((path / "manifest.json").read_bytes())
    body["sequences"][shard] |= {"rows": written.rows, "size": written.size, "xxh3": written.xxh3}
    (path / "manifest.json").write_bytes(Manifest.from_json(body).to_json())


def test_sequences_are_audited_with_their_examples(tokens: Path):
    result = audit(tokens)
    assert result.error is None
    assert (result.examples, result.sequences) == (8, 8)
    assert audit(tokens, workers=2) == result


def test_a_sequence_on_another_side_than_its_example_is_a_leak(tokens: Path):
    dataset = Dataset.open(tokens)
    (train, test) = dataset.sequence_shards
    reader = dataset.sequence_reader(train)
    taken = reader.table().to_pylist()[0]
    reader.close()
    rewrite_sequences(tokens, test.index, lambda rows: [*rows, taken])
    result = audit(tokens)
    assert isinstance(result.error, LeakError)
    assert {k: n for k, n in result.leaks.items() if n} == {"parent": 1}
    (item,) = result.evidence
    assert item["value"] == taken["example_id"]
    assert item["sides"]["test"] == {"examples": 1, "rows": [f"{test.name}:3"]}


def test_a_sequence_that_hides_where_it_comes_from_is_a_leak(tokens: Path):
    def hidden(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        place = next((s.index, 0) for s in Dataset.open(tokens, check_id=False).shards if s.split == "train")
        return [{**rows[0], "shard": place[0], "row": place[1]}, *rows[1:]]

    (_, test) = Dataset.open(tokens).sequence_shards
    rewrite_sequences(tokens, test.index, hidden)
    result = audit(tokens)
    assert result.leaks["parent"] == 1
    assert any("the row of its example has the id" in fault for fault in result.faults)


def test_a_sequence_that_leads_nowhere_is_damage(tokens: Path):
    (_, test) = Dataset.open(tokens).sequence_shards
    rewrite_sequences(tokens, test.index, lambda rows: [{**rows[0], "row": 999}, *rows[1:]])
    result = audit(tokens)
    assert not any(result.leaks.values())
    assert isinstance(result.error, IntegrityError)


# ---------------------------------------------------------------------- views, and what has shards of its own
def test_a_view_is_audited_by_the_rules_of_its_split(tmp_path: Path):
    near = {**NEAR, "text": {**NEAR["text"], "threshold": 0.6}}
    write_split(tmp_path / "s", {"train": TRAIN, "test": [*TEST, *TEST]}, recipe={**RECORD, "near": near})
    dedup(DedupConfig(inputs=(tmp_path / "s",), output=tmp_path / "v"))
    result = audit(tmp_path / "v")
    assert result.error is None
    assert result.examples == 8
    assert result.rules["near"]["text"]["threshold"] == 0.6
    assert result.notes == ()


def test_rows_that_a_view_leaves_out_are_not_audited(tmp_path: Path):
    again = example(f"{FABLE} indeed", n=1)
    write_split(tmp_path / "s", {"train": TRAIN, "test": [*TEST, again]})
    assert audit(tmp_path / "s").leaks["near_text"] == 1
    dedup(DedupConfig(inputs=(tmp_path / "s",), output=tmp_path / "v"))
    result = audit(tmp_path / "v")
    assert result.examples == 8
    assert result.error is None


def made_from(path: Path, source: Path) -> None:
    """The same rows in shards of their own, by a later stage."""
    old = Dataset.open(source)
    with Output(path, stage="forget", recipe={}, inputs=[old.id]) as output:
        for place in old.splits:
            with output.unit(0, place, shards="arrow", shard_size=1 << 20, split=place) as unit:
                for number, (_, _, row) in enumerate(old.examples(place)):
                    unit.add(row, input="x", position=str(number))
                unit.finish()
        output.commit(Sealed(tally=Tally(read=8, kept=8), splits=old.splits))


def test_the_rules_of_a_split_are_found_through_what_was_made_from_it(tmp_path: Path):
    near = {**NEAR, "text": {**NEAR["text"], "threshold": 0.6}}
    write_split(tmp_path / "s", {"train": TRAIN, "test": TEST}, recipe={**RECORD, "near": near})
    made_from(tmp_path / "m", tmp_path / "s")
    alone = audit(tmp_path / "m")
    assert alone.error is None
    assert any("is not at hand" in note for note in alone.notes)
    beside = audit(tmp_path / "m", bases=(tmp_path,))
    assert beside.notes == ()
    assert beside.rules["near"]["text"]["threshold"] == 0.6


# ---------------------------------------------------------------------- what is permitted
@pytest.mark.parametrize("again", [60, None])
def test_boilerplate_on_two_sides_is_reported_apart(tmp_path: Path, again: int | None):
    """A logo, and the same logo saved again, each on more sites than the limit: neither ties, and both are told of."""
    rows = [example(f"site {k}", photo(1), site=f"s{k}") for k in range(30)]
    rows += [example(f"other {k}", photo(1, quality=again), site=f"o{k}") for k in range(30)]
    write(tmp_path / "a", rows, looks=True)
    split(tmp_path / "a", tmp_path / "s", "train=0.5,test=0.5", group_by="site")
    result = audit(tmp_path / "s")
    assert result.error is None
    assert not any(result.leaks.values())
    pictures = 1 if again is None else 2
    assert (result.permitted["asset"], result.permitted["pixel"]) == (pictures, pictures)
    assert result.permitted["near_picture"] == (0 if again is None else 1)
    assert {item["kind"] for item in result.boilerplate} == {"asset", "pixel"} | ({"near_picture"} if again else set())
    assert result.to_json()["boilerplate"][0]["sides"].keys() == {"train", "test"}
    assert result.evidence == ()


def test_what_is_near_to_boilerplate_is_a_leak(tmp_path: Path):
    rows = [example(f"site {k}", photo(1), site=f"s{k}") for k in range(30)]
    write(tmp_path / "a", rows, looks=True)
    split(tmp_path / "a", tmp_path / "s", "train=0.5,test=0.5", group_by="site")
    shard = Dataset.open(tmp_path / "s").shards[-1]
    rewrite(tmp_path / "s", shard.index, lambda some: [*some, example("copy", photo(1, quality=60), site="new")])
    assert audit(tmp_path / "s").leaks["near_picture"] == 1
