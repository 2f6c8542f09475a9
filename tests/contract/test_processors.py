"""What every image processor promises."""

from __future__ import annotations

import pickle
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np
import pytest

from shardkit.errors import ConfigError
from shardkit.media.decode import DECODER
from shardkit.media.processors import NORMALISATIONS, PROCESSORS, RESAMPLINGS
from tests.media.builders import picture

SIZES = [
    (1, 1), (1, 2000), (2000, 1), (2, 300), (14, 14), (19, 19), (27, 29), (28, 56), (56, 56), (71, 71), (100, 100),
    (449, 449), (480, 640), (768, 1024), (1080, 1920), (3, 900),
]  # fmt: skip
"""(height, width)"""


@pytest.fixture(params=PROCESSORS)
def name(request):
    return request.param


@pytest.fixture
def processor(name):
    return PROCESSORS[name]()


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_pixels_have_the_shape_that_the_geometry_says(processor, height, width):
    geometry = processor.geometry(height, width)
    pixels = processor.pixels(picture(width, height))

    assert pixels.shape == (geometry.height, geometry.width, 3)
    assert pixels.dtype == np.uint8
    assert processor.pixels(picture(width, height)).tobytes() == pixels.tobytes()


def test_every_size_has_slots_and_fits_into_its_canvas(processor):
    random = np.random.default_rng(0)
    sizes = [*SIZES, *(2 ** (random.random((2000, 2)) * 15)).astype(int).tolist(), (1, 10**7), (10**7, 1)]
    for height, width in sizes:
        geometry = processor.geometry(height, width)
        shown_height, shown_width = geometry.shown
        assert geometry.slots >= 1
        assert 1 <= shown_height <= geometry.height
        assert 1 <= shown_width <= geometry.width
        assert processor.fixed_slots in (None, geometry.slots)
        assert (geometry.tile_rows > 0) == (geometry.tile_columns > 0)
        assert type(geometry.height) is type(geometry.width) is type(geometry.slots) is int


def test_slots_cover_the_canvas(processor):
    side = processor.patch * processor.merge
    for height, width in SIZES:
        geometry = processor.geometry(height, width)
        assert geometry.slots == geometry.height * geometry.width // side**2


def test_a_turned_picture_has_the_turned_geometry(processor):
    for height, width in SIZES:
        geometry, turned = processor.geometry(height, width), processor.geometry(width, height)
        assert (geometry.height, geometry.width) == (turned.width, turned.height)
        assert geometry.shown == turned.shown[::-1]


def test_what_is_filled_up_has_the_recorded_value(processor):
    filled = 0
    for height, width in SIZES:
        geometry = processor.geometry(height, width)
        shown_height, shown_width = geometry.shown
        pixels = processor.pixels(picture(width, height))
        rest = [pixels[shown_height:], pixels[:, shown_width:]]
        filled += sum(part.size for part in rest)
        assert all((part == processor.recipe()["pad_value"]).all() for part in rest)
    assert (filled > 0) == (processor.recipe()["pad_domain"] == "raw")


def test_a_picture_decoded_at_a_smaller_scale_gets_the_geometry_of_the_whole_one(processor):
    for height, width in ((71, 71), (480, 640), (2000, 3)):
        geometry = processor.geometry(height, width)
        smaller = picture(max(1, width // 2), max(1, height // 2))
        assert processor.pixels(smaller, geometry).shape == (geometry.height, geometry.width, 3)


def test_the_picture_is_left_as_it_was(processor):
    image = picture(640, 480)
    before = image.tobytes()

    processor.pixels(image)

    assert image.tobytes() == before
    assert image.size == (640, 480)


def test_one_colour_stays_that_colour(processor):
    image = picture(90, 40)
    image.paste((10, 200, 77), (0, 0, 90, 40))
    shown_height, shown_width = processor.geometry(40, 90).shown

    assert (processor.pixels(image)[:shown_height, :shown_width] == (10, 200, 77)).all()


def test_everything_is_recorded(processor, name):
    recipe = processor.recipe()

    assert recipe["name"] == name == processor.NAME
    assert recipe["version"] == processor.VERSION >= 1
    assert recipe["decoder"] == DECODER
    assert recipe["resampling"] in RESAMPLINGS
    assert recipe["normalisation"] in NORMALISATIONS
    assert recipe["pad_domain"] in ("raw", "normalised")
    assert {key: recipe[key] for key in asdict(processor)} == asdict(processor)


def test_it_is_made_again_from_what_it_records(processor, name):
    settings = {field.name: processor.recipe()[field.name] for field in fields(processor)}
    again = PROCESSORS[name](**settings)

    assert again == processor == pickle.loads(pickle.dumps(processor))
    assert again.recipe() == processor.recipe()


def test_every_setting_changes_the_record(processor):
    names = {"resampling": RESAMPLINGS, "normalisation": NORMALISATIONS}
    fixed = {"crop_percent": 50, "pad_value": 7, "merge": 2 if processor.merge == 1 else 1}
    for field in fields(processor):
        old = getattr(processor, field.name)
        if isinstance(old, bool):
            value = not old
        elif isinstance(old, int):
            value = fixed.get(field.name, old * 2)
        else:
            value = next(name for name in names[field.name] if name != old)
        assert replace(processor, **{field.name: value}).recipe() != processor.recipe()


def test_an_impossible_setting_is_named_with_the_option(processor):
    for field in fields(processor):
        for wrong in (-3, 2.5, None, "none"):
            with pytest.raises(ConfigError) as caught:
                replace(processor, **{field.name: wrong})
            assert f"--set {field.name}=" in caught.value.hint or field.name in str(caught.value)


def test_a_picture_without_a_side_has_no_geometry(processor):
    for height, width in ((0, 5), (5, 0), (-1, 5)):
        with pytest.raises(ValueError, match="must be above 0"):
            processor.geometry(height, width)


# ------------------------------------------------------------------ the page
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "processors.md").read_text(encoding="utf-8")


def test_the_page_names_every_processor_and_setting(processor, name):
    assert f"| `{name}` |" in PAGE
    settings = PAGE.split("## Settings")[1].split("\n## ")[0]
    assert all(f"`{field.name}`" in settings for field in fields(processor))


def test_the_sizes_of_the_page():
    header, _, *rows = [
        line for line in PAGE.split("## Sizes")[1].split("\n## ")[0].splitlines() if line.startswith("|")
    ]
    processors = [PROCESSORS[cell.split(",")[0].strip()]() for cell in header.split("|")[2:-1]]
    processors[0] = replace(processors[0], max_pixels=12845056)
    for row in rows:
        size, *cells = (cell.strip() for cell in row.split("|")[1:-1])
        height, width = map(int, size.split(" x "))
        for one, cell in zip(processors, cells, strict=True):
            geometry = one.geometry(height, width)
            canvas = (geometry.height, geometry.width)
            shown = f"{geometry.shown[0]} x {geometry.shown[1]}"
            assert cell == (shown if geometry.shown == canvas else f"{shown} of {canvas[0]} x {canvas[1]}")
