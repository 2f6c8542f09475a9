"""What `bench_loader.py` gives every loader: samples, what is made of one, packs of them, and the clock.

Both environments import this file, so it asks for little: numpy, Pillow, torch, simplejpeg, tokenizers.

A sample is a key, a text and some encoded pictures. The text is a JSON list of its segments in order: a string, or the
number of a picture. SAMPLES/data.bin holds texts and pictures end to end, index.npz where each begins, keys.json the keys.
"""

from __future__ import annotations

import io
import json
import mmap
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

BATCH = 16
"""Samples that are handed over together."""
PACK = 4096
"""Tokens"""
BINS = 8
"""Open packs of the peers' packer."""
MEAN, SPREAD = 0.5, 0.5
KEPT = 3
"""Pixels that a picture is decoded to, on each side, for each one that is shown; what the loader keeps."""
Sample = tuple[str, str, list[bytes]]
"""Key, text, pictures."""


# ---------------------------------------------------------------------- samples
class Samples:
    """The samples of a folder, memory-mapped: also the floor of reading."""

    def __init__(self, folder: Path) -> None:
        self.keys: list[str] = json.loads((folder / "keys.json").read_bytes())
        index = np.load(folder / "index.npz")
        self._first, self._starts = index["first"].tolist(), index["starts"].tolist()
        with (folder / "data.bin").open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> Sample:
        first, stop, starts = self._first[index], self._first[index + 1], self._starts
        text = self._map[starts[first] : starts[first + 1]].decode()
        return self.keys[index], text, [self._map[starts[at] : starts[at + 1]] for at in range(first + 1, stop)]


def write_samples(folder: Path, samples: Iterable[Sample]) -> None:
    folder.mkdir(parents=True)
    keys, first, starts = [], [0], [0]
    with (folder / "data.bin").open("wb") as file:
        for key, text, images in samples:
            keys.append(key)
            for part in (text.encode(), *images):
                file.write(part)
                starts.append(starts[-1] + len(part))
            first.append(first[-1] + 1 + len(images))
    (folder / "keys.json").write_text(json.dumps(keys))
    np.savez(folder / "index.npz", first=np.array(first), starts=np.array(starts))


def suffix(data: bytes) -> str:
    return "png" if data[:4] == b"\x89PNG" else "webp" if data[:4] == b"RIFF" else "jpg"


# ---------------------------------------------------------------------- what is made of a sample
def pillow_rgb(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def turbo_rgb(data: bytes, side: int, buffer: np.ndarray | None = None) -> np.ndarray:
    """As the loader decodes with "turbo": by simplejpeg, at the smallest scale that leaves `KEPT` pixels on each side for
    each one that is shown; what is no JPEG by Pillow."""
    import simplejpeg

    if data[:2] != b"\xff\xd8":
        return pillow_rgb(data)
    height, width, _, _ = simplejpeg.decode_jpeg_header(data)
    scale = max(scale for scale in (1, 2, 4, 8) if scale == 1 or min(height, width) >= KEPT * side * scale)
    sizes = (
        {"min_height": -(-height // scale), "min_width": -(-width // scale), "min_factor": scale} if scale > 1 else {}
    )
    return simplejpeg.decode_jpeg(data, "RGB", fastdct=False, fastupsample=False, buffer=buffer, **sizes)


def square_pillow(data: bytes, side: int) -> np.ndarray:
    """[side, side, 3] as recipes do it: Pillow's decoder and its bilinear filter."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB").resize((side, side), Image.Resampling.BILINEAR))


def square_turbo(data: bytes, side: int) -> np.ndarray:
    """The same with the decoder and the resize of ours."""
    return resized(turbo_rgb(data, side), side)


def resized(pixels: np.ndarray, side: int) -> np.ndarray:
    """[side, side, 3] by torch's filter, from [H, W, 3]."""
    with torch.inference_mode():
        source = torch.from_numpy(pixels if pixels.flags.writeable else pixels.copy()).permute(2, 0, 1)[None]
        found = torch.nn.functional.interpolate(source, size=(side, side), mode="bilinear", antialias=True)
    return found[0].permute(1, 2, 0).numpy()


SQUARES = {"pillow": square_pillow, "turbo": square_turbo}


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """How a text becomes ids: what the recipe `vlm` does, with a tokenizer file."""

    tokenizer: str
    controls: dict[str, str]
    """bos, eos, image_start, image_patch, image_end -> control token."""
    slots: int

    def encoder(self) -> Callable[[str], list[int]]:
        from tokenizers import Tokenizer

        found = Tokenizer.from_file(self.tokenizer)
        number = {part: found.token_to_id(name) for part, name in self.controls.items() if name}

        def ids(text: str) -> list[int]:
            out, after_text = [number["bos"]], False
            for segment in json.loads(text):
                if isinstance(segment, str):
                    if after_text:
                        out += found.encode("\n", add_special_tokens=False).ids
                    out += found.encode(segment, add_special_tokens=False).ids
                else:
                    before, after = ([number[part]] if part in number else [] for part in ("image_start", "image_end"))
                    out += [*before, *[number["image_patch"]] * self.slots, *after]
                after_text = isinstance(segment, str)
            return [*out, number["eos"]]

        return ids


@dataclass(kw_only=False)
class Transform:
    """Sample -> what the consumer gets of it; goes to workers."""

    kind: str
    """raw | rgb | packed"""
    side: int = 0
    decoder: str = "pillow"
    tokens: Tokens | None = None
    _encode: Any = None

    def __call__(self, sample: Sample) -> tuple[str, Any, list[Any]]:
        key, text, images = sample
        if self.kind == "raw":
            return key, text, [bytes(image) for image in images]
        if self.kind == "rgb":
            return key, text, [pillow_rgb(image) for image in images]
        if self._encode is None:
            self._encode = self.tokens.encoder()
        return key, self._encode(text), [SQUARES[self.decoder](image, self.side) for image in images]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_encode": None}


# ---------------------------------------------------------------------- packs as the peers' users make them
def packs(samples: Iterable[tuple[str, list[int], list[np.ndarray]]]) -> Iterator[dict[str, torch.Tensor]]:
    """First fit into eight open packs; ids, labels and positions padded to int64, pixels normalised to float32."""
    bins: list[list[tuple[str, list[int], list[np.ndarray]]]] = []
    room: list[int] = []
    for sample in samples:
        size = len(sample[1])
        if size > PACK:
            continue  # what is longer than a pack is cut by ours and left out by recipes
        place = next((at for at, left in enumerate(room) if left >= size), None)
        if place is None:
            if len(bins) == BINS:
                fullest = min(range(BINS), key=room.__getitem__)
                yield collate(bins.pop(fullest))
                room.pop(fullest)
            bins.append([])
            room.append(PACK)
            place = len(bins) - 1
        bins[place].append(sample)
        room[place] -= size
    for one in bins:
        yield collate(one)


def collate(samples: list[tuple[str, list[int], list[np.ndarray]]]) -> dict[str, torch.Tensor]:
    ids = torch.zeros(1, PACK, dtype=torch.int64)
    labels = torch.full((1, PACK), -100, dtype=torch.int64)
    positions, segments = torch.zeros_like(ids), torch.full_like(ids, -1)
    start = 0
    for number, (_, tokens, _) in enumerate(samples):
        stop = start + len(tokens)
        ids[0, start:stop] = labels[0, start:stop] = torch.tensor(tokens)
        positions[0, start:stop] = torch.arange(len(tokens))
        segments[0, start:stop] = number
        start = stop
    images = [image for _, _, own in samples for image in own]
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float().div_(255).sub_(MEAN).div_(SPREAD) if images else torch.zeros(0)  # fmt: skip
    return {"input_ids": ids, "labels": labels, "position_ids": positions, "segments": segments, "pixel_values": pixels}


# ---------------------------------------------------------------------- the clock
def rate(opened: Callable[[], Iterable[Any]], count: Callable[[Any], int], seconds: float) -> dict[str, float]:
    """Of what arrives behind the first batch, in whole epochs, until so many seconds are over.

    Whole ones, because a part of an epoch has other pictures with every contender: some are five times as large as others.
    `wall` is by the clock, `cpu` by processor seconds of this process and its workers: it stays what it is while others
    use the machine. `mb` is private memory at the end.
    """
    number, wall, cpu, memory = 0, 0.0, 0.0, 0.0
    while wall < seconds:
        arriving = iter(opened())
        next(arriving)
        began, began_cpu = time.perf_counter(), cpu_seconds()
        before = number
        for batch in arriving:
            number += count(batch)
        wall += time.perf_counter() - began
        cpu += cpu_seconds() - began_cpu
        memory = max(memory, private_mb())
        del arriving
        if number == before:
            break
    return {"wall": number / wall if wall else 0.0, "cpu": number / cpu if cpu else 0.0, "mb": memory}


def cpu_seconds() -> float:
    """Of this process, its children that live and those that ended."""
    times = os.times()
    live = 0
    for pid in children(os.getpid()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        live += int(fields[11]) + int(fields[12])
    return time.process_time() + times.children_user + times.children_system + live / os.sysconf("SC_CLK_TCK")


def private_mb() -> float:
    """Of this process and its children; pages of files that are mapped do not count."""
    total = 0
    for pid in (os.getpid(), *children(os.getpid())):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        # What a process maps of a file and nobody else does is Private_Clean.
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))
    return total / 1024


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            own = [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
        found += [descendant for child in own for descendant in (child, *children(child))]
    return found


def median(values: Iterable[float]) -> float:
    return statistics.median(list(values))


# ---------------------------------------------------------------------- resuming
def compare(expected: list[str], found: list[str]) -> str:
    """exact, or what is wrong with what came after a restore."""
    if expected == found:
        return "exact"
    wanted = set(expected)
    repeated = sum(key not in wanted for key in found) + len(found) - len(set(found))
    missing = len(wanted - set(found))
    return f"{repeated} repeated, {missing} missing" if repeated or missing else "same set, other order"


SHARES = (0.1, 0.5, 0.9)
"""Of the epoch, where it is stopped."""


def resumption(
    opened: Callable[[Any], tuple[Iterator[list[str]], Callable[[], Any]]], total: int, repeats: int
) -> dict[str, Any]:
    """Stop an epoch at 10, 50 and 90%, go on with new objects, and compare what follows with what would have followed.

    Args:
        opened: state or None -> (keys of each batch, what tells the state).
        total: samples of an epoch.
    """
    seconds, exact = {}, {}
    for share in SHARES:
        batches, state_of = opened(None)
        taken = 0
        while taken < share * total:
            taken += len(next(batches))
        state = state_of()
        expected = [key for batch in batches for key in batch]
        times = []
        for repeat in range(repeats):
            began = time.perf_counter()
            batches, _ = opened(state)
            first = next(batches, [])
            times.append(time.perf_counter() - began)
            if not repeat:
                # A loader that begins a whole epoch behind the rest would never end.
                found = list(first)
                for batch in batches:
                    found += batch
                    if len(found) > 2 * total:
                        break
                exact[f"{share:.0%}"] = compare(expected, found)
            del batches
        seconds[f"{share:.0%}"] = median(times)
    return {"seconds": seconds, "exact": exact}
