"""libtiff writes to stderr by itself; what is wrong with a file is said by us alone."""

from __future__ import annotations

import io
import sys

import pytest
from PIL import Image

from shardkit.media.decode import decode_rgb
from shardkit.media.pillow import _handle_tiff_errors, _tiff_error_handler
from shardkit.media.reasons import BadMedia


def damaged() -> bytes:
    out = io.BytesIO()
    Image.effect_noise((64, 64), 50).save(out, "TIFF", compression="tiff_lzw")
    data = bytearray(out.getvalue())
    data[8:1008] = bytes(1000)
    return bytes(data)


def test_a_damaged_tiff_is_refused_without_a_word_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadMedia):
        decode_rgb(damaged())
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(_tiff_error_handler() is None, reason="the libtiff of this Pillow cannot be reached")
def test_the_handler_of_the_process_comes_back(capfd: pytest.CaptureFixture[str]) -> None:
    before = _handle_tiff_errors(None)
    _handle_tiff_errors(before)
    with pytest.raises(BadMedia):
        decode_rgb(damaged())
    assert _handle_tiff_errors(before) == before
    with pytest.raises(OSError), Image.open(io.BytesIO(damaged())) as image:
        image.load()
    sys.stderr.flush()
    assert capfd.readouterr().err  # otherwise there was nothing to keep quiet
