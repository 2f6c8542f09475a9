"""Pictures that cross the bus as they are stored and are decoded where their batch is built.

    host batch   pixels: a plain JPEG as its bytes, any other picture as its processed pixels
    decoded      bytes -> device's decoder -> view -> resized -> canvas; from there on it is a batch like any other

    device   decoder      of                            extra
    cpu      simplejpeg   libjpeg-turbo                 turbo
    cuda     torchcodec   nvJPEG, which has engines     device
                          of its own for baseline ones

Geometry, views and canvases are those of `shardkit.loader.pictures`; pixels differ by a hair, so states bind the decoder and
its versions. What a device's decoder refuses goes to Pillow, on the host, which has the last word.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from shardkit.errors import ConfigError
from shardkit.loader import pictures
from shardkit.loader.batch import ALIGN, IMAGE_WORDS, HostBatch, ImagePlace, Sizes
from shardkit.loader.pictures import Jpeg, Pictures, Pixels
from shardkit.loader.quarantine import mask, unreadable, with_entry
from shardkit.media import turbo
from shardkit.media.processors.augment import view_of
from shardkit.media.reasons import BadMedia

VERSION = "device-rgb/1"
"""Name and version of what is done here; pixels that come out otherwise are a new version."""
_AT_ONCE = 64_000_000
"""Pixels that are decoded at a time, at their full size: 192 MB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """What the pixels of a host batch hold, image after image."""

    ranges: tuple[slice, ...]
    """Bytes of each."""
    jpegs: tuple[Jpeg | None, ...]
    """None: its processed pixels lie there. The bytes of the others are in the batch, and no more here."""
    wheres: tuple[str, ...]
    """Example of each, for messages."""
    on_bad: str
    decoder: str
    """Identity of the decoder that the loader's states bind."""


class DeviceDecoder(Protocol):
    """Decodes JPEGs at their full size, on one device."""

    identity: str
    """Library, versions and whatever else decides a pixel."""

    def decode(self, jpegs: Sequence[Tensor]) -> list[Tensor | None]:
        """[3, H, W] uint8 on the device for each; None for what it refuses.

        Args:
            jpegs: uint8 bytes of each in the memory of the host, grey or YCbCr, upright, without a colour profile.
        """


def encode(
    host: HostBatch,
    places: Sequence[Pixels],
    jpegs: Sequence[Jpeg | None],
    wheres: Sequence[str],
    *,
    on_bad: str,
    decoder: str,
) -> HostBatch:
    """The batch with the bytes of its JPEGs in the place of their pixels.

    Args:
        places: [H, W, 3] of each image; those of JPEGs are not looked at.
        jpegs: what is left to the device of each image, at least one.
        wheres: example of each, for messages.
    """
    contents = [
        place.reshape(-1) if jpeg is None else np.frombuffer(jpeg.data, np.uint8)
        for place, jpeg in zip(places, jpegs, strict=True)
    ]
    ends = np.cumsum([-(-len(content) // ALIGN) * ALIGN for content in contents]).tolist()
    ranges = [slice(start, start + len(content)) for start, content in zip([0, *ends], contents, strict=False)]
    pixels = np.zeros(ends[-1], np.uint8)
    for place, content in zip(ranges, contents, strict=True):
        pixels[place] = content
    encoded = Encoded(
        ranges=tuple(ranges),
        jpegs=tuple(jpeg and replace(jpeg, data=b"") for jpeg in jpegs),
        wheres=tuple(wheres),
        on_bad=on_bad,
        decoder=decoder,
    )
    return replace(host, pixels=torch.from_numpy(pixels), encoded=encoded)


def decoded(host: HostBatch, device: torch.device | str) -> HostBatch:
    """The batch with its pixels on `device`; itself where nothing in it is encoded.

    Call it on the stream that the copies of the batch are made on: a decoder may wait for it.

    Raises:
        ConfigError: where another decoder works on this device than the one that states bind.
        SourceError: where a picture cannot be decoded, and is not to be masked.
    """
    encoded = host.encoded
    if encoded is None:
        return host
    device = torch.device(device)
    decoder = decoder_of(device)
    if decoder.identity != encoded.decoder:
        raise ConfigError(
            f"the batch is to be decoded by {encoded.decoder}, which its loader's states bind; "
            f"on {device} {decoder.identity} would do it",
            hint=f'iterate a loader of device="{device}" itself: it decodes nothing on the host and needs no workers',
        )
    sizes = Sizes.of(host.meta)
    table = host.meta[sizes.parts()["images"]].view(-1, IMAGE_WORDS).tolist()
    owners, indices = [row[6] for row in table], [row[7] for row in table]
    last = sizes.images[-1]
    pixels = torch.zeros(last.offset + -(-last.size // ALIGN) * ALIGN, dtype=torch.uint8, device=device)
    meta, info = host.meta, host.info
    for images in _runs(encoded.jpegs):
        stored = [host.pixels[encoded.ranges[image]] for image in images]
        jpegs = [encoded.jpegs[image] for image in images]
        found = iter(decoder.decode([part for part, jpeg in zip(stored, jpegs, strict=True) if jpeg]))
        for image, part, jpeg in zip(images, stored, jpegs, strict=True):
            place = sizes.images[image]
            canvas = pixels[place.offset : place.offset + place.size].view(place.height, place.width, 3)
            if jpeg is None:
                canvas.view(-1).copy_(part, non_blocking=True)
                continue
            picture = next(found)
            if picture is not None and tuple(picture.shape[1:]) == (jpeg.height, jpeg.width):
                _fill(canvas, picture, jpeg)
                continue
            try:
                canvas.copy_(_by_pillow(part, jpeg, place))
            except BadMedia as error:
                if encoded.on_bad == "raise":
                    raise unreadable(indices[image], encoded.wheres[image], error) from error
                meta = mask(meta, sizes, owners[image])
                info = with_entry(info, owners[image], indices[image], error)
    return replace(host, meta=meta, pixels=pixels, info=info, encoded=None)


def _runs(jpegs: Sequence[Jpeg | None]) -> Iterator[list[int]]:
    """Images side by side that are decoded at a time."""
    run: list[int] = []
    room = _AT_ONCE
    for image, jpeg in enumerate(jpegs):
        need = jpeg.height * jpeg.width if jpeg else 0
        if run and need > room:
            yield run
            run, room = [], _AT_ONCE
        run.append(image)
        room -= need
    yield run


def _fill(canvas: Tensor, picture: Tensor, jpeg: Jpeg) -> None:
    """Lay a view of [3, H, W] on a canvas, resized."""
    processor = jpeg.processor
    height, width = processor.geometry(jpeg.height, jpeg.width).shown
    view = None if jpeg.chance is None else view_of(processor, jpeg.height, jpeg.width, jpeg.chance)
    if view is not None:
        picture = picture[:, view.top : view.top + view.height, view.left : view.left + view.width]
        picture = picture.flip(2) if view.mirrored else picture
    if picture.shape[1:] != (height, width):
        picture = _resized(picture, height, width, processor.resampling)
    canvas[height:] = canvas[:, width:] = getattr(processor, "pad_value", 0)
    canvas[:height, :width] = picture.permute(1, 2, 0)


def _resized(picture: Tensor, height: int, width: int, resampling: str) -> Tensor:
    """uint8 [3, height, width] of [3, H, W]."""
    if width == 1 < height:
        # A line that stands comes out wrong of torch's filter on a CPU (2.13: each row is the first), one that lies right.
        return _resized(picture.transpose(1, 2), width, height, resampling).transpose(1, 2)
    # In float32, because no other form of this filter exists on CUDA; what overshoots is cut off, as Pillow does.
    resized = interpolate(picture[None].float(), (height, width), mode=resampling, antialias=True)
    return resized[0].round().clamp(0, 255).to(torch.uint8)


def _by_pillow(stored: Tensor, jpeg: Jpeg, place: ImagePlace) -> Tensor:
    """[H, W, 3] on the host."""
    out = np.zeros((place.height, place.width, 3), np.uint8)
    shown = jpeg.processor.geometry(jpeg.height, jpeg.width).shown
    Pictures(jpeg.processor, "pillow").put(stored.numpy().tobytes(), out, shown, jpeg.chance)
    return torch.from_numpy(out)


def identity(decoder: str, device: torch.device) -> str:
    """What makes the pixels, as states bind it.

    Raises:
        ConfigError: where it is not installed.
    """
    return decoder_of(device).identity if decoder == "device" else pictures.identity(decoder)


# ------------------------------------------------------------------ decoders
class _Simplejpeg:
    def __init__(self, _device: torch.device) -> None:
        if not turbo.installed():
            raise ConfigError(
                "the decoder device needs simplejpeg on a CPU",
                hint="pip install 'shardkit[turbo]', or leave decoder at pillow",
            )
        capability = torch.backends.cpu.get_cpu_capability()
        self.identity = f"{VERSION} (simplejpeg {turbo.version()}, torch {torch.__version__}, {capability})"

    def decode(self, jpegs: Sequence[Tensor]) -> list[Tensor | None]:
        return [self._one(jpeg.numpy().data) for jpeg in jpegs]

    def _one(self, data: memoryview) -> Tensor | None:
        size = turbo.plain_size(data)
        pixels = None if size is None else turbo.decode_plain(data, size, turbo.Scratch())
        return None if pixels is None else torch.from_numpy(pixels).permute(2, 0, 1)


class _Torchcodec:
    def __init__(self, device: torch.device) -> None:
        hint = "pip install 'shardkit[device]', or take decoder turbo"
        if not torch.cuda.is_available():
            raise ConfigError(f"the decoder device is asked for on {device}, and there is no CUDA", hint=hint)
        try:
            from torchcodec.decoders import decode_jpeg
        except (ImportError, OSError, RuntimeError) as error:
            raise ConfigError(f"the decoder device needs torchcodec on CUDA ({error})", hint=hint) from error
        self._device = device
        self._decode: Callable[..., list[Tensor]] = decode_jpeg
        # Which of its ways nvJPEG takes depends on the GPU.
        versions = f"torchcodec {metadata.version('torchcodec')}, torch {torch.__version__}, CUDA {torch.version.cuda}"
        self.identity = f"{VERSION} ({versions}, {torch.cuda.get_device_name(device)})"

    def decode(self, jpegs: Sequence[Tensor]) -> list[Tensor | None]:
        if not jpegs:
            return []
        try:
            return [*self._decode(list(jpegs), device=self._numbered())]
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            # It gives no part of a batch in which it refuses one.
            return [None] if len(jpegs) == 1 else [self.decode([jpeg])[0] for jpeg in jpegs]

    def _numbered(self) -> torch.device:
        """The device with its number; without one it is the current device."""
        return self._device if ":" in str(self._device) else torch.device("cuda", torch.cuda.current_device())


DEVICE_DECODERS: dict[str, Callable[[torch.device], DeviceDecoder]] = {"cpu": _Simplejpeg, "cuda": _Torchcodec}
"""Kind of device -> what decodes there."""


@functools.cache
def decoder_of(device: torch.device) -> DeviceDecoder:
    """The decoder of a device.

    Raises:
        ConfigError: where there is none, or it is not installed.
    """
    kind = DEVICE_DECODERS.get(device.type)
    if kind is None:
        raise ConfigError(
            f"nothing decodes JPEGs on {device}; there are {', '.join(DEVICE_DECODERS)}",
            hint="take decoder pillow or turbo, which decode on the host",
        )
    return kind(device)
