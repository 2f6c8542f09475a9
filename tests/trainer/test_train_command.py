"""`shardkit train`: options in, one JSON line and an exit code out."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from shardkit import cli
from shardkit.trainer.loop import train
from shardkit.trainer.metrics import read_log
from tests.trainer.test_loop import make_config


def run(tokens: Path, out: Path, *arguments: object) -> int:
    common = ["train", "--task", "vlm-align", "--data", tokens, "--out", out, "--max-tokens", 64, "--threads", 1]
    return cli.run([str(argument) for argument in (*common, "--warmup", 2, *arguments)])


def test_the_last_line_is_what_train_returns(tokens: Path, tmp_path: Path, capsys):
    expected = train(make_config(tokens, tmp_path / "api", steps=3))
    assert run(tokens, tmp_path / "cli", "--steps", 3) == 0
    out, err = capsys.readouterr()
    assert json.loads(out.splitlines()[-1]) == {
        "step": 3,
        "loss": expected.loss,
        "weights_digest": expected.weights_digest,
    }
    assert "step 1/3  loss " in err
    assert "(ocr " in err


def test_quiet_is_quiet(tokens: Path, tmp_path: Path, capsys):
    assert run(tokens, tmp_path / "run", "--steps", 1, "--quiet") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert err == ""


def test_options_reach_the_config(tokens: Path, tmp_path: Path):
    options = {
        "--seed": 3, "--positions": "learned", "--global-batch": 2, "--micro-steps": 2, "--lr": 0.002,
        "--max-images": 3, "--max-patches": 400, "--max-attention": 4096, "--weight-decay": 0.1, "--clip": 0.5, "--freeze": "vision", "--objective-weight": "ocr=0.5",
    }  # fmt: skip
    arguments = [part for option in options.items() for part in option]
    assert run(tokens, tmp_path / "run", "--steps", 1, *arguments) == 0
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert settings == {
        "task": "vlm-align", "seed": 3, "preset": "smoke", "positions": "learned", "max_tokens": 64,
        "max_images": 3, "max_patches": 400, "max_attention": 4096, "global_batch": 2, "packer": "best-fit", "mixture": None,
        "micro_steps": 2, "lr": 0.002, "warmup": 2, "schedule": "constant", "weight_decay": 0.1, "clip": 0.5, "freeze": ["vision"], "compile": False, "decoder": "pillow",
        "objective_weights": {"ocr": 0.5}, "threads": 1,
    }  # fmt: skip


def test_what_keeps_a_run_from_starting_has_its_exit_code_and_a_way_out(tokens: Path, tmp_path: Path, capsys):
    place = tmp_path / "run"
    assert run(tokens, place, "--steps", 1) == 0
    for arguments, code, said in (
        (["--steps", 2], 8, "Next: go on with it by --resume"),
        (["--steps", 2, "--resume", "--seed", 1], 7, "seed: 0 -> 1"),
        (["--steps", 2, "--resume", "--objective-weight", "ocr"], 3, "Next: write --objective-weight NAME=VALUE"),
        (["--steps", 2, "--resume", "--objective-weight", "ocr=much"], 3, "Next: write --objective-weight ocr=0.5"),
        (["--steps", 2, "--resume", "--objective-weight", "text=1"], 3, "Next: leave it out of --objective-weight"),
        (["--steps", 0], 2, "--steps"),
        (["--steps", 1, "--task", "poem"], 2, "--task"),
        (["--steps", 1, "--task", "sft"], 3, "Next: use --task vlm-align"),
    ):
        capsys.readouterr()
        assert run(tokens, place, *arguments) == code
        assert said in capsys.readouterr().err


def test_a_damaged_checkpoint_is_no_start(tokens: Path, tmp_path: Path, capsys):
    place = tmp_path / "run"
    assert run(tokens, place, "--steps", 1) == 0
    assert run(tokens, place, "--steps", 2, "--resume") == 0
    older, file = sorted((place / "checkpoints").glob("step-*.pt"))
    whole = capsys.readouterr().out.splitlines()[-1]
    file.write_bytes(file.read_bytes()[:-1])
    log = (place / "log.jsonl").read_bytes()
    assert run(tokens, place, "--steps", 2, "--resume") == 5
    said = capsys.readouterr().err
    assert file.name in said
    assert "--resume-from 1 (there are 1)" in said
    assert (place / "log.jsonl").read_bytes() == log
    assert run(tokens, place, "--steps", 2, "--resume-from", 1) == 0
    out, said = capsys.readouterr()
    assert out.splitlines()[-1] == whole
    assert "goes on after step 1, REPLAYABLE" in said
    assert [record["step"] for record in read_log(place / "log.jsonl")] == [1, 2]
    assert file.exists()
    assert older.exists()


def test_a_resumed_run_says_where_it_goes_on(tokens: Path, tmp_path: Path, capsys):
    assert run(tokens, tmp_path / "run", "--steps", 1, "--resume") == 0
    assert "no checkpoint is there, it begins anew" in capsys.readouterr().err
    assert run(tokens, tmp_path / "run", "--steps", 2, "--resume") == 0
    assert "goes on after step 1, REPLAYABLE" in capsys.readouterr().err


def test_the_figure_of_the_pictures_is_printed_with_its_error(tokens: Path, tmp_path: Path, capsys):
    assert run(tokens, tmp_path / "run", "--steps", 1, "--eval-permuted") == 0
    out, err = capsys.readouterr()
    figure = json.loads(out)["right_against_permuted"]
    assert figure["num_groups"] == 6
    assert figure["difference"] == pytest.approx(figure["permuted"] - figure["right"])
    assert "right against permuted images, all, 6 groups: loss " in err
    assert "(standard error over groups)" in err


def test_a_figure_of_images_is_not_asked_of_a_run_without_them(texts: Path, tmp_path: Path, capsys):
    assert run(texts, tmp_path / "run", "--steps", 1, "--eval-permuted", "--task", "lm") == 3
    assert "--eval-permuted compares images, the run ends with task lm" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_stopped_run_says_how_it_is_gone_on_with(tokens: Path, tmp_path: Path, capsys, monkeypatch):
    def stop(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("shardkit.trainer.loop.take_step", stop)
    assert run(tokens, tmp_path / "run", "--steps", 1, "--quiet") == 130
    (said,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("Next: "))
    monkeypatch.undo()
    assert cli.run(shlex.split(said)[shlex.split(said).index("shardkit") + 1 :]) == 0
    assert json.loads(capsys.readouterr().out)["step"] == 1


def test_without_torch_one_sentence_says_how_to_get_it(tokens: Path, tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run(tokens, tmp_path / "run", "--steps", 1) == 3
    assert capsys.readouterr().err == "training needs torch\nNext: install it: pip install 'shardkit[train]'\n"
