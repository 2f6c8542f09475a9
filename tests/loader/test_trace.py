"""What trace says of a batch is what the loader put into it: every rank, step and epoch, with and without saved plans."""

import json

import pytest

from shardkit.errors import ConfigError, SourceError
from shardkit.loader import StreamingLoader
from shardkit.prepare.lineage.trace import Tracer
from shardkit.store.dataset import Dataset
from shardkit.store.plans import plan_path
from tests.loader.conftest import shardkit

MIXTURE = 'by = "token"\nweights = {web = 1, notes = 2}\n'


def batches(tokens, *, world=1, epochs=1, **settings):
    for rank in range(world):
        with StreamingLoader(tokens, rank=rank, world_size=world, epochs=epochs, **settings) as loader:
            yield from loader


def agree(tracer, batch):
    found = tracer.trace(batch.batch_id)
    places = [found["examples"][one["example"]] for one in found["sequences"]]
    assert [place["example_id"] for place in places] == list(batch.example_ids)
    assert [place["source"] for place in places] == list(batch.sources)
    assert sum(one["num_tokens"] for one in found["sequences"]) == batch.input_ids.numel()
    return found


@pytest.mark.parametrize("tail", ["drop", "pad", "wrap"])
def test_batches_of_a_saved_plan(tokens, tail, capsys):
    shardkit("plan", tokens, "--max-tokens", 256, "--global-batch", 4, "--tail", tail, "--save", "--quiet")
    capsys.readouterr()
    tracer = Tracer(tokens)
    seen = 0
    for batch in batches(tokens, world=2, epochs=2, max_tokens=256, global_batch=4, tail=tail):
        found = agree(tracer, batch)
        assert found["kind"] == "batch"
        assert len(found["batch"]["packs"]) == 2
        seen += len(found["sequences"])
    assert seen >= 120


def test_batches_of_a_saved_mixture(tokens, tmp_path, capsys):
    (tmp_path / "mixture.toml").write_text(MIXTURE)
    options = ["--max-tokens", 128, "--mixture", tmp_path / "mixture.toml"]
    for epoch in (0, 1):
        shardkit("plan", tokens, *options, "--epoch", epoch, "--save", "--quiet")
        capsys.readouterr()
        tracer = Tracer(tokens)
        for batch in batches(tokens, epochs=2, max_tokens=128, mixture=tmp_path / "mixture.toml"):
            agree(tracer, batch)


def test_the_folder_of_a_run_says_what_a_saved_plan_would(tokens, tmp_path):
    settings = {"max_tokens": 200, "global_batch": 2, "seed": 5}
    (tmp_path / "run.json").write_text(json.dumps({"settings": settings, "facts": {"split": None}}))
    tracer = Tracer(tokens, run=tmp_path)
    for batch in batches(tokens, world=2, **settings):
        assert not plan_path(tokens, batch.batch_id.split("/")[0]).exists()
        agree(tracer, batch)


def test_what_is_no_batch_of_the_plan(tokens, tmp_path, capsys):
    shardkit("plan", tokens, "--max-tokens", 256, "--global-batch", 2, "--save", "--json", "--quiet")
    figures = json.loads(capsys.readouterr().out)
    plan, steps = figures["plan"], figures["steps"]
    tracer = Tracer(tokens)
    assert tracer.trace(f"{plan}/0/{steps - 1}/1of2")["sequences"]
    for asked, says in (
        (f"{plan}/0/{steps}/0of1", f"epoch 0 has steps 0 to {steps - 1}, not {steps}"),
        (f"{plan}/0/0/2of2", "rank 2 is not one of 2 ranks"),
        (f"{plan}/0/0/0of3", "cannot be shared evenly by 3 ranks"),
        (f"{'0' * 32}/0/0/0of1", "is not saved beside the dataset"),
    ):
        with pytest.raises(ConfigError, match=says):
            tracer.trace(asked)
    with pytest.raises(SourceError, match="no run is here"):
        Tracer(tokens, run=tmp_path / "nowhere").trace(f"{'0' * 32}/0/0/0of1")
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(SourceError, match="the run's settings are damaged"):
        Tracer(tokens, run=tmp_path).trace(f"{'0' * 32}/0/0/0of1")
    run = {"settings": {"max_tokens": 256, "global_batch": 2, "seed": 9}, "facts": {"split": None}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    with pytest.raises(ConfigError, match=r"the batch is of plan 0{32}, the run .* gives"):
        Tracer(tokens, run=tmp_path).trace(f"{'0' * 32}/0/0/0of1")


def test_a_dataset_without_sequences_has_no_batches(tokens):
    held = Dataset.open(tokens).shards[0].holder.path
    with pytest.raises(ConfigError, match="holds no sequences"):
        Tracer(held).trace(f"{'0' * 32}/0/0/0of1")


def test_batches_of_a_run_that_was_resumed_with_other_settings(tokens, tmp_path):
    """Each state leads to the batches of its plan and of those that it went on from, in the epoch and after it."""
    seen = []
    state = None
    for number, settings in enumerate(
        ({"max_tokens": 256, "global_batch": 2}, {"max_tokens": 200, "global_batch": 2}, {"max_tokens": 300})
    ):
        with StreamingLoader(tokens, seed=3, epochs=2, **settings) as loader:
            if state is not None:
                loader.load_state_dict(state, require="equivalent")
            for count, batch in enumerate(loader):
                seen.append((batch, loader.state_after(batch)))
                if count == 2 and number < 2:
                    break
            state = seen[-1][1]
    assert len({batch.batch_id.split("/")[0] for batch, _ in seen}) == 3
    first_epoch = [pair for pair in seen if pair[0].batch_id.split("/")[1] == "0"]
    assert len(first_epoch) < len(seen)
    (tmp_path / "state.json").write_text(json.dumps(first_epoch[-2][1]))
    tracer = Tracer(tokens, state=tmp_path / "state.json")
    for batch, _ in seen:
        agree(tracer, batch)
    with pytest.raises(ConfigError, match="neither the plan of the state nor one"):
        tracer.trace(f"{'0' * 32}/0/0/0of1")


def test_what_is_no_state(tokens, tmp_path):
    with StreamingLoader(tokens, max_tokens=256) as loader:
        state = loader.state_dict()
    edited = json.dumps({**state, "cursor": {**state["cursor"], "step": 10**9}})
    for text, says in (
        ("{}", "no state of a loader"),
        ("[", "no state of a loader"),
        (edited, "changed since it was saved"),
        (None, "no state can be read"),
    ):
        file = tmp_path / "state.json"
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)
        with pytest.raises(SourceError, match=says):
            Tracer(tokens, state=file).trace(f"{'0' * 32}/0/0/0of1")
