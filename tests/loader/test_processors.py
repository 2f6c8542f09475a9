"""Every image processor and every recipe with images, from rows to a batch."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from shardkit.loader import StreamingLoader, unpack
from shardkit.loader.reader import image_processor
from shardkit.media.decode import decode_rgb
from shardkit.media.processors import NORMALISATIONS, PROCESSORS
from shardkit.sequence.intervals import bounds
from shardkit.store.dataset import Dataset
from shardkit.text.tokenizer import Tokenizer
from tests.loader.conftest import TOKENIZER, shardkit
from tests.media.builders import picture


@pytest.fixture(scope="module")
def captioned(tmp_path_factory):
    """Six pictures of odd shapes; the first has three captions, the second two."""
    folder = tmp_path_factory.mktemp("captioned")
    sizes = [(64, 48), (200, 90), (33, 71), (5, 150), (300, 20), (28, 28)]
    captions = {0: ["red", "green", "blue"], 1: ["up", "down"]}
    for number, (width, height) in enumerate(sizes):
        picture(width, height, seed=number).save(folder / f"{number}.png")
    document = {
        "images": [{"id": n, "file_name": f"{n}.png"} for n in range(len(sizes))],
        "annotations": [
            {"id": 10 * n + k, "image_id": n, "caption": text}
            for n in range(len(sizes))
            for k, text in enumerate(captions.get(n, [f"number {n}"]))
        ],
    }
    (folder / "captions.json").write_text(json.dumps(document))
    shardkit("ingest", "caption", folder / "captions.json", "-o", folder / "examples", "--quiet")
    return folder / "examples"


def tokenize(source, out, recipe, *settings):
    options = [word for setting in settings for word in ("--set", setting)]
    shardkit("tokenize", source, "-o", out, "--tokenizer", TOKENIZER, "--recipe", recipe, *options, "--quiet")
    return out


@pytest.mark.parametrize("name", PROCESSORS)
def test_pixels_of_a_batch_are_those_of_the_processor(captioned, tmp_path, name):
    tokens = tokenize(captioned, tmp_path / "tokens", "vlm", f"processor={name}", "captions=first")
    dataset = Dataset.open(tokens)
    processor = image_processor(dataset)
    assert processor == PROCESSORS[name]()
    examples, seen = {example.example_id: example for example in examples_of(dataset)}, 0
    with StreamingLoader(tokens, max_tokens=4096) as loader:
        for batch in loader:
            assert batch.sizes.form.normalisation == processor.normalisation in NORMALISATIONS
            found = [one for pack in unpack(batch) for one in pack]
            for example_id, one in zip(batch.example_ids, found, strict=True):
                for slot, pixels in zip(one.sequence.slots, one.pixels, strict=True):
                    image = examples[example_id].images[slot.image]
                    geometry = processor.geometry(image.height, image.width)
                    assert np.array_equal(pixels, processor.pixels(decode_rgb(image.data)))
                    assert (slot.used_height, slot.used_width, slot.count) == (*geometry.shown, geometry.slots)
                    seen += 1
    assert seen == 6


def examples_of(dataset):
    for shard in dataset.shards:
        reader = dataset.reader(shard)
        for row in range(shard.entry.counts["examples"]):
            yield reader.example(row)


def test_each_pass_sees_another_caption(captioned, tmp_path):
    tokens = tokenize(captioned, tmp_path / "tokens", "vlm", "captions=one", "image_size=56")
    tokenizer = Tokenizer.load(TOKENIZER)
    passes = []
    with StreamingLoader(tokens, max_tokens=256, epochs=6, tail="pad") as loader:
        found: dict[int, Counter[str]] = {}
        for batch in loader:
            for one in [one for pack in unpack(batch) for one in pack]:
                text = tokenizer.decode(
                    [i for i in one.sequence.input_ids.tolist() if i not in tokenizer.controls.values()]
                )
                found.setdefault(batch.info.epoch, Counter())[text] += 1
        passes = [found[epoch] for epoch in range(6)]
    assert all(sum(texts.values()) == 6 for texts in passes), "each pass has each picture once"
    assert sum(passes, Counter()) == Counter(
        {"red": 2, "green": 2, "blue": 2, "up": 3, "down": 3, **{f"number {n}": 6 for n in (2, 3, 4, 5)}}
    )


def test_images_for_cross_attention_are_tiles_and_one_token_each(captioned, tmp_path):
    tokens = tokenize(captioned, tmp_path / "tokens", "obelics-xattn", "tile=56")
    with StreamingLoader(tokens, max_tokens=64) as loader:
        for batch in loader:
            documents = batch.cu_seq_lens_q.tolist()[:-1]
            starts = (batch.slot_rows[0] >= 0).nonzero().flatten().tolist()
            lo, hi = bounds(starts, batch.input_ids.shape[1], documents=documents)
            assert len(starts) == len(batch.sizes.images) > 0
            # Each example is one image and its captions: all but what stands before the image sees that one.
            assert set((hi - lo).tolist()) == {0, 1}
            assert batch.tiles.values.shape[1] == 3 * 56 * 56
            assert len(batch.tiles.values) == sum(i.height // 56 * (i.width // 56) for i in batch.sizes.images)
