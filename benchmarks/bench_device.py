"""From two flat buffers to a batch: bytes over the bus, time to build, patches a second, beside the padded float32 way.

    python benchmarks/bench_device.py [--device cpu|cuda] [--tokens T] [--images M] [--side S] [--rounds N] [--json]

    bytes            of the published reference batch (sixteen samples, 61 tiles of 448): ours, and padded float32 tiles with a
                     byte for each element of the mask and int64 ids and labels
    build            ids, labels, positions, slots and boundaries of a batch of T tokens with M images of S x S
    blocks           FlexAttention's lists written down from the boundaries, beside create_block_mask on the same mask
    patches          normalised patches of the four OMVT kinds from uint8, beside a device copy of the bytes that they take
    padded form      the same pixels as float32 images and their patches by unfold, as padded trainers make them
    JPEGs            M pictures as files, decoded, resized and laid out on the device, beside the host's decoders

Checked first: the patches have the bits of a slow reference, the lists are those of create_block_mask, JPEGs are near Pillow's. Medians of interleaved
rounds; read the ratios.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import device_jpegs
import numpy as np
import torch
from report import about, publish
from torch.nn.attention.flex_attention import create_block_mask

from shardkit.loader.batch import PixelForm, Sizes, lay_out
from shardkit.loader.device import build
from shardkit.loader.masks import AttentionLayout
from shardkit.loader.patches import cut
from shardkit.media.processors import NORMALISATIONS
from shardkit.media.processors.omvt import BASE
from shardkit.prepare.report.padding import bytes_of
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.padding import padded_bytes, reference
from shardkit.sequence.sequence import Sequence, Slot

LLAMA = {"batch_size": 16, "max_tiles": 4, "tile_tokens": 1025, "tile": 448}


def reference_bytes() -> dict[str, Any]:
    """Of the published batch: what crosses the bus."""
    samples = reference()
    ours = bytes_of(samples, LLAMA)
    padded = padded_bytes(samples, **LLAMA)
    return {"ours": ours, "padded": padded, "fewer": round(padded / ours, 1)}


def made(tokens: int, images: int, side: int) -> tuple[torch.Tensor, torch.Tensor, Sizes]:
    """A batch of sequences of about 500 tokens, the images spread over them."""
    random = np.random.default_rng(0)
    slots_each = (side // 28) ** 2
    sequences, left, shown = [], tokens, 0
    while left:
        count = min(left, int(random.integers(200, 800)))
        has = shown < images and slots_each + 2 < count
        slots = (Slot(start=1, count=slots_each, image=0, height=side, width=side),) if has else ()
        shown += has
        objectives = bytes(1) + bytes([1]) * (count - 1)
        ids = random.integers(0, 60000, count).astype(np.uint16)
        sequences.append(Sequence(input_ids=ids, objectives=objectives, slots=slots))
        left -= count
    buffers = lay_out([sequences], np.zeros(len(OBJECTIVES), np.int64), form=PixelForm())
    buffers.pixels.copy_(torch.from_numpy(random.integers(0, 256, len(buffers.pixels), dtype=np.uint8)))
    return buffers.meta, buffers.pixels, buffers.sizes


def check(meta: torch.Tensor, pixels: torch.Tensor, sizes: Sizes) -> None:
    """What is timed is right."""
    batch = build(meta, pixels, sizes)
    layout = AttentionLayout.of(batch)
    mask = layout.dense()

    def allowed(_batch: torch.Tensor, _head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return mask[query, key]

    wanted = create_block_mask(allowed, None, None, len(mask), len(mask), device=str(meta.device))
    if not torch.equal(wanted.to_dense(), layout.block_mask.to_dense()):
        raise SystemExit("the blocks are not those of create_block_mask")
    first = sizes.images[0]
    image = pixels[first.offset : first.offset + first.size].view(first.height, first.width, 3).cpu().numpy()
    mean, std = (np.array(part) for part in NORMALISATIONS["imagenet"])
    exact = ((image[:16, :16] / 255 - mean) / std).astype(np.float32).transpose(2, 0, 1).flatten()
    found = cut(pixels, sizes.images, {"square": (16, 16)})["square"].values[0].cpu().numpy()
    if not np.array_equal(found, exact):
        raise SystemExit("the patches have not the bits of the formula")


def padded_form(pixels: torch.Tensor, sizes: Sizes) -> list[torch.Tensor]:
    """float32 images and the patches of the four kinds by unfold."""
    first = sizes.images[0]
    stride = sizes.images[1].offset if len(sizes.images) > 1 else len(pixels)
    rows = pixels.view(-1, stride)[:, : first.size].view(-1, first.height, first.width, 3)
    images = rows.permute(0, 3, 1, 2).float() / 255
    mean, std = (torch.tensor(part, device=pixels.device).view(3, 1, 1) for part in NORMALISATIONS["imagenet"])
    images = (images - mean) / std
    found = [images]
    for height, width in BASE.values():
        over = (0, -first.width % width, 0, -first.height % height)
        whole = torch.nn.functional.pad(images, over)
        found.append(torch.nn.functional.unfold(whole, (height, width), stride=(height, width)).transpose(1, 2))
    return found


def timed(work: dict[str, Callable[[], Any]], rounds: int, device: torch.device) -> dict[str, float]:
    """Median seconds of each, interleaved, after one round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for number in range(rounds + 1):
        for name, run in work.items():
            begin = time.perf_counter()
            run()
            if device.type == "cuda":
                torch.cuda.synchronize()
            if number:
                seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(some) for name, some in seconds.items()}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    device = torch.device(options.device)
    meta, pixels, sizes = made(min(options.tokens, 4096), 2, options.side)
    check(meta.to(device), pixels.to(device), sizes)
    meta, pixels, sizes = made(options.tokens, options.images, options.side)
    there = meta.to(device)
    pixels = pixels.to(device)
    batch = build(there, pixels, sizes)
    layout = AttentionLayout.of(batch)
    document = layout.bounds

    def by_element() -> object:
        low, high, length = document.low, document.high, len(document.low)

        def allowed(_batch: torch.Tensor, _head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
            return (key >= low[query]) & (key < high[query])

        return create_block_mask(allowed, None, None, length, length, device=str(device))

    values = cut(pixels, sizes.images, BASE)
    copied = torch.cat([kind.values.flatten() for kind in values.values()])
    seconds = timed(
        {
            "build": lambda: build(there, pixels, sizes),
            "blocks": lambda: layout.bounds.block_mask(),
            "blocks element by element": by_element,
            "patches": lambda: cut(pixels, sizes.images, BASE),
            "copy of the patches": lambda: copied.clone(),
            "padded form": lambda: padded_form(pixels, sizes),
        },
        options.rounds,
        device,
    )
    written = copied.nbytes
    return {
        "tokens": options.tokens,
        "images": len(sizes.images),
        "side": options.side,
        "bytes": reference_bytes(),
        "milliseconds": {name: round(1000 * value, 3) for name, value in seconds.items()},
        "patches_gb_per_second": round(written / seconds["patches"] / 1e9, 2),
        "patches_over_copy": round(seconds["copy of the patches"] / seconds["patches"], 3),
        "patches_over_padded_form": round(seconds["padded form"] / seconds["patches"], 2),
        "blocks_over_element_by_element": round(seconds["blocks element by element"] / seconds["blocks"], 1),
        "jpegs": device_jpegs.measure(options.images, options.side, options.rounds, device, timed),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="only what is checked before anything is timed")
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args()
    if options.check:
        device = torch.device(options.device)
        meta, pixels, sizes = made(min(options.tokens, 4096), 2, options.side)
        check(meta.to(device), pixels.to(device), sizes)
        print(f"blocks and patches are right on {device}; reference batch {reference_bytes()}")
        print(device_jpegs.check(device))
        return
    facts = about("torch", device=torch.cuda.get_device_name() if options.device == "cuda" else None)
    found = measure(options)
    bytes_ = found["bytes"]
    lines = [
        f"reference batch: {bytes_['ours']:,} bytes, padded {bytes_['padded']:,}: {bytes_['fewer']} times fewer",
        f"{found['tokens']} tokens, {found['images']} images of {found['side']} x {found['side']}, milliseconds:",
        *(f"  {name:28} {value:>10.3f}" for name, value in found["milliseconds"].items()),
        f"patches {found['patches_gb_per_second']} GB/s written, {found['patches_over_copy']} of a copy",
        f"patches {found['patches_over_padded_form']} times the padded form",
        f"blocks {found['blocks_over_element_by_element']} times as fast as element by element",
        *device_jpegs.lines(found["jpegs"]),
    ]
    publish(facts, found, lines, as_json=options.as_json)


if __name__ == "__main__":
    sys.exit(main())
