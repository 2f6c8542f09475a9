"""How fast a loader feeds a device: packs and images a second, with nothing done to them but the patches cut.

    python benchmarks/feed.py DATASET [--device cpu|cuda] [--decoder NAME] [--steps N] [--max-tokens L]

Prints JSON: tokens, images and bytes a second, and the seconds that the consumer waited for a batch.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import islice
from pathlib import Path

import torch

from shardkit.loader import StreamingLoader


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--decoder", default="pillow", help="pillow, turbo or device")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--max-tokens", type=int, default=4096)
    options = parser.parse_args()
    tokens = images = size = 0
    waited, begin = 0.0, time.perf_counter()
    settings = {"max_tokens": options.max_tokens, "decoder": options.decoder, "device": options.device}
    with StreamingLoader(options.dataset, **settings) as loader:
        batches = islice(loader, options.steps)
        while True:
            asked = time.perf_counter()
            batch = next(batches, None)
            waited += time.perf_counter() - asked
            if batch is None:
                break
            tokens += batch.input_ids.shape[1]
            images += len(batch.image_slots)
            size += batch.pixels.nbytes
            if len(batch.image_slots):
                _ = batch.square_patches
        if options.device == "cuda":
            torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    found = {"tokens": tokens, "images": images, "bytes": size}
    rates = {f"{name}_per_second": round(value / seconds) for name, value in found.items()}
    print(
        json.dumps(
            {
                "device": options.device,
                "decoder": options.decoder,
                "seconds": round(seconds, 2),
                "waited": round(waited, 2),
                **rates,
            }
        )
    )


if __name__ == "__main__":
    sys.exit(main())
