"""One peer of `bench_loader.py` in a process of its own: written, compared, measured.

    python benchmarks/loader_peers.py write NAME --work DIR
    python benchmarks/loader_peers.py contents NAME --work DIR
    python benchmarks/loader_peers.py measure NAME --work DIR --seconds S [--resume N]

Runs in the environment of requirements-peers.txt and prints one JSON object. What is done is in peers/, one file a library.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import loader_samples as common
from loader_samples import Samples, Tokens, Transform
from peers import PEERS
from peers.common import RAW


def flattened(batches: Iterable[list[Any]]) -> Iterator[Any]:
    for batch in batches:
        yield from batch


def num_images(batch: dict[str, Any]) -> int:
    return len(batch["pixel_values"])


def measure(name: str, work: Path, seconds: float, repeats: int) -> dict[str, Any]:
    """Everything about one peer, in this process; the first batch first, while it is fresh."""
    peer, folder = PEERS[name], work / name
    plans = json.loads((work / "tokens.json").read_bytes())
    began = time.perf_counter()
    arriving = iter(peer.stream(folder, 0, RAW))
    next(arriving)
    found: dict[str, Any] = {"first_batch_seconds": time.perf_counter() - began}
    del arriving
    for workers in (0, 2):
        for kind in ("raw", "rgb"):
            transform = Transform(kind)
            figure = common.rate(lambda w=workers, t=transform: peer.stream(folder, w, t), len, seconds)
            found[f"{kind}_{workers}"] = figure
        for side, plan in plans.items():
            for decoder in common.SQUARES:
                transform = Transform("packed", int(side), decoder, Tokens(**plan))
                figure = common.rate(
                    lambda w=workers, t=transform: common.packs(flattened(peer.stream(folder, w, t))),
                    num_images,
                    seconds,
                )
                found[f"packed_{side}_{decoder}_{workers}"] = figure
    found["private_mb"] = min(found[f"packed_224_pillow_{workers}"]["mb"] for workers in (0, 2))
    if repeats:
        total = len(json.loads((work / "samples" / "keys.json").read_bytes()))
        found["resume"] = common.resumption(lambda state: peer.resume(folder, state), total, repeats)
    return found


def contents(name: str, work: Path) -> dict[str, Any]:
    """Key -> digests of text and pictures, as the peer delivers them."""
    from hashlib import blake2b

    arriving = flattened(PEERS[name].stream(work / name, 0, RAW))
    found = {}
    for key, text, images in arriving:
        assert key not in found, f"{name} gives {key} twice"
        digest = blake2b(text.encode(), digest_size=16)
        for image in images:
            digest.update(len(image).to_bytes(8, "little") + image)
        found[key] = digest.hexdigest()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=["write", "contents", "measure"])
    parser.add_argument("name", choices=list(PEERS))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--resume", type=int, default=0, help="times that a restore is clocked; 0 leaves it out")
    options = parser.parse_args()
    folder = options.work / options.name
    if options.command == "write":
        folder.mkdir(parents=True)
        PEERS[options.name].write(Samples(options.work / "samples"), folder)
        found: Any = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    elif options.command == "contents":
        found = contents(options.name, options.work)
    else:
        found = measure(options.name, options.work, options.seconds, options.resume)
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
