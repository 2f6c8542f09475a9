"""`--compile` is off unless asked for, compiles the feed-forward layers only, and changes the loss by rounding only."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from shardkit.errors import ConfigError, ResumeError
from shardkit.trainer.layers import SwiGLU
from shardkit.trainer.loop import train
from tests.trainer.test_loop import make_config


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[torch.nn.Module]:
    """The modules that were asked to compile; none of them does."""
    asked: list[torch.nn.Module] = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda module, **_options: asked.append(module))
    return asked


def test_nothing_is_compiled_unless_asked_for(tokens: Path, tmp_path: Path, compiled: list[torch.nn.Module]):
    train(make_config(tokens, tmp_path / "run", steps=1))
    assert compiled == []


def test_the_feed_forward_layers_are_compiled(tokens: Path, tmp_path: Path, compiled: list[torch.nn.Module]):
    plain = train(make_config(tokens, tmp_path / "plain", steps=1))
    result = train(make_config(tokens, tmp_path / "run", steps=1, compile=True))
    assert {type(module) for module in compiled} == {SwiGLU}
    assert len(compiled) == sum(isinstance(module, SwiGLU) for module in result.model.modules())
    assert list(result.model.state_dict()) == list(plain.model.state_dict())  # checkpoints keep their names
    with pytest.raises(ResumeError, match="compile: True -> False"):
        train(make_config(tokens, tmp_path / "run", steps=2, resume=True))


def test_without_a_compiler_it_is_refused_before_the_run_begins(
    tokens: Path, tmp_path: Path, compiled: list[torch.nn.Module], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("shardkit.trainer.settle.shutil.which", lambda _name: None)
    with pytest.raises(ConfigError, match=r"needs a C\+\+ compiler"):
        train(make_config(tokens, tmp_path / "run", steps=1, compile=True))
    assert compiled == []
    assert not (tmp_path / "run").exists()


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")  # of the compiler's own
def test_a_compiled_run_learns_what_a_plain_one_learns(tokens: Path, tmp_path: Path):
    one, other = (
        train(make_config(tokens, tmp_path / str(compiled), steps=4, compile=compiled, objective_norms_every=2)).loss
        for compiled in (False, True)
    )
    assert other == pytest.approx(one, abs=1e-4)
