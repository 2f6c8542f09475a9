"""Pictures from a dump to slots: sizes, labels and what becomes of images, on real dumps and on small ones."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import pytest

from shardkit.media.processors import PROCESSORS
from shardkit.prepare.ingest import IngestConfig
from shardkit.prepare.ingest import run as ingest
from shardkit.prepare.tokenize.config import TokenizeConfig, TokenizeResult
from shardkit.prepare.tokenize.run import run
from shardkit.sequence.objectives import spread
from shardkit.store.dataset import Dataset
from shardkit.text.tokenizer import Tokenizer
from tests.media.builders import encode, exif, picture


@pytest.fixture(scope="module")
def tokenizer(shared):
    return shared / "data" / "tokenizers" / "minimind"


@pytest.fixture(scope="module")
def dumps(shared, once):
    """The real dumps as datasets."""
    return once("dumps-to-tokenize", lambda folder: ingest_dumps(shared / "data", folder))


def ingest_dumps(data, out) -> None:
    pages = data / "obelics_pages"
    ingest(
        IngestConfig(
            format="obelics", paths=(pages / "obelics.parquet",), url_maps=(pages / "url_map.jsonl",),
            images=(pages,), max_bad=1.0, output=out / "obelics",
        )
    )  # fmt: skip
    ingest(IngestConfig(format="caption", paths=(data / "captions_alttext",), output=out / "alttext"))
    for name in ("ocr_pages_docbank", "ocr_receipts_sroie", "ocr_pagexml", "ocr_lines_dta"):
        ingest(IngestConfig(format="ocr", paths=(data / name,), output=out / name, max_bad=1.0))


def tokenize(source, tokenizer, recipe: str, output, **more: Any) -> TokenizeResult:
    """Of one dataset, or of several in one run: each run loads the tokenizer anew."""
    inputs = source if isinstance(source, tuple) else (source,)
    settings = {key: value for key, value in more.items() if key not in ("max_tokens", "overlong", "dry_run")}
    fixed = {key: value for key, value in more.items() if key not in settings}
    return run(
        TokenizeConfig(inputs=inputs, output=output, tokenizer=tokenizer, recipe=recipe, settings=settings, **fixed)
    )


def sequences(folder) -> list[dict[str, Any]]:
    dataset = Dataset.open(folder)
    return [row for shard in dataset.sequence_shards for row in dataset.sequence_reader(shard).table().to_pylist()]


@lru_cache
def images_of(folder) -> dict[tuple[str, int], Any]:
    """Every image of every example of a dataset of examples."""
    found = {}
    dataset = Dataset.open(folder)
    for shard in dataset.shards:
        reader = dataset.reader(shard)
        for row in range(shard.entry.counts["examples"]):
            example = reader.example(row)
            found |= {(example.example_id, number): image for number, image in enumerate(example.images)}
    return found


# ------------------------------------------------------------------ real dumps
@pytest.mark.parametrize("processor", PROCESSORS)
def test_slots_are_what_the_processor_says_of_the_upright_picture(dumps, tokenizer, tmp_path, processor):
    names = ("alttext", "ocr_pages_docbank", *(("obelics",) if processor == "tiles" else ()))
    sources = tuple(dumps / name for name in names)
    result = tokenize(sources, tokenizer, "vlm", tmp_path / "tokens", processor=processor, max_tokens=4096)
    assert result.counts["excluded"] == 0
    assert result.counts["kept"] == (130 + 10 + 525 if processor == "tiles" else 130 + 10)
    images = {place: image for source in sources for place, image in images_of(source).items()}
    patch = Tokenizer.load(tokenizer).token_id("<|image_pad|>")
    shown = 0
    for row in sequences(tmp_path / "tokens"):
        places = [place for place, token in enumerate(row["input_ids"]) if token == patch]
        assert places == [slot["start"] + n for slot in row["slots"] for n in range(slot["count"])]
        assert len(row["input_ids"]) <= 4096
        for slot in row["slots"]:
            image = images[row["example_id"], slot["image"]]
            geometry = PROCESSORS[processor]().geometry(image.height, image.width)
            assert (slot["height"], slot["width"], slot["count"]) == (geometry.height, geometry.width, geometry.slots)
            assert (slot["used_height"], slot["used_width"]) == geometry.shown
            assert slot["asset_id"] == image.asset_id
            shown += 1
    assert shown == result.totals["images"] > 0


@pytest.mark.parametrize(("overlong", "images"), [("window", 798), ("truncate", 751)])
def test_web_pages_for_cross_attention(dumps, tokenizer, tmp_path, overlong, images):
    """Of 802 places of pictures four stand behind the last text."""
    result = tokenize(dumps / "obelics", tokenizer, "obelics-xattn", tmp_path / "tokens", overlong=overlong)
    assert (result.counts["kept"], result.counts["excluded"]) == (525, 0)
    assert result.counts["changes"]["images_trailing"] == 4
    assert result.totals["images"] == images
    for row in sequences(tmp_path / "tokens"):
        objectives = spread(row["objectives"])
        assert len(objectives) == len(row["input_ids"])
        for slot in row["slots"]:
            assert slot["count"] == 1
            assert any(objectives[slot["start"] + 1 :]), "an image that no target follows"


def test_captions_of_130_pictures(dumps, tokenizer, tmp_path):
    """222 alt texts; 90 pictures have more than one."""
    counts = {
        captions: tokenize(dumps / "alttext", tokenizer, "vlm", tmp_path / captions, captions=captions).totals[
            "sequences"
        ]
        for captions in ("all", "one", "joined", "first")
    }
    assert counts == {"all": 222, "one": 222, "joined": 130, "first": 130}
    rows = sequences(tmp_path / "one")
    by_example: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_example.setdefault(row["example_id"], []).append(row)
    assert sum(len(rows) > 1 for rows in by_example.values()) == 90
    for rows in by_example.values():
        assert [row["alternative"] for row in rows] == list(range(len(rows)))
        assert {row["alternatives"] for row in rows} == {len(rows)}
    lengths = Dataset.open(tmp_path / "one").table("lengths")
    assert lengths["alternative"].to_pylist() == [row["alternative"] for row in sequences(tmp_path / "one")]


def test_the_lines_of_a_layout_are_the_text_of_the_page(dumps, tokenizer, tmp_path):
    """Ten pages of DocBank, 26 receipts of SROIE, four of PAGE XML."""
    sources = tuple(dumps / name for name in ("ocr_pages_docbank", "ocr_receipts_sroie", "ocr_pagexml"))
    plain = tokenize(sources, tokenizer, "ocr", tmp_path / "plain")
    lines = tokenize(sources, tokenizer, "ocr", tmp_path / "lines", text="layout", labels="text")
    boxes = tokenize(sources, tokenizer, "ocr", tmp_path / "boxes", boxes="true")
    assert plain.counts["kept"] == lines.counts["kept"] == boxes.counts["kept"] == 10 + 26 + 4
    for one, other in zip(sequences(tmp_path / "plain"), sequences(tmp_path / "lines"), strict=True):
        assert one["input_ids"] == other["input_ids"]
        assert one["objectives"] == other["objectives"]
        assert all(slot["ocr_labels"] is None for slot in one["slots"])
        assert all(0 < len(slot["ocr_labels"]) <= slot["count"] for slot in other["slots"])
    assert boxes.totals["supervised"] > plain.totals["supervised"]


def test_text_lines_have_labels_of_their_text(dumps, tokenizer, tmp_path):
    result = tokenize(dumps / "ocr_lines_dta", tokenizer, "ocr", tmp_path / "tokens", labels="text")
    assert (result.counts["kept"], result.totals["images"]) == (178, 178)
    assert result.counts["changes"]["labels_truncated"] == 70


def test_their_texts_alone_for_replay(dumps, tokenizer, tmp_path):
    sources = (dumps / "alttext", dumps / "ocr_receipts_sroie")
    result = tokenize(sources, tokenizer, "text-replay", tmp_path / "tokens")
    assert result.counts["excluded"] == 0
    assert result.totals["supervised"] == result.totals["supervised_text"] > 0
    assert result.totals.get("images", 0) == 0
    assert result.counts["changes"]["images_dropped"] == 130 + 26


# ------------------------------------------------------------------ small dumps
def rows(folder, *made: dict[str, Any]):
    """A dataset of `rows`, with a.png (28 high, 56 wide) and turned.jpg, which is the same once it is upright."""
    folder.mkdir()
    (folder / "a.png").write_bytes(encode(picture(56, 28), "png"))
    (folder / "turned.jpg").write_bytes(encode(picture(28, 56), "jpeg", exif=b"Exif\0\0" + exif(6)))
    (folder / "long.png").write_bytes(encode(picture(3, 600), "png"))
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    ingest(IngestConfig(format="rows", paths=(folder / "rows.jsonl",), output=folder / "examples"))
    return folder / "examples"


@pytest.mark.parametrize("image", ["a.png", "turned.jpg"])
def test_28_by_56_is_one_row_of_two_slots(sample, tmp_path, image):
    """Sizes are [height, width], and those of the picture as it is seen, whatever its file says of turning it."""
    source = rows(tmp_path / "in", {"text": "<image> x", "images": [image], "image_sizes": [[28, 56]]})
    tokenize(source, sample / "tokenizer", "vlm", tmp_path / "tokens", processor="pixel-budget", min_pixels="784")
    (row,) = sequences(tmp_path / "tokens")
    (slot,) = row["slots"]
    assert (slot["height"] // 28, slot["width"] // 28, slot["count"]) == (1, 2, 2)


def test_a_placeholder_in_a_text_is_no_slot(sample, tmp_path):
    source = rows(tmp_path / "in", {"text": "<image> see <image_patch> and <|image_pad|>", "images": ["a.png"]})
    tokenize(source, sample / "tokenizer", "vlm", tmp_path / "tokens", image_size="56")
    (row,) = sequences(tmp_path / "tokens")
    control = Tokenizer.load(sample / "tokenizer").token_id("<|image_pad|>")
    assert row["input_ids"].count(control) == 4 == row["slots"][0]["count"]


def test_an_image_longer_than_a_sequence_leaves_no_empty_row(sample, tmp_path):
    source = rows(
        tmp_path / "in", {"text": "<image> x", "images": ["a.png"]}, {"text": "<image> tall", "images": ["long.png"]}
    )
    more = {"processor": "patch-budget", "max_tokens": 12}
    for overlong in ("window", "truncate", "drop"):
        result = tokenize(source, sample / "tokenizer", "vlm", tmp_path / overlong, overlong=overlong, **more)
        assert result.counts["excluded_by_reason"] == {"image_too_long": 1}
        (row,) = sequences(tmp_path / overlong)
        assert row["num_images"] == 1


def test_a_model_with_another_number_of_slots(sample, tmp_path):
    source = rows(
        tmp_path / "in", {"text": "<image> x", "images": ["a.png"]}, {"text": "<image> tall", "images": ["long.png"]}
    )
    more = {"processor": "patch-budget", "compress_to": "2"}
    result = tokenize(source, sample / "tokenizer", "vlm", tmp_path / "tokens", **more)
    assert result.counts["excluded_by_reason"] == {"slots_mismatch": 1}
    (line,) = Dataset.open(tmp_path / "tokens").exclusions()
    assert json.loads(line)["detail"] == "an image of 600 x 3 takes 22 slots, compress_to is 2"


def test_labels_and_reading_order_lie_in_the_slots(sample, tmp_path):
    source = rows(
        tmp_path / "in",
        {
            "text": "<image> x <image> y",
            "images": ["a.png", "a.png"],
            "ocr_labels": [[1, 2], None],
            "reading_order": [[3], None],
        },
        {"text": "<image> x", "images": ["a.png"], "ocr_labels": [5, 6, 7, 8, 9], "reading_order": [0, 9]},
    )
    result = tokenize(source, sample / "tokenizer", "vlm", tmp_path / "tokens", image_size="56")
    assert result.counts["excluded_by_reason"] == {"bad_reading_order": 1}
    (row,) = sequences(tmp_path / "tokens")
    assert [(slot["ocr_labels"], slot["reading_order"]) for slot in row["slots"]] == [
        ([1, 2], [3, 0, 1, 2]),
        (None, None),
    ]


def test_the_dataset_holds_the_file_from_which_a_model_is_served(sample, tmp_path):
    source = rows(tmp_path / "in", {"text": "<image> x", "images": ["a.png"]})
    tokenize(source, sample / "tokenizer", "vlm", tmp_path / "tokens", processor="naflex")
    again = {"processor": f"hf:{tmp_path / 'tokens' / 'tokenizer'}"}
    result = tokenize(source, sample / "tokenizer", "vlm", tmp_path / "again", **again)
    assert result.dataset_id == Dataset.open(tmp_path / "tokens").id
    tokenize(source, sample / "tokenizer", "vlm", tmp_path / "square")
    assert not (tmp_path / "square" / "tokenizer" / "preprocessor_config.json").exists()
