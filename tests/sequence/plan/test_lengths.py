"""The columns of a plan, from a table."""

import numpy as np
import pyarrow as pa

from shardkit.sequence.plan import Lengths

TABLE = pa.table(
    {
        "shard": pa.array([1, 0, 0], pa.int32()),
        "row": pa.array([0, 1, 0], pa.int32()),
        "num_tokens": pa.array([30, 20, 10], pa.int32()),
        "num_supervised": pa.array([5, 19, 9], pa.int32()),
        "supervised_text": pa.array([0, 19, 9], pa.int32()),
        "supervised_caption": pa.array([5, 0, 0], pa.int32()),
        "num_images": pa.array([1, 0, 0], pa.int32()),
        "num_patches": pa.array([64, 0, 0], pa.int32()),
        "source": pa.array(["web", "ocr", "ocr"]).dictionary_encode(),
        "split": pa.array(["train", "val", "train"]).dictionary_encode(),
        "key": pa.array([2**64 - 1, 5, 6], pa.uint64()),
    }
)


def test_rows_come_in_the_order_of_shards_and_rows():
    lengths = Lengths.from_table(TABLE)

    assert lengths.tokens.tolist() == [10, 20, 30]
    assert lengths.shard.tolist() == [0, 0, 1]
    assert lengths.row.tolist() == [0, 1, 0]
    assert lengths.key.tolist() == [6, 5, 2**64 - 1]


def test_supervised_tokens_stand_under_the_byte_of_their_objective():
    lengths = Lengths.from_table(TABLE)

    assert lengths.supervised.shape == (7, 3)
    assert lengths.supervised[1].tolist() == [9, 19, 0]
    assert lengths.supervised[2].tolist() == [0, 0, 5]
    assert lengths.supervised[[0, 3, 4, 5, 6]].sum() == 0


def test_a_split_is_selected_and_sources_are_those_of_it():
    lengths = Lengths.from_table(TABLE, split="val")

    assert lengths.tokens.tolist() == [20]
    assert lengths.sources == ("ocr",)


def test_sources_are_named_by_code():
    lengths = Lengths.from_table(TABLE)

    assert [lengths.sources[code] for code in lengths.source] == ["ocr", "ocr", "web"]


def test_an_empty_table_gives_empty_columns():
    lengths = Lengths.from_table(TABLE.slice(0, 0))

    assert len(lengths) == 0
    assert lengths.sources == ()
    assert lengths.supervised.shape == (7, 0)


def test_cost_counts_patches_as_tokens_and_attention_by_the_square():
    lengths = Lengths.from_table(TABLE)

    assert lengths.cost.tolist() == [10 * 12298, 20 * 12308, 30 * 12318 + 12288 * 64]
    assert lengths.cost.dtype == np.int64
