"""Stages: one run, several datasets and settings, a record of each that is only ever added to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
import xxhash

from shardkit import cli
from shardkit.errors import ConfigError, IntegrityError, ResumeError
from shardkit.loader import StreamingLoader
from shardkit.sequence.plan import Mixture
from shardkit.trainer.build import weights_digest
from shardkit.trainer.checkpoint import load_checkpoint
from shardkit.trainer.counts import SourceShares
from shardkit.trainer.loop import Result, endless, train
from shardkit.trainer.metrics import read_log
from shardkit.trainer.stage_records import read_stage_records
from shardkit.trainer.stages import read_stages
from shardkit.trainer.state import begin_stage
from tests.trainer.conftest import STAGES, shardkit

OPTIONS = {"max_tokens": 128, "warmup": 2, "threads": 1, "checkpoint_every": 2}


LAST = 14


def change(road: Path, edit: Callable[[str], str]) -> Path:
    """Another file of stages, beside the first so that its paths hold."""
    file = road / f"changed-{abs(hash(edit(STAGES)))}.toml"
    file.write_text(edit(STAGES))
    return file


def run(road: Path, out: Path, *, stages: Path | None = None, **changes) -> Result:
    return train(read_stages(stages or road / "stages.toml", {**OPTIONS, "out": out, **changes}))


def test_a_run_goes_through_its_stages(road: Path, tmp_path: Path):
    result = run(road, tmp_path / "run")
    assert result.step == LAST
    records = read_log(tmp_path / "run/log.jsonl")
    assert [record["step"] for record in records] == list(range(1, LAST + 1))
    names = [record["stage"] for record in records]
    assert names == ["joint"] * 3 + ["alignment"] * 2 + ["replay"] * 4 + ["instruction"] * 3 + ["preference"] * 2

    chain = read_stage_records(tmp_path / "run")
    assert [(stage["name"], stage["first_step"]) for stage in chain] == [
        ("joint", 1), ("alignment", 4), ("replay", 6), ("instruction", 10), ("preference", 13)
    ]  # fmt: skip
    assert [stage["parent"] for stage in chain] == [None, *(stage["digest"] for stage in chain[:-1])]
    assert load_checkpoint(tmp_path / "run/checkpoints")["stages"] == chain
    assert chain[3]["settings"]["theta"] == 40000
    assert chain[2]["settings"]["packer"] == "oldest-first"
    assert len({stage["start"] for stage in chain}) == 5
    # The tower stays in the model, and is not trained where no pictures are.
    assert result.model.vision is not None
    assert not any(parameter.requires_grad for parameter in result.model.vision.parameters())
    assert {name for record in records[5:] for name in record["grad_norm_by_part"]} == {"lm"}
    assert {name for record in records[3:5] for name in record["grad_norm_by_part"]} == {"vision"}


def test_rates_go_from_stage_to_stage(whole: Path):
    rates = [record["lr"] for record in read_log(whole / "log.jsonl")]
    assert rates[:3] == pytest.approx([5e-4, 1e-3, 1e-3])
    assert rates[3:5] == pytest.approx([2e-3, 3e-3])  # from the rate before to 3e-3
    assert rates[5:9] == pytest.approx([5e-4, 1e-3, 1e-3, 1e-3])  # the optimizer is new: from 0
    assert rates[9:12] == pytest.approx([1e-3, 5.5e-4, 1e-4])  # half a cosine down to a tenth
    assert rates[12:] == pytest.approx([5.5e-4, 1e-3])  # from that tenth


def test_realised_shares_are_logged_in_the_unit_of_the_mixture(whole: Path):
    records = read_log(whole / "log.jsonl")
    replay = [record["shares"] for record in records if record["stage"] == "replay"]
    assert {shares["by"] for shares in replay} == {"token"}
    assert replay[-1]["sources"] == pytest.approx({"chat": 0.75, "web": 0.25}, abs=0.15)
    assert records[0]["shares"] == {"by": "token", "sources": {"raw": 1.0}}  # nothing is mixed there


@pytest.mark.parametrize("by", ["token", "example", "loss", "compute"])
def test_shares_of_every_unit_that_texts_have(road: Path, by: str):
    mixture = Mixture.of({"by": by, "weights": {"web": 1, "chat": 3}})
    shares = SourceShares(sources=["chat", "web"], mixture=mixture)
    with StreamingLoader(road / "both", max_tokens=48, mixture=mixture, rank=0, world_size=1) as loader:
        for batch in islice(endless(loader), 40):
            found = shares.add(shares.count(batch))
    assert found == {"by": by, "sources": pytest.approx({"chat": 0.75, "web": 0.25}, abs=0.04)}


@pytest.fixture(scope="module")
def whole(road: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run through all stages."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    run(road, out)
    return out


@pytest.fixture
def begun(road: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """A copy of a run through the first so many stages."""

    def copy(number: int) -> Path:
        made = tmp_path_factory.getbasetemp() / f"begun-{number}"
        if not made.exists():
            run(road, made, stages=change(road, first_stages(number)))
        return Path(shutil.copytree(made, tmp_path / "run"))

    return copy


def first_stages(number: int) -> Callable[[str], str]:
    return lambda text: "[[stage]]".join(text.split("[[stage]]")[: number + 1])


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_further_stages_at_the_end_make_the_run_that_had_them_from_the_beginning(
    road: Path, whole: Path, begun: Callable[[int], Path], number: int
):
    out = begun(number)
    result = run(road, out, resume=True)
    assert result.weights_digest == digest_of(whole)
    one, other = read_log(whole / "log.jsonl"), read_log(out / "log.jsonl")
    for name in ("step", "stage", "loss", "batch_id", "shares", "lr"):
        assert [record[name] for record in one] == [record[name] for record in other]
    assert read_stage_records(whole) == read_stage_records(out)
    assert ["resumed" in record for record in other].count(True) == 1
    states = [load_checkpoint(folder / "checkpoints")["optimizer"]["state"] for folder in (whole, out)]
    for at, state in states[0].items():
        assert all(torch.equal(value, states[1][at][name]) for name, value in state.items())


def digest_of(out: Path) -> str:
    """Of the weights in the latest checkpoint, which all are parameters."""
    weights = load_checkpoint(out / "checkpoints")["model"]
    digest = xxhash.xxh3_128()
    for name in sorted(weights):
        digest.update(weights[name].numpy().data)
    return digest.hexdigest()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lr = 3e-3", "lr = 2e-3", r"stage alignment was begun with other settings \(lr: 0.003 -> 0.002\)"),
        ('freeze = ["lm"]', "", r"stage alignment .*freeze: \['lm'\] -> \[\]"),
        ('name = "joint"', 'name = "first"', r"stage joint .*name: joint -> first"),
        ("steps = 3", "steps = 4", r"stage alignment .*first_step: 4 -> 5"),
        ("web = 1, chat = 3", "web = 1, chat = 1", "stage replay .*mixture: .*'chat': '3'.* -> .*'chat': '1'"),
        ('packer = "oldest-first"', "", "stage replay .*packer: oldest-first -> best-fit"),
        ("reset_optimizer = true", "", "stage replay .*reset_optimizer: True -> False"),
        ('data = "both"', 'data = "chat-alone"', "stage replay .*dataset_id: "),
    ],
)
def test_what_a_stage_fixed_is_not_changed_afterwards(
    road: Path, begun: Callable[[int], Path], old: str, new: str, message: str
):
    if not (road / "chat-alone").exists():
        assert cli.run(["concat", f"{road}/chat", f"{road}/web", "-o", f"{road}/other", "--quiet"]) == 0
        tokenizer = ("--tokenizer", road / "answers/tokens/tokenizer", "--max-tokens", "64")
        shardkit("tokenize", road / "other", "-o", road / "chat-alone", "--recipe", "pretrain", *tokenizer)
    out = begun(3)
    before = (out / "stages.jsonl").read_bytes()
    with pytest.raises(ResumeError, match=message):
        run(road, out, stages=change(road, lambda text: text.replace(old, new, 1)), resume=True)
    assert (out / "stages.jsonl").read_bytes() == before


def test_what_has_not_begun_may_be_changed(road: Path, begun: Callable[[int], Path]):
    other = change(road, lambda text: text.replace("theta = 40000", "theta = 20000"))
    out = begun(3)
    assert run(road, out, stages=other, resume=True).step == LAST
    assert read_stage_records(out)[3]["settings"]["theta"] == 20000


def test_stages_are_not_taken_away_nor_shortened_below_what_was_trained(road: Path, begun: Callable[[int], Path]):
    out = begun(2)
    with pytest.raises(ResumeError, match="the run is in stage alignment, its number 2; 1 are given"):
        run(road, out, stages=change(road, first_stages(1)), resume=True)
    shorter = change(road, lambda text: text.replace("steps = 2", "steps = 1", 1))
    with pytest.raises(ResumeError, match="stage alignment was trained to step 5, and is now to end with step 4"):
        run(road, out, stages=shorter, resume=True)
    longer = change(road, lambda text: first_stages(2)(text.replace("steps = 2", "steps = 4", 1)))
    assert run(road, out, stages=longer, resume=True).step == 7


def test_a_cosine_is_not_given_more_steps(road: Path, begun: Callable[[int], Path]):
    out = begun(4)
    longer = change(
        road, lambda text: first_stages(4)(text).replace('steps = 3\ndata = "answers', 'steps = 5\ndata = "answers')
    )
    with pytest.raises(ResumeError, match=r"stage instruction .*steps: 12 -> 14"):
        run(road, out, stages=longer, resume=True)


def test_a_stage_that_was_opened_is_held_to_it_before_its_first_checkpoint(
    road: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def break_off(*arguments, **options):
        entered = begin_stage(*arguments, **options)
        if entered[0].stage.name == "replay":
            raise KeyboardInterrupt
        return entered

    monkeypatch.setattr("shardkit.trainer.loop.begin_stage", break_off)
    with pytest.raises(KeyboardInterrupt):
        run(road, tmp_path / "run")
    monkeypatch.undo()
    assert load_checkpoint(tmp_path / "run/checkpoints")["step"] == 5
    other = change(road, lambda text: text.replace("web = 1, chat = 3", "web = 1, chat = 1"))
    with pytest.raises(ResumeError, match="stage replay was begun with other settings"):
        run(road, tmp_path / "run", stages=other, resume=True)
    assert run(road, tmp_path / "run", resume=True).weights_digest == digest_of(whole)


def test_a_record_that_was_touched_is_found(road: Path, begun: Callable[[int], Path]):
    out = begun(2)
    file = out / "stages.jsonl"
    whole = file.read_text()
    file.write_text(whole.replace('"lr":0.003', '"lr":0.004'))
    with pytest.raises(IntegrityError, match="the record of stages is damaged"):
        run(road, out, resume=True)
    file.write_text(whole.splitlines()[0] + "\n")
    assert run(road, out, stages=change(road, first_stages(2)), resume=True).step == 5
    assert file.read_text() == whole


def test_moments_go_on_or_begin_anew(road: Path, tmp_path: Path):
    """Adam counts its steps for each parameter; those of a part that was frozen in between begin anew."""

    def counted(stages: Path) -> dict[str, float]:
        out = tmp_path / stages.stem
        run(road, out, stages=stages)
        saved = load_checkpoint(out / "checkpoints")
        return {name: float(saved["optimizer"]["state"][at]["step"]) for at, name in enumerate(saved["trained"])}

    goes_on = counted(change(road, lambda text: first_stages(2)(text).replace('freeze = ["lm"]', "")))
    assert set(goes_on.values()) == {5.0}
    frozen = counted(change(road, first_stages(2)))
    assert set(frozen.values()) == {5.0}
    assert {name.split(".")[0] for name in frozen} == {"vision"}
    anew = counted(change(road, lambda text: first_stages(3)(text)))
    assert set(anew.values()) == {4.0}


def test_what_is_frozen_in_a_stage_keeps_its_weights(road: Path, tmp_path: Path):
    one = run(road, tmp_path / "one", stages=change(road, first_stages(1))).model
    two = run(road, tmp_path / "two", stages=change(road, first_stages(2))).model
    assert weights_digest(one.lm) == weights_digest(two.lm)
    assert weights_digest(one.vision) != weights_digest(two.vision)


def test_a_longer_context_keeps_the_learned_positions_it_had(road: Path, tmp_path: Path):
    text = (
        first_stages(1)(STAGES)
        + '[[stage]]\nname = "long"\nsteps = 1\ndata = "pictures"\ntask = "vlm-align"\nmax_tokens = 256\nlr = 0\nwarmup = 0\nweight_decay = 0\n'
    )
    one = run(road, tmp_path / "one", stages=change(road, first_stages(1)), positions="learned").model
    two = run(road, tmp_path / "one", stages=change(road, lambda _: text), positions="learned", resume=True).model
    before, after = (model.lm.embed_positions.weight for model in (one, two))
    assert (len(before), len(after)) == (128, 256)
    assert torch.equal(before, after[:128])
    assert 0 < after[128:].abs().max() < 0.2  # as they begin


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it holds nothing, not a list"),
        ("stage = [3]", r"not a list of \[\[stage\]\]"),
        ("stage = 3", r"not a list of \[\[stage\]\]"),
        ("[[stage]\n", "is no TOML"),
        ("[[stage]]\nsteps = 3", "the stage has no name"),
        ("[[stage]]\nname = 'a'", "the stage has no steps"),
        ("[[stage]]\nname = 'a'\nsteps = 3\ntask = 'lm'", "the stage has no data"),
        ("[[stage]]\nname = 'a'\nsteps = 3\ndata = 'd'", "the stage has no task"),
        ("[[stage]]\nname = 'a'\nsteps = 3\nsped = 2", "a stage has no field 'sped'"),
        ("[[stage]]\nname = ''\nsteps = 3\ndata = 'd'\ntask = 'lm'", "the stage has an empty name"),
        ("[[stage]]\nname = 'a'\nsteps = '3'\ndata = 'd'\ntask = 'lm'", "steps is '3', not a whole number"),
        ("[[stage]]\nname = 'a'\nsteps = 3\ndata = 'd'\ntask = 'lm'\nlr = '1'", "lr is '1', not a number"),
        ("[[stage]]\nname = 'a'\nsteps = 3\ndata = 'd'\ntask = 'lm'\nfreeze = 'lm'", "freeze is 'lm', not a list"),
        ("[[stage]]\nname = 'a'\nsteps = 3\ndata = 'd'\ntask = 'lm'\nmixture = 3", "mixture is 3, not a table or"),
        ("[[stage]]\nname = 'a'\nsteps = 3\ndata = 'd'\ntask = 'lm'\nmax_images = 0", "stage a: max_images is 0"),
        ("[[stage]]\nname = 'a'\nsteps = true\ndata = 'd'\ntask = 'lm'", "steps is True"),
        ("[[stage]]\nname = 'a'\nsteps = 3\ndata = 'd'\ntask = 'poem'", "stage a: task 'poem' is none of"),
        ("[[stage]]\nname = 'a'\nsteps = 1\ndata = 'd'\ntask = 'lm'\n" * 2, "two stages are named 'a'"),
    ],
)
def test_files_that_say_no_stages(tmp_path: Path, text: str, message: str):
    (tmp_path / "stages.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_stages(tmp_path / "stages.toml", {"out": tmp_path / "run"})
    with pytest.raises(ConfigError, match="cannot be read"):
        read_stages(tmp_path / "none.toml", {"out": tmp_path / "run"})


def test_paths_are_beside_the_file_and_urls_are_what_they_are(tmp_path: Path):
    (tmp_path / "stages.toml").write_text(
        "".join(
            f"[[stage]]\nname = '{name}'\nsteps = 1\ntask = 'lm'\ndata = '{data}'\nmixture = 'm.toml'\n"
            for name, data in (("a", "tokens"), ("b", "/tokens"), ("c", "s3://bucket/tokens"))
        )
    )
    stages = read_stages(tmp_path / "stages.toml", {"out": tmp_path / "run"})
    assert [stage.config.data for stage in stages] == [tmp_path / "tokens", Path("/tokens"), Path("s3://bucket/tokens")]
    assert {stage.config.mixture for stage in stages} == {tmp_path / "m.toml"}


def test_every_stage_is_checked_before_the_first_one_begins(road: Path, texts: Path, tmp_path: Path):
    for old, new, message in (
        ('data = "pairs/tokens"', 'data = "both"', "stage preference: task dpo needs preference pairs"),
        ("reset_optimizer = true", "objective_weights = {ocr = 1}", "stage replay: the dataset has no target of"),
        ("max_tokens = 48", "max_tokens = 4", "max_tokens is 4, but the longest sequence"),
        ("web = 1, chat = 3", "web = 1", "no weight"),
        ('data = "both"', f'data = "{texts}"', "with one tokenizer"),
    ):
        with pytest.raises(ConfigError) as caught:
            run(road, tmp_path / "run", stages=change(road, lambda text, o=old, n=new: text.replace(o, n)))
        assert message in f"{caught.value} {caught.value.hint}"
        assert not (tmp_path / "run").exists()


def test_a_run_without_a_file_is_one_stage(road: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    stages = read_stages(
        change(road, lambda text: first_stages(1)(text).replace('"joint"', '"vlm-align"')),
        {**OPTIONS, "out": tmp_path / "a"},
    )
    staged = train(stages)
    config = replace(stages[0].config, out=tmp_path / "b")
    assert train(config).weights_digest == staged.weights_digest
    assert read_stage_records(tmp_path / "a") == read_stage_records(tmp_path / "b")


def test_the_command(road: Path, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    common = ["train", "--stages", road / "stages.toml", "--out", tmp_path / "cli", "--max-tokens", 128, "--warmup", 2]
    arguments = [str(argument) for argument in (*common, "--threads", 1, "--checkpoint-every", 2, "--quiet")]
    assert cli.run(arguments) == 0
    assert json.loads(capsys.readouterr().out)["weights_digest"] == digest_of(whole)
    batch = next(r["batch_id"] for r in read_log(tmp_path / "cli/log.jsonl") if r["stage"] == "replay")
    assert cli.run(["trace", f"{road}/both", batch, "--run", f"{tmp_path}/cli", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "batch"
    assert cli.run([*arguments, "--steps", "3"]) == 2
    assert "for each stage" in capsys.readouterr().err
    assert cli.run(["train", "--out", str(tmp_path / "none")]) == 2
    assert "Missing option '--task' (or '--stages')" in capsys.readouterr().err
