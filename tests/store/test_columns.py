"""Examples as columns hold what rows hold, and make the same bytes however they were cut on the way."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from shardkit.records import Example, Image, LayoutItem, Relation, Segment
from shardkit.store.columns import examples_of, to_facts, to_rows
from shardkit.store.rows import payload
from shardkit.store.schema import EXAMPLES, EXAMPLES_FACTS
from shardkit.store.units import SHARD_FORMATS
from tests.store.builders import to_row


def any_example(draw: random.Random, number: int) -> Example:
    """Every field null, empty and filled by turns."""
    texts = (None, "", "n\u00e9 \U0001f600", "x" * 300)
    numbers = (None, (), (1, -2, 3))
    layouts = (
        None,
        (),
        tuple(
            LayoutItem(
                level=draw.choice(["word", "line"]),
                text=draw.choice(["", "w\u00f6rd"]),
                polygon=tuple(draw.choice([(), (0.0, 1.5), (-1.0, 2.0, 3.25, 4.0)])),
                parent=draw.choice([None, 0]),
                order=draw.choice([None, 7]),
                confidence=draw.choice([None, 0.5]),
            )
            for _ in range(draw.randint(1, 3))
        ),
    )
    images = tuple(
        Image(
            data=draw.randbytes(draw.choice([0, 1, 700, 5000])),
            asset_id=f"{number:064x}",
            stored_xxh3=f"{number:032x}",
            pixel_id=f"{place:032x}",
            media_type=draw.choice(["image/png", "image/odd"]),
            width=place + 1,
            height=number + 1,
            frame=place,
            path=draw.choice([None, "a/b.jpg"]),
            ocr_labels=draw.choice(numbers),
            reading_order=draw.choice(numbers),
            layout=draw.choice(layouts),
        )
        for place in range(draw.choice([0, 0, 1, 3]))
    )
    return Example(
        example_id=f"{number:032x}",
        source=draw.choice(["one", "two"]),
        group=draw.choice([None, "g"]),
        metadata=draw.choice(["{}", '{"n":1}']),
        segments=tuple(
            Segment(
                kind="text",
                text=draw.choice(texts),
                role=draw.choice([None, "user"]),
                supervised=draw.choice([None, True, False]),
            )
            for _ in range(draw.randint(0, 3))
        ),
        images=images,
        relations=tuple(
            Relation(
                kind="caption", images=draw.choice([(), (0, 1)]), segments=(0,), confidence=draw.choice([None, 1.0])
            )
            for _ in range(draw.randint(0, 2))
        ),
    )


def any_examples(seed: int, count: int = 200) -> list[Example]:
    draw = random.Random(seed)
    return [any_example(draw, number) for number in range(count)]


@pytest.mark.parametrize("seed", range(3))
def test_columns_are_the_rows(seed: int):
    examples = any_examples(seed)
    rows = [to_row(example) for example in examples]
    for row in rows:
        for image in row["images"]:
            del image["bytes"]
    assert to_facts(examples).equals(pa.RecordBatch.from_pylist(rows, schema=EXAMPLES_FACTS))
    assert to_facts([]).num_rows == 0
    # And back: the bytes of pictures are what facts lack.
    bare = [replace(one, images=tuple(replace(image, data=b"") for image in one.images)) for one in examples]
    assert examples_of(to_facts(examples)) == bare
    assert examples_of(to_facts(examples).slice(3, 4)) == bare[3:7]
    assert examples_of(to_facts([])) == []


def test_what_is_counted_of_rows():
    examples = any_examples(7)
    rows = to_rows(examples, [{"input": "a", "position": str(n)} for n in range(len(examples))])
    assert len(rows) == 200
    assert rows.sizes == [payload(example) for example in examples]
    assert rows.num_images == [len(example.images) for example in examples]
    assert rows.pixels() == [sum(i.width * i.height for i in example.images) for example in examples]
    part = rows.slice(50, 120)
    assert part.pixels() == rows.pixels()[50:120]
    assert part.pictures == [i.data for example in examples[50:120] for i in example.images]
    assert part.places["position"].to_pylist() == [str(n) for n in range(50, 120)]
    assert part.assets.num_rows == part.provenance.num_rows == 0


def test_rows_come_through_a_pipe_as_they_were():
    examples = any_examples(1, 40)
    assets = [{"asset_id": i.asset_id, "frame": i.frame} for example in examples for i in example.images]
    rows = to_rows(examples, [{"position": example.example_id} for example in examples], assets=assets).slice(3, 33)
    again = pickle.loads(pickle.dumps(rows))
    assert again.facts.equals(rows.facts)
    assert (again.pictures, again.sizes, again.num_images) == (rows.pictures, rows.sizes, rows.num_images)
    assert again.places.equals(rows.places)
    assert again.assets["frame"].to_pylist() == [i.frame for example in examples[3:33] for i in example.images]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fmt", SHARD_FORMATS)
def test_a_shard_has_the_same_bytes_however_its_rows_came(tmp_path: Path, seed: int, fmt: str):
    examples = any_examples(seed)
    whole = to_rows(examples, [{} for _ in examples])
    cuts = [0, *sorted(random.Random(seed).sample(range(1, 200), 30)), 200]
    ways = {
        "whole": [whole],
        "one by one": [to_rows([example], [{}]) for example in examples],
        "slices": [whole.slice(a, b) for a, b in pairwise(cuts)],
        "through a pipe": [pickle.loads(pickle.dumps(whole.slice(a, b))) for a, b in pairwise(cuts)],
    }
    written = set()
    for name, parts in ways.items():
        writer = SHARD_FORMATS[fmt](tmp_path / name)
        for part in parts:
            writer.add(part)
        done = writer.close()
        assert done.rows == 200
        written.add((done.xxh3, done.index_xxh3))
    assert len(written) == 1
    if fmt == "arrow":
        blocks = [n for n in (block.num_rows for block in done.blocks) if n]
        with pa.OSFile(str(tmp_path / "plain"), "wb") as file, pa.ipc.new_file(file, EXAMPLES) as plain:
            rows = iter([to_row(example) for example in examples])
            for count in blocks:
                plain.write_batch(pa.RecordBatch.from_pylist([next(rows) for _ in range(count)], schema=EXAMPLES))
        assert (tmp_path / "plain").read_bytes() == (tmp_path / "whole").read_bytes()
