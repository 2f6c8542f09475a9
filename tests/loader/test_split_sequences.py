"""A tokenized dataset that was split, as the loader reads it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

from shardkit.loader import StreamingLoader
from tests.prepare.builders import write
from tests.prepare.split.builders import split
from tests.prepare.split.tokens import NAMES, pages, rows_of, tokenize


def test_the_loader_reads_each_split_whole(tmp_path: Path):
    write(tmp_path / "pages", pages(), unit_rows=25)
    tokens = tokenize(tmp_path / "pages", out=tmp_path / "tokens")
    split(tokens, tmp_path / "s", unit_size=4000)
    rows = rows_of(tmp_path / "s")
    for name in NAMES:
        with_targets = Counter(row["num_tokens"] for row in rows if row["split"] == name)
        loader = StreamingLoader(tmp_path / "s", split=name, max_tokens=128, epochs=1, tail="pad")
        found: Counter[int] = Counter()
        for batch in loader:
            bounds = batch.cu_seq_lens_q.tolist()
            found.update(end - begin for begin, end in pairwise(bounds) if end > begin)
        loader.close()
        assert found == with_targets
    assert StreamingLoader(tmp_path / "s", max_tokens=128).state_dict()["bound"]["split"] == "train"
