"""Hugging Face's preprocessor_config.json, read as one of our processors and written from one; what transformers makes of a picture.

A `processor_config.json` beside it that holds an `image_processor` (transformers writes it so since release 5) goes first, as
transformers reads them.

    image_processor_type       processor         pixel_values of a picture
    Qwen2VLImageProcessor      pixel-budget      [patches, 3 * 2 * patch * patch], slot by slot; image_grid_thw [1, 3]
    Siglip2ImageProcessor      naflex            [1, max_patches, patch * patch * 3], filled up; mask, spatial_shapes
    MllamaImageProcessor       tiles             [1, 1, max_tiles, 3, tile, tile], filled up; aspect_ratio_ids, mask

`hf:DIR` in a recipe stands for the processor that the file describes: its settings are recorded, the folder is not, so
training, evaluation and serving say the same without one another's files. Sizes are equal to transformers' but where its
floats lose a pixel or a row (pixel_budget.py and tiles.py say where), and for pictures over 1:200, which it refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shardkit.errors import ConfigError
from shardkit.media.processors.fitted import NORMALISATIONS, RESAMPLINGS
from shardkit.media.processors.naflex import Naflex
from shardkit.media.processors.pixel_budget import PixelBudget
from shardkit.media.processors.tiles import Tiles, cut_tiles

if TYPE_CHECKING:
    import numpy.typing as npt
    from PIL import Image

    from shardkit.media.processors.geometry import Processor

FILE = "preprocessor_config.json"
WHOLE_FILE = "processor_config.json"
"""Of a model's processor of texts and images, which may hold what FILE says under `image_processor`."""
PREFIX = "hf:"
"""Before a folder, in the place of a processor's name."""

_SAME = ("Fast", "Pil")
"""Endings of the names of one rule in other code: torchvision's resampling, which differs in the last bits, and Pillow's."""
_TEMPORAL = 2
"""Qwen's patches are two pictures deep; a still is both."""

Config = Mapping[str, Any]
Arrays = dict[str, "npt.NDArray[Any]"]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kind:
    """A processor of transformers' and ours."""

    type: str
    read: Callable[[Config, dict[str, Any]], Processor]
    """From the file and the fields that all have in common."""
    write: Callable[[Any], dict[str, Any]]
    inputs: Callable[[Any, npt.NDArray[np.uint8]], Arrays]
    defaults: Config
    """What transformers takes where the file does not say."""
    more: tuple[str, ...] = ()
    """What else of the file is read."""


# ------------------------------------------------------------------ Qwen2-VL, Qwen2.5-VL
def _read_qwen(config: Config, common: dict[str, Any]) -> PixelBudget:
    size = config.get("size") or {}
    strange = set(size) - {"shortest_edge", "longest_edge", "min_pixels", "max_pixels"}
    if strange:
        raise _unlike("size", size, "shortest_edge and longest_edge, as areas in pixels,")
    least = config.get("min_pixels") or size.get("shortest_edge") or size.get("min_pixels")
    most = config.get("max_pixels") or size.get("longest_edge") or size.get("max_pixels")
    if config.get("temporal_patch_size", _TEMPORAL) != _TEMPORAL:
        raise _unlike("temporal_patch_size", config["temporal_patch_size"], _TEMPORAL)
    return PixelBudget(
        patch=config["patch_size"],
        merge=config["merge_size"],
        min_pixels=56 * 56 if least is None else least,
        max_pixels=28 * 28 * 1280 if most is None else most,
        hold_sides=False,
        **common,
    )


def _write_qwen(processor: PixelBudget) -> dict[str, Any]:
    if processor.hold_sides:
        raise _unlike("hold_sides", processor.hold_sides, False)
    return {
        "size": {"shortest_edge": processor.min_pixels, "longest_edge": processor.max_pixels},
        "patch_size": processor.patch,
        "merge_size": processor.merge,
        "temporal_patch_size": _TEMPORAL,
    }


def _qwen(processor: PixelBudget, pixels: npt.NDArray[np.uint8]) -> Arrays:
    values, p, m = _normalised(pixels, processor.normalisation), processor.patch, processor.merge
    rows, columns = pixels.shape[0] // p, pixels.shape[1] // p
    # Slot by slot, in each its patches, in each channel, picture, line, pixel.
    cells = values.reshape(rows // m, m, p, columns // m, m, p, 3).transpose(0, 3, 1, 4, 6, 2, 5)
    deep = np.repeat(cells[:, :, :, :, :, None], _TEMPORAL, axis=5)
    return {
        "pixel_values": deep.reshape(rows * columns, -1),
        "image_grid_thw": np.array([[1, rows, columns]], np.int64),
    }


# ------------------------------------------------------------------ SigLIP 2
def _read_siglip2(config: Config, common: dict[str, Any]) -> Naflex:
    return Naflex(patch=config["patch_size"], max_patches=config["max_num_patches"], **common)


def _write_siglip2(processor: Naflex) -> dict[str, Any]:
    if processor.merge != 1:
        raise _unlike("merge", processor.merge, 1)
    return {"patch_size": processor.patch, "max_num_patches": processor.max_patches}


def _siglip2(processor: Naflex, pixels: npt.NDArray[np.uint8]) -> Arrays:
    values, p = _normalised(pixels, processor.normalisation), processor.patch
    rows, columns = pixels.shape[0] // p, pixels.shape[1] // p
    patches = values.reshape(rows, p, columns, p, 3).transpose(0, 2, 1, 3, 4).reshape(rows * columns, -1)
    whole = np.zeros((1, processor.max_patches, patches.shape[1]), np.float32)
    whole[0, : len(patches)] = patches
    return {
        "pixel_values": whole,
        "pixel_attention_mask": (np.arange(processor.max_patches) < len(patches)).astype(np.int32)[None],
        "spatial_shapes": np.array([[rows, columns]], np.int64),
    }


# ------------------------------------------------------------------ Llama 3.2
def _read_mllama(config: Config, common: dict[str, Any]) -> Tiles:
    size = config["size"]
    if size.get("height") != size.get("width"):
        raise _unlike("size", size, "a square")
    if not config["do_pad"]:
        raise _unlike("do_pad", config["do_pad"], True)
    tile = size["height"]
    # The file says nothing of patches: the tower's are 14 pixels, and slots only count where tiles stand in the text.
    merge = 2 if isinstance(tile, int) and tile % 28 == 0 else 1
    return Tiles(tile=tile, max_tiles=config["max_image_tiles"], merge=merge, **common)


def _write_mllama(processor: Tiles) -> dict[str, Any]:
    for name, value, theirs in (("max_canvas", processor.max_canvas, False), ("pad_value", processor.pad_value, 0)):
        if value != theirs:
            raise _unlike(name, value, theirs)
    return {
        "size": {"height": processor.tile, "width": processor.tile},
        "max_image_tiles": processor.max_tiles,
        "do_pad": True,
    }


def _mllama(processor: Tiles, pixels: npt.NDArray[np.uint8]) -> Arrays:
    tiles = cut_tiles(pixels, processor.tile)
    rows, columns = pixels.shape[0] // processor.tile, pixels.shape[1] // processor.tile
    most = processor.max_tiles
    whole = np.zeros((1, 1, most, 3, processor.tile, processor.tile), np.float32)
    whole[0, 0, : len(tiles)] = _normalised(tiles, processor.normalisation).transpose(0, 3, 1, 2)
    grids = [(h, w) for h in range(1, most + 1) for w in range(1, most + 1) if h * w <= most]
    return {
        "pixel_values": whole,
        "aspect_ratio_ids": np.array([[grids.index((rows, columns)) + 1]], np.int64),
        "aspect_ratio_mask": (np.arange(most) < len(tiles)).astype(np.int64)[None, None],
        "num_tiles": np.array([[len(tiles)]], np.int64),
    }


_IMAGENET_STANDARD = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
_CLIP = {"image_mean": [*NORMALISATIONS["clip"][0]], "image_std": [*NORMALISATIONS["clip"][1]]}

KINDS: dict[type[Any], _Kind] = {
    PixelBudget: _Kind(
        type="Qwen2VLImageProcessor",
        read=_read_qwen,
        write=_write_qwen,
        inputs=_qwen,
        defaults={"resample": 3, "patch_size": 14, "merge_size": 2, **_CLIP},
        more=("size", "min_pixels", "max_pixels", "temporal_patch_size"),
    ),
    Naflex: _Kind(
        type="Siglip2ImageProcessor",
        read=_read_siglip2,
        write=_write_siglip2,
        inputs=_siglip2,
        defaults={"resample": 2, "patch_size": 16, "max_num_patches": 256, **_IMAGENET_STANDARD},
    ),
    Tiles: _Kind(
        type="MllamaImageProcessor",
        read=_read_mllama,
        write=_write_mllama,
        inputs=_mllama,
        defaults={
            "resample": 2,
            "size": {"height": 224, "width": 224},
            "max_image_tiles": 4,
            "do_pad": True,
            **_IMAGENET_STANDARD,
        },
    ),
}
"""Our processor -> the one of transformers that does the same."""
_TYPES = {"Qwen2_5_VLImageProcessor": "Qwen2VLImageProcessor"}
"""Other names of one rule."""
_COMMON = ("do_resize", "do_rescale", "do_normalize", "rescale_factor", "resample", "image_mean", "image_std")
"""What is read of the file of every processor."""
_NO_PIXELS = (
    *("image_processor_type", "feature_extractor_type", "processor_class", "transformers_version", "_name_or_path"),
    *("_valid_processor_keys", "do_convert_rgb", "default_to_square", "crop_size", "pad_size"),
    *("input_data_format", "data_format", "return_tensors", "device", "disable_grouping"),
)
"""What changes no pixel of an RGB picture: names, the form of what comes and goes, and sizes that a switch must ask for."""


_HINTS = {
    "SiglipImageProcessor": "it makes a square, of patches that the file does not tell: --set processor=square "
    "--set image_size=SIDE --set resampling=bicubic --set normalisation=half --set patch=N --set merge=1"
}
"""What does the same as a processor whose file does not say enough."""


def read(folder: Path) -> Processor:
    """The processor that a folder's preprocessor_config.json describes.

    Raises:
        ConfigError: where there is none, or it describes what no processor here does.
    """
    file = folder / WHOLE_FILE
    whole = _json(file) if file.exists() else None
    config = whole.get("image_processor") if isinstance(whole, dict) else None
    if config is None:
        file = folder / FILE
        config = _json(file)
    try:
        return _processor(config)
    except ConfigError as error:
        raise ConfigError(error.what, where=str(file), hint=error.hint) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"the file does not say what its processor takes ({type(error).__name__}: {error})",
            where=str(file),
            hint="restore it from the model's repository",
        ) from error


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"the file cannot be read ({error.strerror})",
            where=str(file),
            hint=f"give a folder with a {FILE}: --set processor={PREFIX}DIR",
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError("the file is no JSON", where=str(file), hint="restore it") from error


def write(processor: Processor, folder: Path) -> Path:
    """Write the preprocessor_config.json of a processor, for transformers' AutoImageProcessor.

    Raises:
        ConfigError: where transformers has no such processor.
    """
    file = folder / FILE
    file.write_bytes(_encoded(config_of(processor)))
    return file


def config_of(processor: Processor) -> dict[str, Any]:
    """What stands in the preprocessor_config.json of a processor.

    Raises:
        ConfigError: where transformers has no such processor.
    """
    kind = _kind_of(processor)
    mean, std = NORMALISATIONS[processor.normalisation]
    return {
        "image_processor_type": kind.type,
        "do_convert_rgb": True,
        "do_resize": True,
        "resample": int(RESAMPLINGS[processor.resampling]),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(mean),
        "image_std": list(std),
        **kind.write(processor),
    }


def files(processor: Processor | None) -> dict[str, bytes]:
    """Name -> bytes of the file of a processor; none where transformers has no such processor."""
    try:
        config = None if processor is None else config_of(processor)
    except ConfigError:
        return {}
    return {} if config is None else {FILE: _encoded(config)}


def model_inputs(processor: Processor, image: Image.Image) -> Arrays:
    """What transformers' processor gives a model of one picture, by name: float32 pixel values and their grids.

    The slow form, for comparisons and for serving; batches are made on the device.

    Raises:
        ConfigError: where transformers has no such processor.
    """
    return _kind_of(processor).inputs(processor, processor.pixels(image))


def _encoded(config: dict[str, Any]) -> bytes:
    return (json.dumps(config, indent=2, sort_keys=True) + "\n").encode()


def _kind_of(processor: Processor) -> _Kind:
    kind = KINDS.get(type(processor))
    if kind is None:
        known = ", ".join(kind.NAME for kind in KINDS)
        raise ConfigError(
            f"transformers has no image processor that does what {processor.NAME} does",
            hint=f"choose one of {known} with --set processor=NAME",
        )
    return kind


def _processor(config: Any) -> Processor:
    named = str(config.get("image_processor_type") or config.get("feature_extractor_type") or "none")
    name = named
    for ending in _SAME:
        name = name.removesuffix(ending)
    name = _TYPES.get(name, name)
    for kind in KINDS.values():
        if kind.type == name:
            # A null in the file stands for the default, as with transformers.
            whole = {**kind.defaults, **{key: value for key, value in config.items() if value is not None}}
            _check_known(whole, kind)
            return kind.read(whole, _common(whole))
    raise ConfigError(
        f"its image_processor_type is {named}; there are {', '.join(kind.type for kind in KINDS.values())}",
        hint=_HINTS.get(name, "choose a processor by its name, with its settings: --set processor=NAME"),
    )


def _check_known(config: Config, kind: _Kind) -> None:
    """Refuse what is asked for and not known here, by name: it may change pixels. What is off or null asks for nothing."""
    known = {*_COMMON, *_NO_PIXELS, *kind.defaults, *kind.more}
    for name, value in config.items():
        if name not in known and value is not None and value is not False:
            raise ConfigError(
                f"{name} is {value!r:.100}; what that does to pixels is not known here",
                hint="take it out of the file if it does nothing, or choose a processor by its name",
            )


def _common(config: Config) -> dict[str, Any]:
    for switch in ("do_resize", "do_rescale", "do_normalize"):
        if not config.get(switch, True):
            raise _unlike(switch, config[switch], True)
    factor = config.get("rescale_factor", 1 / 255)
    if abs(factor * 255 - 1) > 1e-6:
        raise _unlike("rescale_factor", factor, 1 / 255)
    resampling = next((name for name, number in RESAMPLINGS.items() if int(number) == config["resample"]), None)
    if resampling is None:
        raise _unlike("resample", config["resample"], ", ".join(f"{int(n)} ({k})" for k, n in RESAMPLINGS.items()))
    stated = tuple(tuple(config[name]) for name in ("image_mean", "image_std"))
    normalisation = next(
        (name for name, known in NORMALISATIONS.items() if np.allclose(stated, known, atol=1e-6)), None
    )
    if normalisation is None:
        raise _unlike("image_mean and image_std", stated, ", ".join(f"{v} ({k})" for k, v in NORMALISATIONS.items()))
    return {"resampling": resampling, "normalisation": normalisation}


def _unlike(name: str, value: Any, theirs: Any) -> ConfigError:
    return ConfigError(f"{name} is {value!r}; {theirs} is what can be done", hint="choose a processor by its name")


def _normalised(pixels: npt.NDArray[np.uint8], normalisation: str) -> npt.NDArray[np.float32]:
    """[..., 3] float32, the values that the device looks up."""
    mean, std = (np.array(values) for values in NORMALISATIONS[normalisation])
    table = ((np.arange(256)[:, None] / 255 - mean) / std).astype(np.float32)
    found: npt.NDArray[np.float32] = table[pixels, np.arange(3)]
    return found
