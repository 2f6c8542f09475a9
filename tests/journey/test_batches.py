"""From the last stage into batches: what a loader gives leads back to the raw records."""

from __future__ import annotations

import pyarrow.parquet as pq

from shardkit.loader import StreamingLoader
from shardkit.text.tokenizer import Tokenizer
from tests.journey.road import MAX_TOKENS, Road


def loader(road: Road) -> StreamingLoader:
    return StreamingLoader(road.stages["tokens"], split="train", seed=3, max_tokens=2 * int(MAX_TOKENS), epochs=1)


def test_batches_lead_back_to_raw_records(road: Road, sample):
    examples = pq.read_table(road.stages["tokens"] / "tables" / "examples.parquet").to_pylist()
    origins = {row["example_id"]: (row["source"], row["input"], row["position"]) for row in examples}
    train = {row["example_id"] for row in examples if "/train/" in row["shard"]}
    seen: set[str] = set()
    with loader(road) as batches:
        for batch in batches:
            assert set(batch.example_ids) <= train
            seen |= set(batch.example_ids)
            assert batch.input_ids.shape == batch.position_ids.shape
            assert int(batch.cu_seq_lens_q[-1]) == batch.input_ids.shape[1]
    assert {origins[example][0] for example in seen} == {"alttext", "dta", "pages"}
    assert len(seen) > 0.9 * len(train), "only the last packs of an epoch may be left over"


def test_the_text_of_a_scanned_line_stands_in_its_batch(road: Road, sample):
    examples = pq.read_table(road.stages["tokens"] / "tables" / "examples.parquet").to_pylist()
    lines = {row["example_id"]: row for row in examples if row["source"] == "dta"}
    tokenizer = Tokenizer.load(sample / "tokenizer")
    found = 0
    with loader(road) as batches:
        for batch in batches:
            bounds = batch.cu_seq_lens_q.tolist()
            ids = batch.input_ids[0].tolist()
            for place, example in enumerate(batch.example_ids):
                if example in lines:
                    stem = lines[example]["position"].removesuffix(".tif")
                    files = list((sample / "ocr").glob(f"{stem.rpartition('/')[2]}*.gt.txt"))
                    assert len(files) == 1, lines[example]
                    text = files[0].read_text(encoding="utf-8").rstrip("\n")
                    assert text in tokenizer.decode(ids[bounds[place] : bounds[place + 1]])
                    found += 1
    assert found > 20
