"""`shardkit plan`, and what it saves for loaders."""

import errno
import json
import re

import pytest

from shardkit.cli import run
from shardkit.errors import OutputError
from shardkit.loader import StreamingLoader
from shardkit.store.dataset import Dataset
from shardkit.store.plans import plan_path, read_plan
from tests.loader.conftest import shardkit


def plan(capsys, *arguments):
    capsys.readouterr()
    shardkit("plan", *arguments, "--json", "--quiet")
    return json.loads(capsys.readouterr().out)


def test_it_says_what_the_loader_then_does(tokens, capsys):
    options = ["--max-tokens", 256, "--max-images", 6, "--global-batch", 4, "--seed", 3, "--tail", "pad"]
    figures = plan(capsys, tokens, *options, "--world", 2, "--world", 4)

    with StreamingLoader(tokens, max_tokens=256, max_images=6, global_batch=4, seed=3, tail="pad") as loader:
        batches = list(loader)

    assert figures["plan"] == batches[0].batch_id.split("/")[0]
    assert figures["steps"] == len(batches)
    assert figures["packs_filled_up"] == 4 * len(batches) - figures["packs"]
    assert figures["tokens"] == sum(batch.input_ids.numel() for batch in batches)
    assert figures["sequences"] == sum(len(batch.example_ids) for batch in batches) == 80
    assert figures["per_pack"]["images"]["max"] <= 6
    sources = [source for batch in batches for source in batch.sources]
    for name in ("web", "notes"):
        assert figures["sources"][name]["sequences"] == sources.count(name)
        assert figures["sources"][name]["shares"]["example"] == sources.count(name) / 80
    assert 0.9 < figures["fill"] <= 1
    assert list(figures["straggler"]) == ["2", "4"]
    assert all(1 <= ratio < 2 for ratio in figures["straggler"].values())


def test_the_text_names_batches_fill_and_shares(tokens, capsys):
    shardkit("plan", tokens, "--global-batch", 2)
    out = capsys.readouterr().out

    first, second, third, *table = out.splitlines()
    assert first.startswith(f"{tokens}\t")
    assert re.fullmatch(r"epoch 0 of all: \d+ batches of 2 packs from \d+ packs, 80 sequences, \d+ tokens", second)
    fill = r"fill [01]\.\d{4} \(by tokens there are \d+ packs at least\)"
    assert re.fullmatch(rf"{fill}, padding 0\.\d{{4}}, [01] packs left out, 0 filled up", third)
    assert table[0].startswith("a sequence waits ")
    assert "autocorrelation of sequences per pack" in table[1]
    assert table[2].split() == ["a", "pack", "has", "mean", "p50", "p99", "max"]
    assert [line.split()[0] for line in table[3:8]] == ["sequences", "tokens", "images", "patches", "cost"]
    assert table[8].split()[2:7] == ["example", "token", "media", "loss", "compute"]
    assert [line.split()[0] for line in table[9:]] == ["notes", "web"]


def test_a_mixture_file_gives_shares(tokens, capsys, tmp_path):
    file = tmp_path / "mixture.toml"
    file.write_text('by = "token"\nweights = {web = 3, notes = 1}\n')

    figures = plan(capsys, tokens, "--mixture", file)

    assert abs(figures["sources"]["web"]["shares"]["token"] - 0.75) * figures["tokens"] <= 128


def test_a_mixture_says_its_gaps_and_the_passes_of_its_sources(tokens, capsys, tmp_path):
    file = tmp_path / "mixture.toml"
    file.write_text('by = "example"\ntemperature = 0\n')

    figures = plan(capsys, tokens, "--mixture", file, "--epoch", 2)

    gaps = figures["mixture"]["largest_gap"]
    assert figures["mixture"]["weights"] == {"notes": "1000000", "web": "1000000"}
    assert 0 < gaps["draw_in_sequences"] <= 1
    assert 0 < gaps["inside_block_as_share"] < 0.5
    assert {name: source["passes_of_run"] for name, source in figures["sources"].items()} == {"notes": 3, "web": 3}
    shardkit("plan", tokens, "--mixture", file)
    assert re.search(
        r"largest gap to the shares by example: [01]\.\d{3} sequences in the order of", capsys.readouterr().out
    )


def test_a_budget_says_steps_and_epochs(tokens, capsys):
    options = ["--max-tokens", 256, "--global-batch", 2]
    whole = plan(capsys, tokens, *options)
    with StreamingLoader(tokens, max_tokens=256, global_batch=2, epochs=2) as loader:
        delivered = [batch.input_ids.numel() for batch in loader]
    wanted = sum(delivered[: whole["steps"] + 3]) - 5

    spent = plan(capsys, tokens, *options, "--budget", f"tokens={wanted}")["budget"]

    assert spent["steps"] == whole["steps"] + 3
    assert spent["delivered"]["tokens"] == wanted + 5
    assert 1 < spent["epochs"] < 2
    assert (spent["reached"], spent["estimated"]) == (True, False)
    same = plan(capsys, tokens, *options, "--budget", f"steps={spent['steps']}")["budget"]
    assert (same["steps"], same["epochs"], same["delivered"]) == (spent["steps"], spent["epochs"], spent["delivered"])
    capsys.readouterr()
    shardkit("plan", tokens, *options, "--budget", f"tokens={wanted}")
    told = ", ".join(f"{spent['delivered'][unit]} {unit}" for unit in ("tokens", "examples", "compute"))
    assert (
        f"{wanted} tokens are {spent['steps']} steps, {spent['epochs']:.3f} epochs: {told}" in capsys.readouterr().out
    )
    far = plan(capsys, tokens, *options, "--budget", f"examples={10**6}")["budget"]
    assert far["estimated"]
    assert abs(far["epochs"] * 78 - 10**6) < 0.05 * 10**6


def test_a_subset_is_a_mixture_file_of_the_budget(tokens, capsys, tmp_path):
    small, large = tmp_path / "small.toml", tmp_path / "large.toml"
    for file, number in ((small, 900), (large, 1800)):
        figures = plan(capsys, tokens, "--budget", f"tokens={number}", "--subset", file)
        assert figures["subset"] == str(file)
        assert number <= figures["subset_holds"]["tokens"] < number + 128
        assert figures["subset_short"] == []

    rows = {}
    for file in (small, large):
        with StreamingLoader(tokens, max_tokens=256, mixture=file, tail="pad", epochs=2) as loader:
            batches = list(loader)
        rows[file] = {row for batch in batches for row in batch.info.rows}
        first = [row for batch in batches if batch.position[0] == 0 for row in batch.info.rows]
        assert sorted(set(first)) == sorted(rows[file]), "the second epoch is of the same sequences"
    assert rows[small] < rows[large]
    figures = plan(capsys, tokens, "--mixture", small)
    assert 900 <= figures["tokens"] <= 900 + 2 * 128
    held = plan(capsys, tokens)["sources"]["web"]["shares"]["token"]
    assert abs(figures["sources"]["web"]["shares"]["token"] - held) * figures["tokens"] <= 128

    assert run(["plan", str(tokens), "--budget", "tokens=900", "--subset", str(small)]) == 8
    assert "something is there already" in capsys.readouterr().err


def test_a_saved_plan_spares_the_counting_and_changes_nothing_else(copied, capsys, monkeypatch):
    figures = plan(capsys, copied, "--max-tokens", 256, "--global-batch", 2, "--save")
    path = plan_path(copied, figures["plan"])
    assert figures["saved"] == str(path)
    assert path == copied / ".cache" / f"plan-{figures['plan']}.parquet"
    assert run(["verify", str(copied), "--quiet"]) == 0
    assert Dataset.open(copied).id == figures["id"]

    with monkeypatch.context() as patch:
        patch.setattr("shardkit.sequence.plan.plan.Plan.survey", None)
        with StreamingLoader(copied, max_tokens=256, global_batch=2) as loader:
            assert len(loader) == figures["steps"]

    path.write_bytes(b"not a table")
    assert read_plan(copied, figures["plan"]) is None
    with StreamingLoader(copied, max_tokens=256, global_batch=2) as loader:
        assert len(loader) == figures["steps"]
    assert plan(capsys, copied, "--max-tokens", 256, "--global-batch", 2, "--save") == figures


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--max-tokens", "20"], 3, "max_tokens is 20, but the longest sequence has"),
        (
            ["--global-batch", "4", "--world", "3"],
            3,
            "cannot be shared evenly by 3 ranks (world sizes that fit: 1, 2, 4)",
        ),
        (["--split", "test"], 3, "there is no split 'test' (splits: all)"),
        (["--mixture", "nowhere.toml"], 3, "nowhere.toml: the mixture file cannot be read"),
        (["--packer", "worst-fit"], 2, "worst-fit"),
        (["--max-attention", "9"], 3, "max_attention is 9, but the longest sequence has"),
        (["--budget", "epochs=9"], 3, "a budget cannot be 'epochs=9'"),
        (["--budget", f"tokens={'9' * 5000}"], 3, "18 digits at most, and one of tokens, examples, compute, steps"),
        (["--budget", "tokens=0"], 3, "a budget cannot be 'tokens=0'"),
        (["--subset", "x.toml"], 3, "a subset of what budget?"),
        (["--subset", "x.toml", "--budget", "steps=9"], 3, "with --subset, of tokens, examples, compute"),
        (["--subset", "x.toml", "--budget", "tokens=1_000_000"], 3, "a subset of 1000000 tokens is more than there is"),
    ],
)
def test_what_cannot_be_planned(tokens, capsys, arguments, code, words):
    assert run(["plan", str(tokens), *arguments]) == code

    error = capsys.readouterr().err
    assert words in error
    assert ("Next: " in error) == (code == 3)


def test_an_empty_epoch_is_described(tokens, capsys):
    figures = plan(capsys, tokens, "--global-batch", 500)

    assert figures["steps"] == 0
    assert figures["packs_left_out"] == figures["packs"] > 0


def test_a_plan_that_cannot_be_saved_names_no_option_that_is_not_there(copied, capsys, monkeypatch):
    def refuse(folder):
        raise OutputError.from_os(PermissionError(errno.EACCES, "Permission denied"), str(folder))

    monkeypatch.setattr("shardkit.store.plans.make_folder", refuse)
    assert run(["plan", str(copied), "--max-tokens", "256", "--save", "--quiet"]) == 8
    assert capsys.readouterr().err == (
        f"{copied / '.cache'}: no permission to write the plan (EACCES)\n"
        "Next: leave out --save, or change the folder's permissions\n"
    )
