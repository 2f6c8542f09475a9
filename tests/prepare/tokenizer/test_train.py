"""From datasets to the files of a tokenizer."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from shardkit.errors import ConfigError, OutputError, SourceError
from shardkit.prepare.tokenizer import train as module
from shardkit.prepare.tokenizer.config import ReportConfig, TrainConfig, TrainResult
from shardkit.prepare.tokenizer.report import report
from shardkit.prepare.tokenizer.train import run
from shardkit.records import Example, Segment
from shardkit.text.tokenizer import Tokenizer
from tests.example_builders import make_example
from tests.prepare.tokenize.datasets import commit
from tests.tokenizer_builders import byte_level

CHAT = Example(
    example_id="c" * 32,
    source="test",
    segments=(
        Segment(kind="text", text="zzqq zzqq", role="user"),
        Segment(kind="text", text='[{"name": "wwvv"}]', role="assistant", name="tool_calls"),
        Segment(kind="text", text=None, role="assistant"),
    ),
    images=(),
    relations=(),
)


@pytest.fixture
def sets(tmp_path: Path) -> tuple[Path, Path]:
    words = ["the cat sat", "a caption of a cat", "\u4eca\u5929\u5929\u6c14\u5f88\u597d", "page one\npage two"]
    one = [make_example(f"{words[k % 4]} {k}", 0, "behind the picture") for k in range(200)]
    commit(tmp_path / "one", {"all": one}, shard_size=4000)
    commit(tmp_path / "two", {"all": [make_example("another text " * 3, source=f"s{k}") for k in range(20)] + [CHAT]})
    return tmp_path / "one", tmp_path / "two"


def config(inputs: tuple[Path, ...], output: Path | None, **more) -> TrainConfig:
    return TrainConfig(inputs=inputs, output=output, **{"vocab_size": 340, **more})


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_equal_text_gives_equal_files(sets: tuple[Path, Path], tmp_path: Path) -> None:
    one = run(config(sets, tmp_path / "t1", workers=1))
    two = run(config(sets[::-1], tmp_path / "t2", workers=2))
    assert set(files(tmp_path / "t1")) == {"tokenizer.json", "tokenizer_config.json", "training.json"}
    assert files(tmp_path / "t1") == files(tmp_path / "t2")
    assert one == replace(two, path=one.path)
    assert one.vocab_size == 340
    assert one.digest == Tokenizer.load(tmp_path / "t1").digest


def test_all_kinds_of_text_are_read(sets: tuple[Path, Path], tmp_path: Path) -> None:
    run(config(sets, tmp_path / "t", vocab_size=600))
    entries = Tokenizer.load(tmp_path / "t").entries
    assert {"zzqq", "\u0120zzqq", "wwvv", "\u0120picture"} <= set(entries)


def test_memory_is_bounded_by_a_draw_that_looks_at_ids_alone(sets: tuple[Path, Path], tmp_path: Path) -> None:
    whole = run(config(sets, None, dry_run=True)).text
    assert (
        (whole["examples"], whole["bytes"]) == (whole["examples_there"], whole["bytes_there"]) == (221, whole["bytes"])
    )
    half = run(config(sets, tmp_path / "t1", max_bytes=whole["bytes"] // 2))
    assert 0.3 < half.text["bytes"] / whole["bytes"] < 0.7
    again = run(config(sets[::-1], tmp_path / "t2", max_bytes=whole["bytes"] // 2, workers=2))
    assert files(tmp_path / "t1") == files(tmp_path / "t2")
    assert half.text == again.text
    with pytest.raises(SourceError, match="none of the examples is drawn: --max-bytes 1 of"):
        run(config(sets, None, max_bytes=1, dry_run=True))


def test_a_split_dataset_is_read_in_train_only(tmp_path: Path) -> None:
    commit(tmp_path / "s", {"train": [make_example("ordinary words")], "test": [make_example("secretive secretive")]})
    asked = config((tmp_path / "s",), tmp_path / "t", vocab_size=400)
    run(asked)
    assert "ordinary" in Tokenizer.load(tmp_path / "t").entries
    assert "secretive" not in Tokenizer.load(tmp_path / "t").entries
    run(replace(asked, split="test", overwrite=True))
    assert "secretive" in Tokenizer.load(tmp_path / "t").entries
    with pytest.raises(ConfigError, match="has no split 'val'; it has train, test"):
        run(replace(asked, split="val"))


def test_the_same_again_is_unchanged_and_another_is_refused(sets: tuple[Path, Path], tmp_path: Path) -> None:
    asked = config(sets, tmp_path / "t")
    first = run(asked)
    before = files(tmp_path / "t")
    assert run(asked) == replace(first, unchanged=True)
    for other in (replace(asked, vocab_size=350), replace(asked, inputs=sets[:1]), replace(asked, pattern="gpt2")):
        with pytest.raises(OutputError, match="another one is here, made with another"):
            run(other)
    assert files(tmp_path / "t") == before
    assert run(replace(asked, vocab_size=350, overwrite=True)).vocab_size == 350
    (tmp_path / "t" / "mine.txt").write_text("x")
    with pytest.raises(OutputError, match=r"the folder holds mine\.txt, which is not of it"):
        run(replace(asked, overwrite=True))


def test_nothing_foreign_is_replaced_and_no_input(sets: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "tokenizer.json").write_text("{}")
    with pytest.raises(OutputError, match="nothing that this command wrote"):
        run(config(sets, tmp_path / "mine", overwrite=True))
    with pytest.raises(OutputError):
        run(config(sets, sets[0] / "tokenizer"))


def test_a_run_that_fails_leaves_nothing(sets: tuple[Path, Path], tmp_path: Path, monkeypatch) -> None:
    def breaks(*_args, **_more):
        raise OutputError("no space left", where="x", hint="y")

    monkeypatch.setattr(module, "train", breaks)
    with pytest.raises(OutputError, match="no space left"):
        run(config(sets, tmp_path / "t"))
    assert not (tmp_path / "t").exists()
    assert not (tmp_path / ".t.new").exists()


def test_an_empty_dataset_has_no_text(tmp_path: Path) -> None:
    commit(tmp_path / "s", {"all": [make_example(0)]})
    with pytest.raises(SourceError, match="there is no text in it"):
        run(config((tmp_path / "s",), tmp_path / "t"))


def test_a_template_needs_its_marks(sets: tuple[Path, Path], tmp_path: Path) -> None:
    names = tmp_path / "names.toml"
    names.write_text('special = ["<eos>"]\neos = "<eos>"\n')
    found = run(config(sets, tmp_path / "t", control_tokens=names))
    assert not found.has_template
    assert "chat_template" not in orjson.loads((tmp_path / "t/tokenizer_config.json").read_bytes())
    assert dict(Tokenizer.load(tmp_path / "t").controls) == {"<eos>": 0}
    (tmp_path / "mine.jinja").write_text("{{ messages }}")
    run(config(sets, tmp_path / "t", control_tokens=names, chat_template=tmp_path / "mine.jinja", overwrite=True))
    assert orjson.loads((tmp_path / "t/tokenizer_config.json").read_bytes())["chat_template"] == "{{ messages }}"
    again = config(sets, tmp_path / "u", control_tokens=names, chat_template=tmp_path / "t" / "tokenizer_config.json")
    run(again)
    assert orjson.loads((tmp_path / "u/tokenizer_config.json").read_bytes())["chat_template"] == "{{ messages }}"


@pytest.mark.parametrize("source", ["{{ x ", "{% include 'a' %}", "\udcff"])
def test_what_is_no_template_is_refused_before_any_text_is_read(
    sets: tuple[Path, Path], tmp_path: Path, source: str
) -> None:
    (tmp_path / "mine.jinja").write_bytes(source.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match="chat template"):
        run(config(sets, tmp_path / "t", chat_template=tmp_path / "mine.jinja", dry_run=True))


def test_progress_ends_where_it_should_and_the_environment_is_as_before(
    sets: tuple[Path, Path], tmp_path: Path
) -> None:
    seen: list[tuple[int, int | None, str]] = []
    before = dict(os.environ)
    run(config(sets, tmp_path / "t"), lambda done, total, note="": seen.append((done, total, note)))
    assert dict(os.environ) == before
    assert [note for place, (_, _, note) in enumerate(seen) if not place or note != seen[place - 1][2]] == [
        "reading", "merging", "measuring",
    ]  # fmt: skip
    steps = [done for done, _, _ in seen]
    assert steps == sorted(steps)
    assert {total for _, total, _ in seen} == {steps[-1]}
    assert steps.count(steps[-1] // 2) == 2  # the last block, then the merges


def test_signals_are_heard_while_the_library_merges(monkeypatch) -> None:
    going = threading.Event()

    def interrupted(*_args) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module.threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        module._interruptible(going.wait)
    going.set()


# --------------------------------------------------------------------------- report
def test_a_report_counts_by_script(sets: tuple[Path, Path], tmp_path: Path) -> None:
    made: TrainResult = run(config(sets, tmp_path / "t"))
    (tmp_path / "other.json").write_bytes(orjson.dumps(byte_level()))
    asked = ReportConfig(tokenizer=tmp_path / "t", inputs=sets, against=tmp_path / "other.json")
    found = report(asked)
    assert found.measured.to_json() == made.measured
    assert set(found.measured.scripts) == {"latin", "han"}
    assert found.to_json() == report(replace(asked, inputs=sets[::-1], workers=2)).to_json()
    assert found.other is not None
    # Bytes alone: a token for each.
    assert found.other.tokens["latin"] == found.other.characters["latin"]
    assert found.other.rate("han") < found.measured.rate("han")
    assert (found.shared, found.num_other) == (256, 256)
    assert (found.num_controls, found.vocab_size, found.num_entries) == (36, 340, 304)
    assert "\u00c5" in found.unused
    assert "t" not in found.unused or "th" not in found.unused
    assert len(found.unused) == sum(1 for place in range(36, 340) if not found.measured.uses[place])


def test_a_report_of_a_tokenizer_that_loses_text_says_so(sets: tuple[Path, Path], tmp_path: Path) -> None:
    definition = byte_level()
    del definition["model"]["vocab"]["z"]
    (tmp_path / "gaps.json").write_bytes(orjson.dumps(definition))
    found = report(ReportConfig(tokenizer=tmp_path / "gaps.json", inputs=sets))
    assert not found.lossless
    assert found.measured.changed == 1
