"""Pages of a report: what they show, that nothing in them is markup of a row, and what a second run does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shardkit.cli import run as shardkit
from shardkit.errors import ConfigError, OutputError, SourceError
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.report.site.config import ReportConfig, ReportResult
from shardkit.prepare.report.site.run import run
from shardkit.prepare.split.config import SplitConfig, parse_ratios
from shardkit.prepare.split.run import run as split
from shardkit.records import Tally
from shardkit.store import Output, Sealed
from tests.prepare.builders import example, png, write

EVIL = "<script>alert('x')</script> & <img src=http://e.example/a.png>"


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("report")
    rows = [example(f"{EVIL} {k}", png(k), group=f"book <{k // 2}>", source="a<b>") for k in range(20)]
    write(root / "one", rows)
    write(root / "two", [rows[0], *(example(f"other {k}", source="two") for k in range(10))])
    dedup(DedupConfig(inputs=(root / "one", root / "two"), output=root / "clean", levels=("exact",)))
    split(SplitConfig(input=root / "clean", output=root / "split", ratios=parse_ratios("train=0.6,test=0.4")))
    return root


def report(dataset: Path, out: Path, **given: object) -> tuple[ReportResult, dict[str, str]]:
    result = run(ReportConfig(dataset=dataset, output=out, **given))  # type: ignore[arg-type]
    return result, {file.stem: file.read_text(encoding="utf-8") for file in out.glob("*.html")}


def test_it_shows_duplicates_exclusions_splits_and_leaks(road: Path, tmp_path: Path) -> None:
    result, pages = report(road / "split", tmp_path / "out")
    assert set(pages) == {"index", "exclusions", "clusters", "near", "split", "leaks"} - ({"near"} - set(pages))
    assert set(result.pages) == set(pages)
    assert result.leaks == 0
    assert "no leak between train, test" in pages["leaks"]
    assert "1 clusters, 1 rows removed" in pages["clusters"]
    assert pages["clusters"].count("data:image/jpeg;base64,") == 2
    assert "duplicate_exact: 1" in pages["exclusions"]
    assert "31 raw rows = 30 here and 1 excluded on the way" in pages["index"]


def test_nothing_of_a_row_is_markup_and_nothing_is_loaded(road: Path, tmp_path: Path) -> None:
    _, pages = report(road / "split", tmp_path / "out")
    for text in pages.values():
        assert "<script" not in text
        assert not re.search(r"<img(?! alt=\"\" src=\"data:image/jpeg;base64,)", text)
        assert not re.search(r"(src|href)=\"(?!data:image/jpeg;base64,|[a-z]+\.html\")", text)
        assert "a<b>" not in text
        assert "default-src 'none'" in text
    assert "&lt;script&gt;" in pages["clusters"]


def test_leaks_are_shown_with_the_rows_of_either_side(tmp_path: Path) -> None:
    sides = {
        "train": [example("one", png(1)), *(example(f"words {k}") for k in range(4))],
        "test": [example("another", png(1)), example("more words")],
    }
    with Output(tmp_path / "set", stage="ingest", recipe={"made": "carelessly"}) as output:
        for index, (name, rows) in enumerate(sides.items()):
            with output.unit(index, name, shards="arrow", shard_size=10**6, split=name) as unit:
                for number, row in enumerate(rows):
                    unit.add(row, input=f"{name}.jsonl", position=str(number + 1))
                unit.finish()
        output.commit(Sealed(tally=Tally(read=7, kept=7), splits=tuple(sides)))
    result, pages = report(tmp_path / "set", tmp_path / "out")
    assert result.leaks
    assert "values stand on two sides of the split" in pages["leaks"]
    assert pages["leaks"].count("data:image/jpeg;base64,") >= 2


def test_caps_are_said_and_thumbnails_can_be_left_out(road: Path, tmp_path: Path) -> None:
    rows = [example(f"row {k}", png(k)) for k in range(6)]
    write(tmp_path / "set", [*rows, *rows, *rows])
    dedup(
        DedupConfig(
            inputs=(tmp_path / "set",), output=tmp_path / "clean", levels=("exact",), max_removed_per_source=1.0
        )
    )
    _, pages = report(tmp_path / "clean", tmp_path / "out", shown=2, side=0)
    assert "6 clusters, 12 rows removed; the first 2 by size are shown" in pages["clusters"]
    assert "duplicate_exact: 12; the first 2 are shown" in pages["exclusions"]
    assert "data:image" not in pages["clusters"]
    assert "leaks" not in pages


def test_the_same_report_is_left_alone_and_another_refused(road: Path, tmp_path: Path) -> None:
    first, _ = report(road / "split", tmp_path / "out", audit=False)
    assert first.leaks is None
    again, _ = report(road / "split", tmp_path / "out", audit=False)
    assert again.unchanged
    assert again.pages == first.pages
    with pytest.raises(OutputError, match="another one is here"):
        report(road / "clean", tmp_path / "out", audit=False)
    report(road / "clean", tmp_path / "out", audit=False, overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="nothing that this command wrote"):
        report(road / "split", tmp_path / "mine", overwrite=True)


def test_settings_and_datasets_that_are_none(tmp_path: Path) -> None:
    for given, says in (({"shown": 0}, "shows nothing"), ({"side": 8}, "neither 0 nor from 16 to 512")):
        with pytest.raises(ConfigError, match=says):
            ReportConfig(dataset=tmp_path, output=tmp_path / "out", **given)  # type: ignore[arg-type]
    with pytest.raises(SourceError, match="no dataset is here"):
        report(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_empty_dataset_and_one_of_one_row(tmp_path: Path) -> None:
    for name, rows in (("none", []), ("one", [example("alone", png(1))])):
        write(tmp_path / name, rows)
        result, pages = report(tmp_path / name, tmp_path / f"{name}-report")
        assert set(pages) == {"index"}
        assert not result.unchanged


def test_the_command_says_what_is_wrong(road: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shardkit(["report", str(tmp_path / "nowhere"), "-o", str(tmp_path / "out")]) == 4
    assert "no dataset is here" in capsys.readouterr().err
    assert shardkit(["report", str(road / "split"), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'out' / 'index.html'}\t")
