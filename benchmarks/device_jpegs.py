"""JPEGs that are decoded where their batch is built, for bench_device.py: bytes over the bus, seconds, nearness to Pillow.

The pictures are those of tests/data/captions, enlarged to 1280 x 960 and stored as JPEG at quality 85, half of them
progressive.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from shardkit.errors import ConfigError
from shardkit.loader import jpegs
from shardkit.loader.batch import BatchInfo, HostBatch, PixelForm, lay_out
from shardkit.loader.pictures import Pictures
from shardkit.media.decode import decode_rgb
from shardkit.media.processors import Square
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.plan import Cursor, Draw
from shardkit.sequence.sequence import Sequence, Slot

PICTURES = Path(__file__).resolve().parents[1] / "tests" / "data" / "captions" / "pictures"
LEAST_PSNR = 35
"""Decibel beside Pillow, of every picture."""


Timed = Callable[[dict[str, Callable[[], Any]], int, torch.device], dict[str, float]]
"""Median seconds of each of some works, over rounds, on a device."""


def check(device: torch.device) -> str:
    """That pictures come out right, in words.

    Raises:
        SystemExit: where one does not.
    """
    try:
        jpegs.decoder_of(device)
    except ConfigError as error:
        return f"JPEGs are not decoded on {device}: {error}"
    files = stored(6)
    host = encoded(files, 224, device)
    return (
        f"JPEGs decoded on {device} by {host.encoded.decoder}: PSNR {least_psnr(files, host, 224, device)} dB and more"
    )


def measure(number: int, side: int, rounds: int, device: torch.device, timed: Timed) -> dict[str, Any]:
    """Of `number` pictures, shown as `side` x `side`."""
    try:
        jpegs.decoder_of(device)
    except ConfigError as error:
        return {"missing": str(error)}
    files = stored(number)
    host = encoded(files, side, device)
    psnr = least_psnr(files, host, side, device)
    seconds = timed(works(files, host, side, device), rounds, device)
    return {
        "pictures": number,
        "decoder": host.encoded.decoder,
        "least_psnr": psnr,
        "bytes": len(host.pixels),
        "bytes_as_pixels": number * side * side * 3,
        "milliseconds": {name: round(1000 * value, 3) for name, value in seconds.items()},
        "pictures_per_second": round(number / seconds[f"JPEGs decoded on {device.type}"]),
    }


def lines(found: dict[str, Any]) -> list[str]:
    """What `measure` found, for people."""
    if "missing" in found:
        return [f"no JPEGs: {found['missing']}"]
    return [
        f"{found['pictures']} JPEGs of 1280 x 960 by {found['decoder']}",
        f"{found['bytes']:,} bytes cross the bus, {found['bytes_as_pixels']:,} as pixels",
        f"PSNR {found['least_psnr']} dB and more beside Pillow; milliseconds:",
        *(f"  {name:36} {value:>10.3f}" for name, value in found["milliseconds"].items()),
        f"{found['pictures_per_second']} pictures a second",
    ]


def stored(number: int) -> list[bytes]:
    files = sorted(PICTURES.iterdir())
    found = []
    for at in range(number):
        picture = decode_rgb(files[at % len(files)].read_bytes()).resize((1280, 960), Image.Resampling.BICUBIC)
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=85, progressive=at % 2 == 1)
        found.append(file.getvalue())
    return found


def encoded(files: list[bytes], side: int, device: torch.device) -> HostBatch:
    """A batch that shows each picture as `side` x `side`, and carries its file."""
    processor = Square(image_size=side)
    count = processor.fixed_slots
    slots = tuple(
        Slot(start=at * count, count=count, image=at, height=side, width=side, used_height=side, used_width=side)
        for at in range(len(files))
    )
    ids = np.zeros(len(files) * count, np.uint16)
    sequence = Sequence(input_ids=ids, objectives=bytes(len(ids)), slots=slots)
    buffers = lay_out([[sequence]], np.zeros(len(OBJECTIVES), np.int64), form=PixelForm())
    put = Pictures(processor, "device").put
    left = [put(data, place, (side, side), None) for data, place in zip(files, buffers.places, strict=True)]
    host = HostBatch(meta=buffers.meta, pixels=buffers.pixels, info=_INFO)
    decoder = jpegs.identity("device", device)
    return jpegs.encode(host, buffers.places, left, [""] * len(files), on_bad="raise", decoder=decoder)


def least_psnr(files: list[bytes], host: HostBatch, side: int, device: torch.device) -> float:
    """Of a batch as it is decoded on a device, beside Pillow.

    Raises:
        SystemExit: where a picture is too far from it.
    """
    pixels = jpegs.decoded(host, device).pixels.cpu().numpy().reshape(len(files), -1)[:, : side * side * 3]
    processor, found = Square(image_size=side), []
    for data, shown in zip(files, pixels, strict=True):
        wanted = processor.pixels(decode_rgb(data)).reshape(-1).astype(np.float64)
        found.append(10 * np.log10(255**2 / max(((shown - wanted) ** 2).mean(), 1e-9)))
    if min(found) < LEAST_PSNR:
        raise SystemExit(f"a picture that the device decodes has a PSNR of {min(found):.1f} dB beside Pillow's")
    return round(min(found), 1)


def works(files: list[bytes], host: HostBatch, side: int, device: torch.device) -> dict[str, Callable[[], Any]]:
    """What is timed: the same pictures decoded on the device, and on the host with their pixels copied."""
    processor = Square(image_size=side)
    pixels = np.zeros((len(files), side, side, 3), np.uint8)

    def on_host(decoder: str) -> None:
        put = Pictures(processor, decoder).put
        for data, place in zip(files, pixels, strict=True):
            put(data, place, (side, side), None)
        torch.from_numpy(pixels).to(device)

    return {
        f"JPEGs decoded on {device.type}": lambda: jpegs.decoded(host, device),
        "JPEGs decoded by pillow on one core": lambda: on_host("pillow"),
        "JPEGs decoded by turbo on one core": lambda: on_host("turbo"),
    }


_NOWHERE = Draw(passes=(0,), offsets=(0,), amounts=(0,))
_INFO = BatchInfo(
    batch_id="0/0/0/0of1",
    epoch=0,
    step=0,
    example_ids=("made",),
    sources=("made",),
    rows=((0, 0),),
    quarantined=(),
    after=Cursor(epoch=0, step=1, block=0, pack=1, draw=_NOWHERE, origin=_NOWHERE),
)
