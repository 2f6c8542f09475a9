"""Writes the MDS sets beside it with mosaicml-streaming's own writer; run by the interpreter of `make bench-peers`.

    .venv-peers/bin/python tests/data/prepared/make_mds.py

The pictures are made here, the values say what must be read. The shards are committed, so that tests need no peer.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import io
import json
import shutil
import sys
import types
from decimal import Decimal
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent


@functools.cache
def writer_class() -> type:
    """Its module alone: the front door of the package also loads what no writer needs."""
    found = importlib.util.find_spec("streaming")
    assert found is not None
    assert found.submodule_search_locations
    for name, folder in (("streaming", ""), ("streaming.base", "base"), ("streaming.base.format", "base/format")):
        door = types.ModuleType(name)
        door.__path__ = [str(Path(found.submodule_search_locations[0], folder))]  # type: ignore[attr-defined]
        sys.modules[name] = door
    return importlib.import_module("streaming.base.format.mds.writer").MDSWriter


def picture(number: int, kind: str = "PNG", mode: str = "RGB") -> bytes:
    image = Image.new(mode, (6 + number % 5, 7))
    band = [(number * 31 + k) % 256 for k in range(image.width * image.height)]
    image.putdata([(v, number % 256, 255 - v) for v in band] if mode == "RGB" else band)
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def raw(number: int, mode: str) -> Image.Image:
    return Image.open(io.BytesIO(picture(number, mode=mode)))


CAPTIONS = {"image": "png", "caption": "str", "score": "float32", "width": "int"}
VALUES = {
    "a_bytes": "bytes", "b_json": "json", "c_uint8": "uint8", "d_int16": "int16", "e_float64": "float64",
    "f_str_int": "str_int", "g_str_float": "str_float", "h_str_decimal": "str_decimal", "i_array": "ndarray",
    "j_array": "ndarray:int16", "k_array": "ndarray:float32:2,2", "l_jpeg": "jpeg", "m_pngs": "list[png]",
    "n_jpegs": "jpegarray", "o_grey": "pil", "p_colours": "list[pil]", "text": "str",
}  # fmt: skip


def captions(start: int, count: int) -> list[dict]:
    return [
        {"image": picture(k), "caption": f"picture {k} \u4e2d", "score": np.float32(k / 4), "width": k}
        for k in range(start, start + count)
    ]


def values(number: int) -> dict:
    return {
        "a_bytes": bytes([0, 255, number]), "b_json": {"k": [number, None, "\u00e9"]}, "c_uint8": np.uint8(200 + number),
        "d_int16": np.int16(-number), "e_float64": np.float64(number / 3), "f_str_int": 10**30 + number,
        "g_str_float": number + 0.5, "h_str_decimal": Decimal("1.10"), "i_array": np.arange(6, dtype=np.uint16).reshape(2, 3),
        "j_array": np.array([[number, -1]], np.int16), "k_array": np.ones((2, 2), np.float32) * number,
        "l_jpeg": picture(number, "JPEG"), "m_pngs": [Image.open(io.BytesIO(picture(number + k))) for k in range(2)],
        "n_jpegs": [picture(number + k, "JPEG") for k in range(3)], "o_grey": raw(number, "L"),
        "p_colours": [raw(number, "RGB"), raw(number + 1, "L")], "text": f"row {number}",
    }  # fmt: skip


def write(name: str, columns: dict[str, str], rows: list[dict], **options: object) -> None:
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    with writer_class()(out=str(folder), columns=columns, **options) as out:
        for row in rows:
            out.write(row)


if __name__ == "__main__":
    write("mds/train", CAPTIONS, captions(0, 9), size_limit=1200, hashes=["sha1", "xxh64"])
    write("mds/test", CAPTIONS, captions(100, 3))
    for kind in ("zstd", "gz", "bz2", "br", "snappy"):
        write(f"mds-{kind}", CAPTIONS, captions(20, 4), compression=kind, hashes=["md5"])
    write("mds-values", VALUES, [values(k) for k in range(3)])
    write(
        "mds-pickled",
        {"image": "png", "caption": "str", "extra": "pkl"},
        [{"image": picture(1), "caption": "c", "extra": {"k": 1}}],
    )
    (HERE / "captions.json").write_text(
        json.dumps(
            [{"caption": r["caption"], "image": r["image"].hex(), "score": float(r["score"])} for r in captions(0, 9)]
        )
        + "\n"
    )
