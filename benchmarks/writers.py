"""What bench_ingest.py compares ingest with, each a process of its own; writers that clash with our libraries run elsewhere.

    PYTHON benchmarks/writers.py NAME --listing FILE --work DIR --workers N

NAME is `bare`, `webdataset` or `mds`; `-facts` behind a writer puts the digests of the bare loop into its labels. The
listing is JSON: [file, offset, size] of each picture. Prints {"pictures": how many decoded}. Beside the writer itself only
Pillow and xxhash are needed, so that an interpreter with other versions of everything else can run it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import io
import json
import sys
import types
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import xxhash
from PIL import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".tif")
SHARD_BYTES = 256_000_000

Picture = tuple[str, int, int]
"""File, offset and size in bytes of one encoded picture."""

Facts = Callable[[bytes], "dict[str, str] | None"]


def read(picture: Picture) -> bytes:
    path, offset, size = picture
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(size)


def decoded(data: bytes) -> Image.Image | None:
    """Canonical enough: what most pictures need to be RGB. None for the broken ones of the corpus."""
    try:
        return Image.open(io.BytesIO(data)).convert("RGB")
    except (OSError, SyntaxError, ValueError):
        return None


def facts_of(data: bytes) -> dict[str, str] | None:
    """What the bare loop finds out about a picture; None for a broken one."""
    asset, stored = hashlib.sha256(data).hexdigest(), xxhash.xxh3_128_hexdigest(data)
    image = decoded(data)
    if image is None:
        return None
    pixels = xxhash.xxh3_128_hexdigest(image.tobytes())
    grey = image.convert("L").resize((32, 32), Image.Resampling.BILINEAR)
    return {"asset": asset, "stored": stored, "pixels": pixels, "grey": xxhash.xxh3_128_hexdigest(grey.tobytes())}


def checked(data: bytes) -> dict[str, str] | None:
    """Nothing but the full decode."""
    return None if decoded(data) is None else {}


def bare(pictures: list[Picture], _out: Path, facts: Facts) -> int:
    return sum(facts(read(picture)) is not None for picture in pictures)


def webdataset(pictures: list[Picture], out: Path, facts: Facts) -> int:
    from webdataset import ShardWriter

    number = 0
    out.mkdir(parents=True)
    with ShardWriter(str(out / "%05d.tar"), maxsize=SHARD_BYTES, verbose=0) as writer:
        for place, picture in enumerate(pictures):
            data = read(picture)
            found = facts(data)
            if found is None:
                continue
            name = Path(picture[0]).suffix.removeprefix(".")
            suffix = name if f".{name}" in SUFFIXES else "jpg"
            label = {"origin": picture[0], "place": place, **found}
            writer.write({"__key__": f"{place:08d}", suffix: data, "json": label})
            number += 1
    return number


def mds(pictures: list[Picture], out: Path, facts: Facts) -> int:
    # The front door of the package also loads torchvision and transformers, of which the writer uses nothing: going
    # past it spares the writer seconds of start.
    for name in ("streaming", "streaming.base"):
        found = importlib.util.find_spec(name)
        assert found is not None, "the package mosaicml-streaming is absent"
        door = types.ModuleType(name)
        door.__path__ = list(found.submodule_search_locations or ())
        sys.modules[name] = door
    writer_class = importlib.import_module("streaming.base.format.mds.writer").MDSWriter

    number = 0
    columns = {"image": "bytes", "label": "json"}
    with writer_class(out=str(out), columns=columns, size_limit=SHARD_BYTES, hashes=["sha256"]) as writer:
        for place, picture in enumerate(pictures):
            data = read(picture)
            facts_found = facts(data)
            if facts_found is None:
                continue
            writer.write({"image": data, "label": {"origin": picture[0], "place": place, **facts_found}})
            number += 1
    return number


WRITERS = {"bare": bare, "webdataset": webdataset, "mds": mds}


def contend(name: str, listing: Path, out: Path, workers: int) -> int:
    """The pictures that one contender decodes, its share of them in each worker."""
    pictures = [tuple(entry) for entry in json.loads(listing.read_bytes())]
    parts = [pictures[index::workers] for index in range(workers)]
    writer, _, with_facts = name.partition("-")
    call, facts = WRITERS[writer], facts_of if with_facts or writer == "bare" else checked
    if workers == 1:
        return call(parts[0], out / "0", facts)
    with ProcessPoolExecutor(workers) as pool:
        outs = [out / str(index) for index in range(workers)]
        return sum(pool.map(call, parts, outs, [facts] * workers))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("--listing", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    print(json.dumps({"pictures": contend(options.name, options.listing, options.work, options.workers)}))


if __name__ == "__main__":
    main()
