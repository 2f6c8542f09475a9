"""explain: why an example went, at whichever stage that was."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardkit.errors import ConfigError
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.lineage.trace import Tracer
from shardkit.prepare.report.explain import explain
from shardkit.prepare.select.config import SelectConfig
from shardkit.prepare.select.run import run as select
from tests.prepare.builders import example, write
from tests.prepare.split.builders import split

ALPHA, BETA, LEFT = example("alpha", source="a"), example("beta", source="b"), example("chosen", source="a", n=1)
KEPT = [example("alpha", source="c"), example("beta", source="c"), example("other", source="c", n=2)]


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three ingests that call their rows rows.jsonl:1, rows.jsonl:2, ..."""
    path = tmp_path_factory.mktemp("road")
    for name, rows in (("a", [ALPHA, LEFT]), ("b", [BETA]), ("c", KEPT)):
        write(path / name, rows)
    inputs = tuple(path / name for name in "abc")
    dedup(DedupConfig(inputs=inputs, output=path / "clean", priority=("c",)))
    select(SelectConfig(input=path / "clean", output=path / "chosen", where="text == 'beta' or n == 2"))
    split(path / "chosen", path / "split", "train=0.5,test=0.5")
    return path


@pytest.mark.parametrize("stage", ["clean", "chosen", "split"])
@pytest.mark.parametrize(("gone", "kept"), [(ALPHA, KEPT[0]), (BETA, KEPT[1])])
def test_rows_of_one_place_are_told_apart_at_every_stage_after_it(road: Path, stage: str, gone, kept) -> None:
    told = explain(road / stage, gone.example_id)
    assert told["outcome"] == "duplicate_text"
    assert told["detail"] == f"at level text it equals the example {kept.example_id}, which is kept"
    assert (told["left_out_by"]["stage"], told["left_out_by"]["dataset"]) == ("dedup", str(road / "clean"))
    assert [(link["kept_id"], link["removed_id"]) for link in told["links"]] == [(kept.example_id, gone.example_id)]


def test_the_newest_stage_that_left_it_out_is_named(road: Path) -> None:
    for stage in ("chosen", "split"):
        told = explain(road / stage, LEFT.example_id[:12])
        assert (told["outcome"], told["left_out_by"]["stage"]) == ("not_selected", "select")
    told = explain(road / "clean", LEFT.example_id)
    assert (told["outcome"], told["left_out_by"]) == ("kept", None)


def test_an_id_that_no_stage_knows(road: Path) -> None:
    with pytest.raises(
        ConfigError, match="no example has the id ffffffffffff, here or in what this dataset was made from"
    ):
        explain(road / "split", "ffffffffffff")


def test_a_raw_row_has_its_own_exclusion_alone(road: Path) -> None:
    rows = Tracer(road / "chosen").source("rows.jsonl:1")["rows"]
    last = {row["example_id"]: [one.get("detail") for one in row["history"] if one["stage"] == "dedup"] for row in rows}
    for gone, kept in ((ALPHA, KEPT[0]), (BETA, KEPT[1])):
        assert last[gone.example_id] == [f"at level text it equals the example {kept.example_id}, which is kept"]
