"""Two processes under gloo are one."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import pytest
import torch

from shardkit import cli
from shardkit.errors import ConfigError, ResumeError, ShardkitError
from shardkit.trainer.counts import COUNTS
from shardkit.trainer.loop import train
from shardkit.trainer.metrics import read_log
from shardkit.trainer.objective import NUM_OBJECTIVES, combine, numerators, objective_weights
from shardkit.trainer.ranks import AnotherRankFailed, failing_together, found_by_all, joined_ranks, sum_over_ranks
from shardkit.trainer.stages import read_stages
from tests.trainer.builders import docs_with_pictures, make_batch, make_model
from tests.trainer.conftest import STAGES
from tests.trainer.processes import command, two_ranks
from tests.trainer.test_loop import make_config


def gradients_of_share(rank: int, world_size: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """(loss, gradients), summed over the ranks; the shares are unlike: one rank has no text objective at all."""
    docs = docs_with_pictures()
    whole, share = make_batch(docs), make_batch(docs[rank::world_size])
    model = make_model()
    sums = numerators(model.losses(share), share.objective_ids[0])
    weights = objective_weights(["text", "caption", "ocr"], {})
    combine(sums, whole.denominators, weights).backward()
    total = sums.detach()
    gradients = [parameter.grad for parameter in model.parameters()]
    sum_over_ranks([total, *gradients])
    return combine(total, whole.denominators, weights), gradients


def save_share(rank: int, folder: Path) -> None:
    with joined_ranks() as place:
        assert place == (rank, 2)
        torch.save(gradients_of_share(*place), folder / f"{rank}.pt")


def run_command(rank: int, arguments: list[str], folder: Path) -> None:
    command(arguments, folder / f"stdout-{rank}")


def test_two_processes_have_the_loss_and_gradients_of_one(tmp_path: Path):
    two_ranks(save_share, tmp_path)
    loss, gradients = gradients_of_share(0, 1)
    for rank in range(2):
        shared_loss, shared_gradients = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert abs(loss - shared_loss) < 1e-6
        for one, other in zip(gradients, shared_gradients, strict=True):
            assert (one - other).abs().max() < 1e-6
    assert max(one.abs().max() for one in gradients) > 0.1


def test_four_micro_steps_have_the_loss_and_gradients_of_one():
    loss, gradients = gradients_of_share(0, 1)
    docs, model = docs_with_pictures(), make_model()
    denominators = make_batch(docs).denominators
    weights = objective_weights(["text", "caption", "ocr"], {})
    sums = torch.zeros_like(weights)
    for part in range(4):
        batch = make_batch(docs[part::4])
        found = numerators(model.losses(batch), batch.objective_ids[0])
        combine(found, denominators, weights).backward()
        sums += found.detach()
    assert abs(combine(sums, denominators, weights) - loss) < 1e-6
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert (parameter.grad - gradient).abs().max() < 1e-6


def test_a_run_of_two_goes_on_as_a_run_of_one_with_the_same_global_batches(tokens: Path, tmp_path: Path):
    changes = {"global_batch": 2, "max_tokens": 64}
    train(make_config(tokens, tmp_path / "one", steps=4, **changes))
    arguments = [
        *("train", "--task", "vlm-align", "--data", str(tokens), "--out", str(tmp_path / "two"), "--steps", "2"),
        *("--max-tokens", "64", "--global-batch", "2", "--warmup", "2", "--threads", "1", "--quiet"),
    ]
    two_ranks(run_command, arguments, tmp_path)
    assert json.loads((tmp_path / "stdout-0").read_text())["step"] == 2
    assert not (tmp_path / "stdout-1").read_text()  # one voice
    train(make_config(tokens, tmp_path / "two", steps=4, resume=True, **changes))

    logs = [read_log(tmp_path / name / "log.jsonl") for name in ("one", "two")]
    assert [record["step"] for record in logs[1]] == [1, 2, 3, 4]
    assert [record["batch_id"].rsplit("/", 1)[1] for record in logs[1]] == ["0of2", "0of2", "0of1", "0of1"]
    for one, two in zip(*logs, strict=True):
        assert one["batch_id"].rsplit("/", 1)[0] == two["batch_id"].rsplit("/", 1)[0]
        assert {name: one[name] for name in COUNTS} == {name: two[name] for name in COUNTS}
        assert one["loss"] == pytest.approx(two["loss"], abs=1e-5)
    assert logs[0][0]["loss"] == pytest.approx(logs[1][0]["loss"], abs=1e-6)
    assert logs[1][2]["resumed"].endswith("REPLAYABLE")


def test_stages_of_two_processes_are_those_of_one(road: Path, tmp_path: Path):
    """Also where references of pairs are made, and where one process goes on in a stage that two began."""
    file = road / "two.toml"
    parts = re.sub(r"steps = \d+", "steps = 2", STAGES.replace("global_batch = 2", "")).split("[[stage]]")
    file.write_text("[[stage]]".join(["", parts[3], parts[5]]))
    options = {"max_tokens": 128, "warmup": 2, "threads": 1, "global_batch": 2}
    train(read_stages(file, {**options, "out": tmp_path / "one"}))
    arguments = [
        *("train", "--stages", str(file), "--out", str(tmp_path / "two"), "--max-tokens", "128"),
        *("--warmup", "2", "--threads", "1", "--global-batch", "2", "--quiet"),
    ]
    two_ranks(run_command, arguments, tmp_path)
    longer = road / "two-longer.toml"
    longer.write_text(file.read_text()[::-1].replace("2 = spets", "3 = spets", 1)[::-1])
    for name in ("one", "two"):
        train(read_stages(longer, {**options, "out": tmp_path / name, "resume": True}))
    one, two = (read_log(tmp_path / name / "log.jsonl") for name in ("one", "two"))
    assert [record["step"] for record in two] == [1, 2, 3, 4, 5]
    for first, second in zip(one, two, strict=True):
        assert first["loss"] == pytest.approx(second["loss"], abs=1e-5)
        assert first["shares"] == second["shares"]
    assert two[-1]["resumed"].endswith("REPLAYABLE")


def fail_together(rank: int, tokens: Path, folder: Path) -> None:
    said = []
    with joined_ranks():
        for failing in ((), (1,), (0, 1), (0,)):
            try:
                with failing_together():
                    if rank in failing:
                        raise ResumeError(f"from rank {rank}")
                said.append("fine")
            except (ShardkitError, AnotherRankFailed) as error:
                code = error.code if isinstance(error, AnotherRankFailed) else error.exit_code
                said.append(f"{type(error).__name__}: {error}, {code}")
        said.append(type(found_by_all(ConfigError("the loss is nan"))).__name__)
        with redirect_stderr(StringIO()) as spoken:
            options = ("--data", str(tokens), "--out", str(folder / "run"), "--steps", "1")
            said.append(cli.run(["train", "--task", "sft", *options]))
            said.append(cli.run(["train", "--task", "lm", *options, "--micro-steps", "3"]))
        said.append(spoken.getvalue())
        if rank:
            with pytest.raises(ShardkitError, match="another process of the run has stopped"), failing_together():
                pass
    (folder / str(rank)).write_text(json.dumps(said))


def test_an_error_is_said_by_the_lowest_rank_that_has_it_and_ends_all(tokens: Path, tmp_path: Path):
    two_ranks(fail_together, tokens, tmp_path)
    first, second = (json.loads((tmp_path / str(rank)).read_text()) for rank in range(2))
    alike = "AnotherRankFailed: rank 0 of the run has failed; see what it said, 7"
    assert first[:5] == [
        "fine",
        "AnotherRankFailed: rank 1 of the run has failed; see what it said, 7",
        *["ResumeError: from rank 0, 7"] * 2,
        "ConfigError",
    ]
    assert second[:5] == ["fine", "ResumeError: from rank 1, 7", alike, alike, "AnotherRankFailed"]
    assert first[5:7] == second[5:7] == [3, 3]
    assert first[7].count("Next:") == 2
    assert "Next: use --task vlm-align" in first[7]
    assert second[7] == ""
    assert not (tmp_path / "run").exists()


def test_a_group_of_which_nobody_is_found_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ConfigError, match=r"the others are not found .*RANK expected") as caught, joined_ranks():
        pass
    assert "torchrun" in caught.value.hint


def test_a_process_alone_sums_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    tensor = torch.ones(NUM_OBJECTIVES)
    with joined_ranks() as place:
        sum_over_ranks([tensor])
    assert place == (0, 1)
    assert tensor.tolist() == [1.0] * NUM_OBJECTIVES


@pytest.mark.parametrize("value", ["two", "", "-1", "9" * 5000])
def test_a_world_that_is_no_number_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", value)
    with pytest.raises(ConfigError, match=f"WORLD_SIZE in the environment is '{value}', not a number"), joined_ranks():
        pass
