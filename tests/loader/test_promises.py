"""Which change gives which promise. The table in docs/resume.md is made of the cases below, and each is carried out.

python -m pytest tests/loader/test_promises.py      says what the table lacks
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from shardkit.errors import ResumeError
from shardkit.loader import Promise, StreamingLoader
from shardkit.loader import state as states
from shardkit.prepare.concat.config import ConcatConfig
from shardkit.prepare.concat.run import run as concat
from tests.loader.builders import seen
from tests.loader.conftest import ROOT, ingest, shardkit, tokenize, write_rows

SAME, LESS, NONE = Promise.REPLAYABLE, Promise.STATISTICALLY_EQUIVALENT, Promise.UNRECOVERABLE
BEGIN, END = "<!-- promises: made by tests/loader/test_promises.py -->\n", "<!-- end of promises -->\n"
BASE = {"max_tokens": 256, "global_batch": 4, "tail": "pad"}
CURRICULUM = {
    "by": "token",
    "weights": {"notes": 1, "web": 1},
    "then": [{"from_step": 4, "weights": {"notes": 0, "web": 1}}],
}


@dataclass(frozen=True, kw_only=True)
class Case:
    change: str
    promise: Promise
    settings: dict[str, Any] = field(default_factory=dict)
    """Of the loader that takes the state."""
    before: dict[str, Any] = field(default_factory=dict)
    """Of the loader that saved it."""
    data: str = "same"
    """The dataset of the loader that takes the state: an entry of `datasets`."""
    edited: bool = False
    """Whether the state is another one than was saved."""
    bound: dict[str, Any] = field(default_factory=dict)
    """What the state says of versions that are not here any more."""


CASES = [
    Case(change="nothing", promise=SAME),
    Case(change="number of ranks", promise=SAME, settings={"rank": 1, "world_size": 2}),
    Case(change="workers and prefetch of a DataLoader, or none", promise=SAME, data="workers"),
    Case(change="place of the dataset", promise=SAME, data="moved"),
    Case(
        change="`verify`, `on_bad`, `epochs`",
        promise=SAME,
        settings={"verify": "open", "on_bad": "quarantine", "epochs": 9},
    ),
    Case(change="`max_tokens`", promise=LESS, settings={"max_tokens": 300}),
    Case(
        change="`max_images`, `max_patches`, `max_attention`",
        promise=LESS,
        settings={"max_images": 9, "max_patches": 99},
    ),
    Case(change="`global_batch`", promise=LESS, settings={"global_batch": 2}),
    Case(change="`tail`", promise=LESS, settings={"tail": "drop"}),
    Case(change="`packer`", promise=LESS, settings={"packer": "oldest-first"}),
    Case(change="a packer that cuts, or no longer one", promise=LESS, before={"packer": "concat-and-split"}),
    Case(change="a mixture, or none any more", promise=LESS, settings={"mixture": {"weights": {"notes": 1, "web": 2}}}),
    Case(
        change="weights, denominator, limits or curriculum of the mixture",
        promise=LESS,
        before={"mixture": {"weights": {"notes": 1, "web": 1}}},
        settings={"mixture": CURRICULUM},
    ),
    Case(change="an append: every bound shard, and more", promise=LESS, data="appended"),
    Case(change="an append and other settings", promise=LESS, data="appended", settings={"max_tokens": 300}),
    Case(change="`decoder`: the same order and packs, other pixels", promise=LESS, settings={"decoder": "turbo"}),
    Case(change="the state itself: damaged or edited", promise=NONE, edited=True),
    Case(change="`seed`", promise=NONE, settings={"seed": 7}),
    Case(change="split", promise=NONE, data="split", before={"split": "train"}, settings={"split": "val"}),
    Case(change="a dataset that lacks a bound shard, or has another one in its place", promise=NONE, data="shorter"),
    Case(change="tokenizer", promise=NONE, data="tokenizer"),
    Case(change="`--max-tokens`, `--overlong` or recipe of tokenize", promise=NONE, data="windows"),
    Case(change="image processor", promise=NONE, data="images"),
    Case(change="a shardkit with another order", promise=NONE, bound={"order_version": 0}),
    Case(change="a shardkit whose packer of this name packs otherwise", promise=NONE, bound={"packer_version": 0}),
    Case(change="a shardkit that lays batches out otherwise", promise=NONE, bound={"batch_version": 0}),
]


def table() -> str:
    rows = [f"| {case.change} | `{case.promise.value}` |" for case in CASES]
    return "\n".join(["| what is another | promise |", "|---|---|", *rows, ""])


def test_the_docs_have_this_table():
    text = (ROOT / "docs" / "resume.md").read_text()

    assert text.split(BEGIN)[1].split(END)[0] == table()


@pytest.fixture(scope="session")
def datasets(work: Path, examples: tuple[Path, Path], tokens: Path, tmp_path_factory: pytest.TempPathFactory):
    """Name -> how to make or find the dataset that takes the state."""
    place = tmp_path_factory.mktemp("promises")
    made: dict[str, Path] = {}

    def appended() -> Path:
        more = ingest(write_rows(place / "raw" / "web", 20, images=1, seed=9), place / "more")
        concat(ConcatConfig(inputs=(tokens, tokenize(more, out=place / "more-tokens")), output=place / "appended"))
        return place / "appended"

    def moved() -> Path:
        (place / "moved").symlink_to(tokens, target_is_directory=True)
        return place / "moved"

    def tokenizer() -> Path:
        shardkit("tokenizer", "train", *examples, "-o", place / "bpe", "--vocab-size", 400)
        options = ["--recipe", "vlm", "--set", "image_size=56", "--max-tokens", 128, "--add-control-tokens"]
        shardkit("tokenize", *examples, "-o", place / "tokenizer", "--tokenizer", place / "bpe", *options, "--quiet")
        return place / "tokenizer"

    def images() -> Path:
        options = ["--tokenizer", ROOT / "tests" / "data" / "tokenizer", "--recipe", "vlm", "--set", "image_size=28"]
        shardkit(
            "tokenize", *examples, "-o", place / "images", *options, "--max-tokens", 128, "--workers", 1, "--quiet"
        )
        return place / "images"

    makers = {
        "same": lambda: tokens,
        "workers": lambda: tokens,
        "moved": moved,
        "appended": appended,
        "shorter": lambda: tokenize(examples[0], out=place / "shorter"),
        "windows": lambda: tokenize(*examples, out=place / "windows", max_tokens=120),
        "tokenizer": tokenizer,
        "images": images,
    }

    def find(name: str) -> Path:
        if name not in made:
            made[name] = makers[name]()
        return made[name]

    return find


def rows_of(batches):
    return [row for batch in batches for row in batch.info.rows]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.change)
def test_each_line_is_so(case, datasets, tokens, request, caplog):
    saved_with = tokens if case.data != "split" else request.getfixturevalue("split_tokens")
    loaded_with = datasets(case.data) if case.data != "split" else saved_with
    if "split" in case.before or "split" in case.settings:
        assert case.data == "split"
    with StreamingLoader(saved_with, **{**BASE, **case.before}) as loader:
        whole = list(loader)
        loader.set_epoch(0)
        before = [batch for _, batch in zip(range(3), loader, strict=False)]
        state = json.loads(json.dumps(loader.state_dict()))
    state = states.sealed({**state, "bound": state["bound"] | case.bound})
    state["cursor"]["pack"] += case.edited

    with StreamingLoader(loaded_with, **{**BASE, **case.settings}) as loader:
        if case.promise is not SAME:
            with pytest.raises(ResumeError) as caught:
                loader.load_state_dict(state)
            assert f"{case.promise.value}: " in str(caught.value)
            if not case.edited:
                assert " there, " in str(caught.value), "both sides are printed"
                assert f"loader state refused: {case.promise.value}: " in caplog.text
        if case.promise is NONE:
            with pytest.raises(ResumeError):
                loader.load_state_dict(state, require="equivalent")
            return
        assert loader.load_state_dict(state, require="equivalent") is case.promise
        assert f"{case.promise.value}: " in caplog.text or case.promise is SAME
        if case.data == "workers":
            hosted = DataLoader(loader, batch_size=None, num_workers=2, prefetch_factor=4)
            assert seen(hosted) == seen(whole[3:])
            return
        after = [batch for batch in loader if batch.position[0] == 0]

    if case.promise is SAME and "world_size" not in case.settings:
        assert seen(after) == seen(whole[3:])
    elif case.promise is SAME:
        for batch, of_all in zip(seen(after), seen(whole[3:]), strict=True):
            assert set(batch[1]) <= set(of_all[1])
            assert (batch[0], batch[3]) == (of_all[0], of_all[3])
    elif case.before.get("packer") == "concat-and-split":
        assert {*rows_of(before), *rows_of(after)} == set(rows_of(whole))
    elif not (case.before.get("mixture") or case.settings.get("mixture")):
        rows = rows_of([*before, *after])
        if case.data == "appended":
            assert len(before[0].info.rows)
            assert len(rows) >= 80 + 20
        elif case.settings.get("tail") != "drop":
            assert sorted(rows) == sorted(rows_of(whole))
    else:
        assert set(rows_of([*before, *after])) >= set(rows_of(whole))


def test_what_is_recorded_is_told_and_lowers_nothing(tokens, caplog):
    hosted = StreamingLoader(tokens, **BASE)
    stream = iter(DataLoader(hosted, batch_size=None, num_workers=1))
    state = hosted.state_after(next(stream))

    with StreamingLoader(tokens, **BASE, rank=0, world_size=2) as loader, caplog.at_level("INFO"):
        assert loader.load_state_dict(state) is SAME

    assert state["recorded"] == {"world_size": 1, "workers": 1}
    assert "REPLAYABLE: workers is 1 there, 0 here; world_size is 1 there, 2 here" in caplog.text
