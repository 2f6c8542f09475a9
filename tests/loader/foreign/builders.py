"""Samples, tars of them, and loaders of foreign sources."""

import io
import tarfile

import numpy as np
from PIL import Image

from shardkit.loader import unpack
from shardkit.loader.foreign import ForeignLoader
from tests.loader.conftest import TOKENIZER

SETTINGS = {"image_size": 56}


def picture(number, kind):
    chance = np.random.default_rng(number)
    size = chance.integers(30, 90, 2)
    small = Image.fromarray(chance.integers(0, 256, (4, 5, 3), np.uint8)).resize(tuple(map(int, size)))
    out = io.BytesIO()
    small.save(out, kind)
    return out.getvalue()


def make(source, **more):
    options = {"tokenizer": TOKENIZER, "settings": SETTINGS, "max_tokens": 128, "global_batch": 2, "tail": "pad"}
    return ForeignLoader(source, **{**options, **more})


def delivered(loader):
    """text ids and pixels of each sequence, as a sorted list."""
    return sorted(
        (one.sequence.input_ids.tolist(), [pixels.tobytes() for pixels in one.pixels])
        for batch in loader
        for pack in unpack(batch)
        for one in pack
    )


def write_tar(path, members):
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            if isinstance(data, bytes):
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
            else:
                member.type, member.linkname = tarfile.SYMTYPE, str(data)
                tar.addfile(member)
    return path
