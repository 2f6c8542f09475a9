"""Hugging Face's preprocessor_config.json, and transformers' own processors beside ours."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from shardkit.errors import ConfigError
from shardkit.media.processors import PROCESSORS, Letterbox, Naflex, PixelBudget, Square, Tiles, hf
from tests.media.builders import picture

QWEN = PixelBudget(hold_sides=False)
SIZES = [
    (480, 640), (300, 800), (1024, 768), (56, 56), (42, 70), (14, 14), (10, 40), (10, 400), (33, 1000), (100, 100), (1, 150), (1080, 1920),
    (449, 449), (100, 200), (500, 1000), (1200, 60), (640, 480), (1, 1),
]  # fmt: skip
"""(height, width)"""


@pytest.mark.parametrize(
    "processor",
    [
        QWEN,
        PixelBudget(hold_sides=False, min_pixels=784, max_pixels=50176, patch=16, resampling="bilinear", normalisation="half"),
        Naflex(),
        Naflex(max_patches=1024, patch=14, normalisation="clip"),
        Tiles(),
        Tiles(tile=224, max_tiles=6, normalisation="half"),
    ],
    ids=lambda processor: f"{processor.NAME}-{processor.patch}",
)  # fmt: skip
def test_pixel_values_and_grids_are_those_of_transformers(processor, tmp_path):
    transformers = pytest.importorskip("transformers")
    hf.write(processor, tmp_path)
    theirs = transformers.AutoImageProcessor.from_pretrained(tmp_path)
    for height, width in SIZES:
        image = picture(width, height)
        found = {key: np.asarray(value) for key, value in theirs(images=[image], return_tensors="np").items()}
        ours = hf.model_inputs(processor, image)
        assert set(found) == set(ours), (height, width)
        for name, value in found.items():
            assert value.shape == ours[name].shape, (name, height, width)
            assert np.abs(value - ours[name]).max() < 1e-5, (name, height, width)


@pytest.mark.parametrize("processor", [QWEN, Naflex(), Tiles()], ids=lambda processor: processor.NAME)
def test_sizes_are_those_of_transformers_but_where_its_floats_lose_a_pixel(processor):
    pytest.importorskip("transformers")
    random = np.random.default_rng(5)
    sizes = [
        *np.exp(random.uniform(0, 8.3, (3000, 2))).astype(int).tolist(),
        *((side, side) for side in range(1, 1500, 7)),
    ]
    differ = compared = 0
    for height, width in sizes:
        if max(height, width) > 200 * min(height, width):
            continue
        compared += 1
        geometry = processor.geometry(height, width)
        lost = np.subtract(geometry.shown, _theirs(processor, height, width))
        if lost.any():
            differ += 1
            assert sorted(np.abs(lost).tolist()) in ([0, 1], [0, 28], [28, 28])
    assert compared > 2000
    assert differ <= 0.005 * compared


def _theirs(processor: Any, height: int, width: int) -> tuple[int, int]:
    if isinstance(processor, PixelBudget):
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

        return smart_resize(height, width, 28, processor.min_pixels, processor.max_pixels)
    if isinstance(processor, Naflex):
        from transformers.models.siglip2.image_processing_pil_siglip2 import get_image_size_for_max_num_patches

        return get_image_size_for_max_num_patches(height, width, processor.patch, processor.max_patches)
    from transformers.models.mllama import image_processing_pil_mllama as mllama

    canvas_height, canvas_width = mllama.get_optimal_tiled_canvas(height, width, processor.max_tiles, processor.tile)
    geometry = processor.geometry(height, width)
    assert (geometry.height, geometry.width) == (canvas_height, canvas_width)
    return mllama.get_image_size_fit_to_canvas(height, width, canvas_height, canvas_width, processor.tile)


# ------------------------------------------------------------------ files
@pytest.mark.parametrize(
    "processor", [QWEN, PixelBudget(hold_sides=False, max_pixels=12845056), Naflex(max_patches=64), Tiles(tile=560)]
)
def test_what_is_written_is_read(processor, tmp_path):
    assert hf.write(processor, tmp_path) == tmp_path / "preprocessor_config.json"
    assert hf.read(tmp_path) == processor


PUBLISHED = {
    "Qwen2.5-VL": (
        {
            "min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
            "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
            "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2_5_VLProcessor",
        },
        PixelBudget(hold_sides=False, max_pixels=12845056),
    ),
    "SigLIP2": (
        {
            "do_convert_rgb": None, "do_normalize": True, "do_rescale": True, "do_resize": True,
            "image_mean": [0.5, 0.5, 0.5], "image_processor_type": "Siglip2ImageProcessorFast",
            "image_std": [0.5, 0.5, 0.5], "max_num_patches": 256, "patch_size": 16, "resample": 2,
            "rescale_factor": 0.00392156862745098,
        },
        Naflex(),
    ),
    "Llama-3.2": (
        {
            "do_convert_rgb": True, "do_normalize": True, "do_pad": True, "do_rescale": True, "do_resize": True,
            "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_processor_type": "MllamaImageProcessor",
            "image_std": [0.26862954, 0.26130258, 0.27577711], "max_image_tiles": 4, "resample": 2,
            "rescale_factor": 0.00392156862745098, "size": {"height": 560, "width": 560},
        },
        Tiles(tile=560),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_files_as_models_publish_them(name, tmp_path):
    config, processor = PUBLISHED[name]
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))

    assert hf.read(tmp_path) == processor


_CLIP = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
}  # fmt: skip
_HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
_ALL = {"do_resize": True, "do_rescale": True, "do_normalize": True, "rescale_factor": 0.00392156862745098}
OTHERS = {
    "CLIP": {**_CLIP, **_ALL, "crop_size": {"height": 224, "width": 224}, "do_center_crop": True, "do_convert_rgb": True, "resample": 3, "size": {"shortest_edge": 224}, "image_processor_type": "CLIPImageProcessor"},
    "CLIP of before 2023": {**_CLIP, "crop_size": 224, "do_center_crop": True, "do_normalize": True, "do_resize": True, "feature_extractor_type": "CLIPFeatureExtractor", "resample": 3, "size": 224},
    "SigLIP": {**_HALF, **_ALL, "image_processor_type": "SiglipImageProcessor", "processor_class": "SiglipProcessor", "resample": 3, "size": {"height": 384, "width": 384}},
    "PaliGemma": {**_HALF, **_ALL, "do_convert_rgb": None, "image_processor_type": "SiglipImageProcessor", "image_seq_length": 256, "processor_class": "PaliGemmaProcessor", "resample": 3, "size": {"height": 224, "width": 224}},
    "Gemma 3": {**_HALF, **_ALL, "do_convert_rgb": None, "do_pan_and_scan": None, "image_processor_type": "Gemma3ImageProcessor", "image_seq_length": 256, "pan_and_scan_max_num_crops": None, "resample": 2, "size": {"height": 896, "width": 896}},
    "LLaVA 1.5": {**_CLIP, **_ALL, "crop_size": {"height": 336, "width": 336}, "do_center_crop": True, "image_processor_type": "CLIPImageProcessor", "processor_class": "LlavaProcessor", "resample": 3, "size": {"shortest_edge": 336}},
    "LLaVA-NeXT": {**_CLIP, **_ALL, "aspect_ratio_setting": "anyres", "crop_size": {"height": 336, "width": 336}, "do_center_crop": True, "do_pad": True, "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]], "image_processor_type": "LlavaNextImageProcessor", "resample": 3, "size": {"shortest_edge": 336}},
    "Idefics2": {**_HALF, **_ALL, "do_convert_rgb": True, "do_image_splitting": True, "do_pad": True, "image_processor_type": "Idefics2ImageProcessor", "resample": 2, "size": {"longest_edge": 980, "shortest_edge": 378}},
    "Idefics3": {**_HALF, **_ALL, "do_convert_rgb": True, "do_image_splitting": True, "do_pad": True, "image_processor_type": "Idefics3ImageProcessor", "max_image_size": {"longest_edge": 364}, "resample": 1, "size": {"longest_edge": 1456}},
    "InternVL": {**_CLIP, "crop_size": 448, "do_center_crop": True, "do_normalize": True, "do_resize": True, "feature_extractor_type": "CLIPFeatureExtractor", "resample": 3, "size": 448},
    "InternVL3 in transformers": {**_ALL, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "crop_to_patches": False, "do_convert_rgb": True, "image_processor_type": "GotOcr2ImageProcessorFast", "max_patches": 12, "min_patches": 1, "resample": 3, "size": {"height": 448, "width": 448}},
    "Pixtral": {**_CLIP, **_ALL, "do_convert_rgb": True, "image_processor_type": "PixtralImageProcessor", "patch_size": {"height": 16, "width": 16}, "processor_class": "PixtralProcessor", "resample": 3, "size": {"longest_edge": 1024}},
    "Phi-3-vision": {**_CLIP, "auto_map": {"AutoImageProcessor": "image_processing_phi3_v.Phi3VImageProcessor", "AutoProcessor": "processing_phi3_v.Phi3VProcessor"}, "image_processor_type": "Phi3VImageProcessor", "num_crops": 16, "num_img_tokens": 144, "processor_class": "Phi3VProcessor"},
}  # fmt: skip
"""Families whose processors no processor here stands for, as they publish them."""


@pytest.mark.parametrize("name", OTHERS)
def test_other_families_are_refused_by_the_name_of_their_processor(name, tmp_path):
    config = OTHERS[name]
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    kind = config.get("image_processor_type") or config["feature_extractor_type"]
    with pytest.raises(ConfigError, match=f"its image_processor_type is {kind}; there are Qwen2VLImageProcessor, "):
        hf.read(tmp_path)


def test_a_family_whose_file_does_not_tell_its_patches_is_told_what_to_say(tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(OTHERS["SigLIP"]))
    with pytest.raises(ConfigError) as caught:
        hf.read(tmp_path)
    assert "--set processor=square --set image_size=SIDE --set resampling=bicubic" in caught.value.hint


HARMLESS = {
    "processor_class": "Qwen2_5_VLProcessor", "transformers_version": "4.57.1", "_valid_processor_keys": ["images"],
    "do_convert_rgb": False, "default_to_square": True, "data_format": "channels_first", "input_data_format": None,
    "return_tensors": None, "device": None, "disable_grouping": None, "do_center_crop": None, "crop_size": {"height": 9, "width": 9},
    "do_pad": False, "pad_size": None, "of_a_later_release": None,
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_changes_no_pixel_is_passed_over_and_what_may_is_refused_by_name(name, tmp_path):
    config, processor = PUBLISHED[name]
    file = tmp_path / "preprocessor_config.json"
    file.write_text(json.dumps({**HARMLESS, **config}))
    assert hf.read(tmp_path) == processor
    for field, value in {
        "do_center_crop": True,
        "do_image_splitting": True,
        "image_grid_pinpoints": [[336, 672]],
        "auto_map": {"AutoImageProcessor": "processing.Other"},
        "num_crops": 16,
        "of_a_later_release": "sharpen",
    }.items():
        file.write_text(json.dumps({**config, field: value}))
        with pytest.raises(ConfigError, match=f"{field} is .*not known here") as caught:
            hf.read(tmp_path)
        assert caught.value.where == str(file)


@pytest.mark.parametrize("processor", [QWEN, Naflex(), Tiles()], ids=lambda processor: processor.NAME)
def test_what_transformers_saves_of_it_is_read_again(processor, tmp_path):
    """Release 5 writes every field that it knows, null or not."""
    transformers = pytest.importorskip("transformers")
    hf.write(processor, tmp_path)
    theirs = transformers.AutoImageProcessor.from_pretrained(tmp_path)
    assert theirs.do_convert_rgb is True
    theirs.save_pretrained(tmp_path / "saved")
    assert hf.read(tmp_path / "saved") == processor


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            {"image_processor_type": "CLIPImageProcessor"},
            "its image_processor_type is CLIPImageProcessor; there are Qwen2VL",
        ),
        ({"image_mean": [0.1, 0.2, 0.3]}, r"image_mean and image_std is \(\(0.1, 0.2, 0.3\)"),
        ({"do_normalize": False}, "do_normalize is False; True is what can be done"),
        ({"rescale_factor": 1}, "rescale_factor is 1;"),
        ({"resample": 9}, "resample is 9;"),
        ({"temporal_patch_size": 1}, "temporal_patch_size is 1;"),
        (
            {"size": {"height": 224, "width": 224}, "min_pixels": None, "max_pixels": None},
            "size is .*; shortest_edge and longest_edge",
        ),
        ({"patch_size": "14"}, "patch of the pixel-budget processor is '14'"),
        ({"size": 3, "min_pixels": None, "max_pixels": None}, "does not say what its processor takes"),
    ],
)
def test_what_cannot_be_done_is_named_with_the_file(changed, says, tmp_path):
    config = {**PUBLISHED["Qwen2.5-VL"][0], **changed}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))

    with pytest.raises(ConfigError, match=says) as caught:
        hf.read(tmp_path)

    assert caught.value.where == str(tmp_path / "preprocessor_config.json")


def test_a_folder_without_the_file_or_with_another_one(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        hf.read(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text("{")
    with pytest.raises(ConfigError, match="is no JSON"):
        hf.read(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text("[]")
    with pytest.raises(ConfigError, match="does not say"):
        hf.read(tmp_path)


def test_a_processor_that_transformers_5_saved_whole(tmp_path):
    """It lies in another file then, which goes before one that an older release left there."""
    config, processor = PUBLISHED["SigLIP2"]
    whole = tmp_path / "processor_config.json"
    whole.write_text(json.dumps({"image_processor": config, "processor_class": "Siglip2Processor"}))
    assert hf.read(tmp_path) == processor
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(PUBLISHED["Qwen2.5-VL"][0]))
    assert hf.read(tmp_path) == processor
    whole.write_text(json.dumps({"image_processor": {**config, "resample": 9}}))
    with pytest.raises(ConfigError, match="resample is 9") as caught:
        hf.read(tmp_path)
    assert caught.value.where == str(whole)
    # Until release 5 it held names only.
    whole.write_text(json.dumps({"processor_class": "Qwen2_5_VLProcessor"}))
    assert hf.read(tmp_path) == PUBLISHED["Qwen2.5-VL"][1]
    whole.write_text("[" * 100_000)
    with pytest.raises(ConfigError, match="is no JSON"):
        hf.read(tmp_path)


@pytest.mark.parametrize("processor", [Square(), Letterbox(), PROCESSORS["patch-budget"]()])
def test_processors_that_transformers_has_not(processor):
    with pytest.raises(ConfigError, match=f"no image processor that does what {processor.NAME} does"):
        hf.config_of(processor)


@pytest.mark.parametrize("processor", [PixelBudget(), Tiles(max_canvas=True), Tiles(pad_value=7), Naflex(merge=2)])
def test_settings_that_transformers_has_not(processor):
    with pytest.raises(ConfigError, match="is what can be done"):
        hf.config_of(processor)
    assert hf.files(processor) == {}


def test_the_file_as_a_dataset_holds_it(tmp_path):
    (tmp_path / "preprocessor_config.json").write_bytes(hf.files(QWEN)["preprocessor_config.json"])
    assert hf.read(tmp_path) == QWEN
    assert hf.files(None) == {}
