"""Recipes of public datasets: each name alone ingests its fixture; options that are given win."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shardkit.cli import run
from shardkit.errors import ConfigError
from shardkit.prepare.ingest import SOURCES
from shardkit.prepare.ingest.config import MISSING_IMAGE
from shardkit.prepare.ingest.recipes import FOLDER, DatasetRecipe, load, names
from shardkit.store.dataset import Dataset
from tests.prepare.ingest import generate_captions as dumps
from tests.prepare.ingest import generate_funsd, generate_iit_cdip, generate_mmc4, generate_synthtext
from tests.prepare.ingest.builders import jsonl, picture

ROOT = Path(__file__).resolve().parents[3]


def by_address(write: Callable[[Path], Path]) -> Callable[[Path], Path]:
    """A dump of addresses with its fetched pictures beside it, named by the digests of their addresses."""

    def fixture(folder: Path) -> Path:
        path = write(folder)
        for number in range(dumps.COUNT):
            name = hashlib.sha256(dumps.address(number).encode()).hexdigest()
            (folder / f"{name}.jpg").write_bytes(dumps.photo(number))
        return path

    return fixture


def files(**contents: bytes | str) -> Callable[[Path], Path]:
    """A folder of files; in names `__` is a dot and `_in_` a slash."""

    def fixture(folder: Path) -> Path:
        for name, data in contents.items():
            path = folder / name.replace("_in_", "/").replace("__", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return folder

    return fixture


def generated(write: Callable[..., object]) -> Callable[[Path], Path]:
    def fixture(folder: Path) -> Path:
        write(folder)
        return folder

    return fixture


def mmc4(folder: Path) -> Path:
    """With the pictures beside the documents, where no --images is needed."""
    generate_mmc4.write(folder)
    for path in (folder / "images").iterdir():
        path.rename(folder / path.name)
    return folder


PAGE = "A\t100\t100\t200\t150\t0\t0\t0\tCMR10\ttitle\n"
QUAD = "1,2,9,2,9,6,1,6,STOP\n"
TEXTOCR = {
    "imgs": {"a": {"id": "a", "file_name": "a.jpg", "width": 12, "height": 8}},
    "anns": {"a_1": {"image_id": "a", "utf8_string": "STOP", "points": [1, 1, 9, 1, 9, 6, 1, 6]}},
    "imgToAnns": {"a": ["a_1"]},
}
ASKED = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
SHARED = [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]
CALLED = [
    {"role": "user", "content": "q"},
    {"role": "assistant", "content": "", "tool_calls": '[{"name": "f", "arguments": {}}]'},
    {"role": "tool", "content": "r"},
    {"role": "assistant", "content": "a"},
]
INTERLEAVED = {
    "images": [None, None],
    "texts": ["one", "two"],
    "metadata": "[null, null]",
    "general_metadata": '{"url": "https://pages.example/1"}',
}

FIXTURES: dict[str, tuple[Callable[[Path], Path], int, int]] = {
    **{name: (by_address(write), 20, 19) for name, write in dumps.BY_ADDRESS.items()},
    "coco-captions": (dumps.coco, 20, 19),
    "obelics": (files(part__jsonl=jsonl([INTERLEAVED])), 1, 1),
    "mmc4": (mmc4, 20, 19),
    "docbank": (files(**{"9__tar_1611__07901__gz_x_3__txt": PAGE, "9__tar_1611__07901__gz_x_3_ori__jpg": dumps.photo(1)}), 1, 1),
    "iit-cdip": (generated(generate_iit_cdip.write), 0, 0),
    "synthtext": (generated(generate_synthtext.write), 20, 19),
    "funsd": (generated(generate_funsd.write), 20, 19),
    "icdar2015": (files(img_1__jpg=dumps.photo(1), gt_img_1__txt=QUAD), 1, 1),
    "sroie": (files(img_in_1__jpg=dumps.photo(1), box_in_1__csv=QUAD, key_in_1__json='{"total": "1"}'), 1, 1),
    "textocr": (files(train__json=json.dumps(TEXTOCR), a__jpg=dumps.photo(1)), 1, 1),
    "dta-lines": (files(heine_1827_0038_003__png=picture(), heine_1827_0038_003__gt__txt="Zeile\n"), 1, 1),
    "minimind-sft": (files(sft__jsonl=jsonl([{"conversations": ASKED}])), 1, 1),
    "minimind-dpo": (files(dpo__jsonl=jsonl([{"chosen": ASKED, "rejected": [ASKED[0], {**ASKED[1], "content": "b"}]}])), 1, 1),
    "minimind-rlaif": (files(rlaif__jsonl=jsonl([{"conversations": ASKED}])), 1, 1),
    "minimind-agent": (files(agent__jsonl=jsonl([{"conversations": CALLED}])), 1, 1),
    "minimind-pretrain": (files(pretrain__jsonl=jsonl([{"text": "one"}])), 1, 1),
    "sharegpt": (files(sharegpt__jsonl=jsonl([{"id": "x", "conversations": SHARED}])), 1, 1),
}  # fmt: skip
"""Recipe -> (writer of its fixture, records, kept); 0 records where the generator counts pages."""

GROUPS = {
    "sbu": {f"user{k}" for k in range(4)},
    "docbank": {"1611.07901"},
    "dta-lines": {"heine_1827"},
    "funsd": {f"images/form-{number:02d}.png" for number in range(20)} - {"images/form-07.png"},
    "icdar2015": {"img_1.jpg"},
    "sroie": {"img/1.jpg"},
    "iit-cdip": {f"aaa{number:02d}a00" for number in range(20)} - {generate_iit_cdip.BROKEN},
    "obelics": {"https://pages.example/1"},
}
"""What the examples of a fixture are grouped by, where it is written in the fixture."""


def test_every_recipe_has_a_fixture():
    assert set(FIXTURES) == set(names())


@pytest.mark.parametrize("name", sorted(FIXTURES))
def test_a_name_alone_ingests_its_fixture(capsys, tmp_path, name):
    write, num_read, num_kept = FIXTURES[name]
    path = write(tmp_path / "in")
    code = run(
        ["ingest", "--recipe", name, str(path), "-o", str(tmp_path / "out"), "--workers", "1", "--json", "--quiet"]
    )
    said = capsys.readouterr()
    assert code == 0, said.err
    counts = json.loads(said.out)
    if num_read:
        assert (counts["read"], counts["kept"]) == (num_read, num_kept), counts
    recipe = load(name)
    dataset = Dataset.open(tmp_path / "out")
    recorded = dataset.recipe
    assert (recorded["format"], recorded["source"]) == (recipe.format, name)
    assert (recorded["revision"], recorded["licence"]) == (recipe.revision, recipe.licence)
    for row in dataset.table("provenance").to_pylist():
        assert (row["revision"], row["licence"], row["source"]) == (recipe.revision, recipe.licence, name)
    groups = set(dataset.table("examples")["group"].to_pylist())
    assert groups == GROUPS.get(name, groups)
    if recipe.format not in ("chat", "text"):
        assert None not in groups


def test_sbu_is_read_in_its_first_form_too(capsys, tmp_path):
    path = by_address(dumps.sbu_lines)(tmp_path / "in")
    words = ["ingest", "--recipe", "sbu", str(path), "-o", str(tmp_path / "out"), "--workers", "1", "--json"]
    assert run(words) == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["read"], counts["kept"], counts["excluded_by_reason"]) == (20, 19, {"truncated": 1})


@pytest.mark.parametrize("name", names())
def test_a_recipe_says_what_it_is_of_and_its_words_are_known(name):
    recipe = load(name)
    assert recipe.format in SOURCES
    assert set(recipe.fields) <= set(SOURCES[recipe.format].fields)
    assert recipe.on_missing_image in (None, *MISSING_IMAGE)
    assert recipe.homepage.startswith("https://")
    assert recipe.licence
    assert recipe.revision


def test_the_recipes_of_the_repository_are_those_of_the_package():
    shown = ROOT / "manifests" / "recipes"
    assert {path.name for path in shown.glob("*.toml")} == {f"{name}.toml" for name in names()}
    assert all((shown / path.name).read_bytes() == path.read_bytes() for path in FOLDER.glob("*.toml"))


def test_the_table_of_the_documents_is_that_of_the_recipes():
    lines = (ROOT / "docs" / "ingest" / "recipes.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("| [`")] == [
        f"| [`{name}`]({one.homepage}) | `{one.format}` | {one.revision} |"
        f" {f'`{one.group_by}`' if one.group_by else ''} | {one.licence} |"
        for name in names()
        for one in [load(name)]
    ]


def test_options_that_are_given_win(tmp_path):
    recipe = DatasetRecipe(
        name="r", format="caption", revision="1", licence="L", group_by="user", fields={"caption": "c", "image": "i"}
    )
    given = {"format": None, "source": None, "revision": "2", "licence": None, "group_by": "@source", "fields": {}}
    filled = recipe.options({**given, "on_missing_image": None})
    assert filled == {
        "format": "caption", "source": "r", "revision": "2", "licence": "L", "group_by": "@source", "on_missing_image": None,
        "fields": {"caption": "c", "image": "i"},
    }  # fmt: skip
    assert recipe.options({**given, "fields": {"image": "x"}})["fields"] == {"caption": "c", "image": "x"}
    assert recipe.options({**given, "fields": {"text": "t"}})["fields"] == {"text": "t", "image": "i"}
    assert recipe.options({**given, "format": "webdataset"})["format"] == "webdataset"


def test_a_recipe_of_the_user(capsys, tmp_path):
    (tmp_path / "mine.toml").write_text('format = "text"\nlicence = "L"\n[fields]\ntext = "body"\n')
    (tmp_path / "in.jsonl").write_bytes(jsonl([{"body": "one"}]))
    words = [
        "ingest",
        "--recipe",
        tmp_path / "mine.toml",
        tmp_path / "in.jsonl",
        "-o",
        tmp_path / "out",
        "--workers",
        "1",
    ]
    assert run([str(word) for word in words]) == 0
    recorded = Dataset.open(tmp_path / "out").recipe
    assert (recorded["source"], recorded["licence"], recorded["fields"]) == ("mine", "L", {"text": "body"})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("format =", "is no TOML"),
        ('licence = "L"', "names no format"),
        ('format = "text"\nlicense = "L"', "no field 'license'"),
        ('format = "text"\nlicence = 4', "licence of the recipe is no text"),
        ('format = "text"\nfields = "body"', "fields of the recipe is no table"),
    ],
)
def test_a_recipe_that_is_none_is_refused(tmp_path, text, what):
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(ConfigError, match=what):
        load(str(tmp_path / "x.toml"))


def test_an_unknown_recipe_names_the_nearest():
    with pytest.raises(ConfigError) as error:
        load("coco-caption")
    assert "--recipe (did you mean coco-captions?)" in error.value.hint
    with pytest.raises(ConfigError, match="cannot be read"):
        load("nowhere.toml")
