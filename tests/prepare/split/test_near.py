"""What dedup found near stays on one side of a split, also where both rows stay."""

from __future__ import annotations

from pathlib import Path

from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.store import Dataset
from tests.prepare.builders import example, write
from tests.prepare.dedup.pictures import photo
from tests.prepare.split.builders import split


def sides(path: Path) -> dict[str, str]:
    """Text -> split."""
    dataset = Dataset.open(path)
    return {made.text: dataset.shards[shard].split for shard, _, made in dataset.examples()}


def test_a_picture_saved_again_with_another_text_stays_beside_the_first(tmp_path: Path):
    rows = [
        example(f"{name} {k}", photo(k, quality=quality), group=f"{name} {k}")
        for k in range(60)
        for name, quality in (("one", 90), ("two", 50))
    ]
    write(tmp_path / "a", rows, looks=True)
    dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c"))
    assert Dataset.open(tmp_path / "c").manifest.counts["kept"] == 120
    split(tmp_path / "c", tmp_path / "s", "train=0.5,test=0.5")
    where = sides(tmp_path / "s")
    assert set(where.values()) == {"train", "test"}
    assert [k for k in range(60) if where[f"one {k}"] != where[f"two {k}"]] == []
    # Where dedup did not look, split does.
    split(tmp_path / "a", tmp_path / "u", "train=0.5,test=0.5")
    assert sides(tmp_path / "u") == where
    # Else nothing ties them: their pixels differ.
    split(tmp_path / "a", tmp_path / "t", "train=0.5,test=0.5", edges="exact")
    apart = sides(tmp_path / "t")
    assert [k for k in range(60) if apart[f"one {k}"] != apart[f"two {k}"]] != []


def test_a_picture_that_is_boilerplate_ties_nothing_by_its_looks(tmp_path: Path):
    logo = [example(f"site {k}", photo(1, quality=60), group=f"site {k}") for k in range(25)]
    again = [example(f"other {k}", photo(1, quality=70), group=f"other {k}") for k in range(25)]
    write(tmp_path / "a", [*logo, *again], looks=True)
    dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c"))
    result = split(tmp_path / "c", tmp_path / "s", "train=0.5,test=0.5")
    assert result.report["groups"]["components"] == 50
