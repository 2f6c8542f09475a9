"""Images that look alike: copies are found, others are not, pages only with the same figures; figures on real truth sets."""

import io

import dedup_images  # of benchmarks/
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image, ImageOps

from shardkit.media.phash import looks
from shardkit.prepare.dedup import perceptual
from tests.media.test_phash import page, scene


def table(images):
    found = [looks(image) for image in images]
    return pa.table(
        {
            "phash": [one.phash for one in found],
            "phash_fine": [one.phash_fine for one in found],
            "preview": pa.array([one.preview for one in found], pa.binary()),
            "class": [one.picture_class for one in found],
        }
    )


def hashes(images, *, salt=0):
    found = perceptual.read_hashes(table(images))
    return found.take(np.arange(len(found)), salt=np.full(len(found), salt, np.uint64))


def near(found, **options):
    edges = perceptual.find(found, **options).above(perceptual.THRESHOLD)
    return set(zip(edges.one.tolist(), edges.two.tolist(), strict=True))


def jpeg(image, quality=30):
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality)
    return Image.open(out).convert("RGB")


COPIES = {
    "jpeg": jpeg,
    "half": lambda image: image.resize((200, 150)),
    "bright": lambda image: image.point(lambda v: min(255, v + 25)),
    "grey": lambda image: image.convert("L").convert("RGB"),
    "border": lambda image: ImageOps.expand(image, 24, "white"),
    "cropped at the top": lambda image: image.crop((0, 24, 400, 300)),
    "cropped": lambda image: image.crop((30, 10, 395, 280)),
    "cropped and small": lambda image: jpeg(image.crop((10, 15, 390, 300)).resize((240, 180))),
    "tilted": lambda image: image.rotate(-5, Image.Resampling.BICUBIC, fillcolor=(128, 128, 128)),
}


@pytest.mark.parametrize("what", COPIES)
def test_copies_are_found_and_nothing_else(what):
    originals = [scene(seed=seed) for seed in range(8)]
    pairs = near(hashes([*originals, *map(COPIES[what], originals)]))
    assert pairs <= {(k, k + 8) for k in range(8)}
    assert len(pairs) >= (4 if what == "tilted" else 8)


TURNS = {
    "mirror": [ImageOps.mirror, ImageOps.flip],
    "rotate": [lambda image, turn=turn: image.transpose(turn) for turn in (2, 3, 4)],
}


@pytest.mark.parametrize("transform", TURNS)
def test_mirrored_and_turned_pictures_are_found_where_that_is_asked_for(transform):
    original = scene(seed=3)
    found = hashes([original, *(change(original) for change in TURNS[transform]), scene(seed=4)])
    assert near(found) == set()
    pairs = near(found, transforms=frozenset({transform}))
    wanted = {(0, number + 1) for number in range(len(TURNS[transform]))}
    assert wanted <= pairs
    assert not any(len(TURNS[transform]) + 1 in pair for pair in pairs)


def test_pages_meet_only_with_the_same_figures():
    images = [page(seed=1), jpeg(page(seed=1), 60), page(seed=2)]
    assert near(hashes(images, salt=7)) == {(0, 1)}
    found = hashes(images)
    assert near(found.take(np.arange(3), salt=np.array([7, 8, 7], np.uint64))) == set()


def test_blank_images_meet_nobody():
    assert near(hashes([Image.new("RGB", (640, 360), c) for c in ("white", "blue", "white")])) == set()


def test_left_dark_right_light_pictures_with_other_detail_are_kept():
    def half(seed):
        noise = np.random.default_rng(seed).normal(0, 14, (240, 320))
        greys = np.where(np.arange(320) < 160, 60, 190) + np.kron(noise[::8, ::8], np.ones((8, 8)))
        return Image.fromarray(greys.clip(0, 255).astype(np.uint8)).convert("RGB")

    assert near(hashes([half(seed) for seed in range(12)])) == set()


def test_the_answer_does_not_depend_on_the_order():
    images = [
        change(scene(seed=seed)) for seed in range(4) for change in (COPIES["jpeg"], COPIES["cropped"], COPIES["half"])
    ]
    order = np.random.default_rng(0).permutation(len(images))
    found = hashes(images)
    there = perceptual.find(found.take(order))
    pairs = {tuple(sorted((int(order[a]), int(order[b])))) for a, b in zip(there.one, there.two, strict=True)}
    here = perceptual.find(found)
    assert pairs == set(zip(here.one.tolist(), here.two.tolist(), strict=True))
    assert len(pairs) >= 12
    assert sorted(there.score.tolist()) == sorted(here.score.tolist())


def test_hashes_are_read_as_they_were_written():
    rows = pa.table(
        {
            "phash": pa.chunked_array([["0123456789abcdef" * 4], [None]], pa.string()),
            "phash_fine": pa.chunked_array([["fedcba9876543210" * 16], [None]], pa.string()),
            "class": ["page", None],
        }
    )
    found = perceptual.read_hashes(rows)
    assert found.coarse.tolist() == [[0x0123456789ABCDEF] * 4, [0] * 4]
    assert found.fine[0].tolist() == [0xFEDCBA9876543210] * 16
    assert found.classes.tolist() == [1, 2]
    assert found.previewed.tolist() == [False, False]


def test_a_dataset_without_previews_is_compared_by_its_hashes():
    images = [scene(seed=1), jpeg(scene(seed=1)), scene(seed=2)]
    assert near(perceptual.read_hashes(table(images).drop_columns(["preview"]))) == {(0, 1)}


def test_nothing_is_near_nothing():
    assert len(perceptual.find(perceptual.joined([]))) == 0
    assert len(perceptual.find(hashes([scene()]))) == 0


def test_evidence_says_what_differs():
    assert perceptual.evidence(0.9, [1024, 102, 0]) == "102 of 1024 bits of the fine hash differ"
    assert perceptual.evidence(0.97, [256, 8, 4]) == "8 of 256 bits inside the best window differ, mirrored"


def test_quality_on_the_truth_sets(shared):
    found = dedup_images.perceptual(shared / "data", num_captions=0)
    assert found["precision"] == found["with_transforms"]["precision"] == 1.0
    assert found["recall"] >= 0.98
    assert found["distinct_removed"] == 0
    assert found["planted_found"] >= 0.98 * found["planted"] > 200
    rates = found["recall_by_transform"]
    surest = ("jpeg75", "jpeg40", "jpeg15", "webp50", "resize0.5", "resize0.25", "resize1.5", "noise", "bright", "gray")
    assert {rates[name] for name in surest} == {1.0}
    assert min(rates[name] for name in ("border", "crop0.02", "crop0.05", "crop0.1", "mixed")) >= 0.85
    assert rates["turn5"] >= 0.5
    turned = found["with_transforms"]["recall_by_transform"]
    assert min(turned[name] for name in ("mirror", "flip", "turn90")) >= 0.85


def test_quality_on_made_pages(shared):
    found = dedup_images.pages(shared / "data", num_pages=60, num_invoices=100)
    assert found["distinct_removed"] == 0
    assert found["planted_found"] == found["planted"] >= 12
