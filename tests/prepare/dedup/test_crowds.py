"""Many images that look alike: whatever is compared with the first of a crowd only, copies leave one."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from shardkit.media.phash import CLASSES
from shardkit.media.preview import SIDE
from shardkit.prepare.dedup import perceptual, windows
from shardkit.prepare.dedup.buckets import FULL, across, bucket_pairs
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.perceptual import ImageHashes, Spoken
from shardkit.prepare.dedup.run import run
from shardkit.store import Dataset
from tests.prepare.builders import example, png, write
from tests.prepare.dedup.pictures import page, photo
from tests.prepare.dedup.test_boilerplate import words

CROWD = 2 * FULL + 8
NO_LIKE = lambda _units: iter(())  # noqa: E731 - nothing is alike


def alike(count: int, *, seed: int, kind: str = "picture", previews: bool = False) -> ImageHashes:
    """Hashes of one image, a few bits apart each; all of them share most keys."""
    chance = np.random.default_rng(seed)

    def words_of(size: int) -> np.ndarray:
        base = chance.integers(0, 2**64, size, np.uint64, endpoint=False)
        flips = chance.random((count, size, 64)) < 0.004
        return base ^ (flips * (np.uint64(1) << np.arange(64, dtype=np.uint64))).sum(2, dtype=np.uint64)

    greys = chance.integers(0, 200, (SIDE, SIDE))
    return ImageHashes(
        coarse=words_of(4),
        fine=words_of(16) if not previews else chance.integers(0, 2**64, (count, 16), np.uint64, endpoint=False),
        preview=(greys + chance.integers(0, 3, (count, SIDE, SIDE))).astype(np.uint8),
        previewed=np.full(count, previews),
        classes=np.full(count, CLASSES.index(kind), np.int8),
        salt=np.zeros(count, np.uint64),
    )


def pairs_of(edges: perceptual.NearEdges) -> set[tuple[int, int]]:
    return set(zip(edges.one.tolist(), edges.two.tolist(), strict=True))


@pytest.mark.parametrize(
    ("kind", "previews", "count"), [("picture", False, 400), ("page", False, 400), ("picture", True, 80)]
)
@pytest.mark.parametrize("seed", range(2))
def test_images_of_one_text_meet_in_any_crowd(seed: int, count: int, previews: bool, kind: str):
    images = alike(count, seed=seed, kind=kind, previews=previews)
    texts = np.random.default_rng(seed).permutation(np.repeat(np.arange(1, count // 2 + 1), 2)).astype(np.uint64)
    wanted = {tuple(np.flatnonzero(texts == text).tolist()) for text in range(1, count // 2 + 1)}
    without = perceptual.search(images)
    assert without.crowded.all()
    assert not wanted <= pairs_of(without.edges)
    spoken = Spoken(units=np.arange(count), texts=texts, like=NO_LIKE)
    assert wanted <= pairs_of(perceptual.search(images, spoken=spoken).edges)


def test_pages_of_like_texts_meet_in_any_crowd():
    images = alike(400, seed=5, kind="page")
    keys = np.random.default_rng(5).permutation(np.repeat(np.arange(1, 201), 2)).astype(np.uint64)

    def like(units: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield units, keys[units]

    spoken = Spoken(units=np.arange(400), texts=np.arange(1, 401, dtype=np.uint64), like=like)
    wanted = {tuple(np.flatnonzero(keys == key).tolist()) for key in range(1, 201)}
    assert wanted <= pairs_of(perceptual.search(images, spoken=spoken).edges)


@pytest.mark.parametrize("previews", [False, True])
def test_a_pair_that_is_measured_has_the_score_of_the_search(previews: bool):
    images = alike(FULL, seed=1, previews=previews)
    found = perceptual.search(images).edges
    assert len(found)
    one, two = np.triu_indices(FULL, 1)
    again = perceptual.measure(images, one.astype(np.int64), two.astype(np.int64))
    known = dict(zip(zip(again.one.tolist(), again.two.tolist(), strict=True), again.score.tolist(), strict=True))
    for pair, score in zip(zip(found.one.tolist(), found.two.tolist(), strict=True), found.score.tolist(), strict=True):
        assert known[pair] == score


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("kind", "previews", "count"), [("picture", False, 300), ("page", False, 300), ("picture", True, 90)]
)
def test_what_some_find_was_found_among_all_or_is_found_again_among_their_crowded(
    seed: int, count: int, previews: bool, kind: str
):
    images = alike(count, seed=seed, kind=kind, previews=previews)
    looked = perceptual.search(images)
    chance = np.random.default_rng(seed)
    some = np.sort(chance.permutation(count)[: count // 2])
    again = some[looked.crowded[some]]

    def among(units: np.ndarray) -> set[tuple[int, int]]:
        return {(int(units[one]), int(units[two])) for one, two in pairs_of(perceptual.find(images.take(units)))}

    found = among(some)
    assert found
    assert found <= pairs_of(looked.edges) | among(again)
    assert not found <= pairs_of(looked.edges), "nothing was to be found again"
    # Nor does the order matter in which they come.
    assert among(chance.permutation(some)) <= {pair for one, two in found for pair in ((one, two), (two, one))}


def test_a_picture_is_fitted_to_its_nearest_others_only():
    images = alike(120, seed=3, previews=True)
    looked = perceptual.search(images)
    ends = np.bincount(np.concatenate([looked.edges.one, looked.edges.two]), minlength=120)
    assert ends.min() >= windows.NEAREST
    assert len(looked.edges) <= 120 * windows.NEAREST
    assert looked.crowded.all()


def test_pages_of_one_text_meet_in_windows_however_many_others_there_are():
    images = alike(300, seed=4, kind="page", previews=True)
    salt = np.random.default_rng(4).permutation(np.repeat(np.arange(1, 151, dtype=np.uint64), 2))
    found = perceptual.find(images.take(np.arange(300), salt=salt))
    assert pairs_of(found) == {tuple(np.flatnonzero(salt == number).tolist()) for number in range(1, 151)}


def test_the_first_see_every_other_and_nothing_else_is_answered():
    for count, previews in ((40, True), (600, False)):
        found = perceptual.search(alike(count, seed=2, previews=previews), first=3)
        pairs = pairs_of(found.edges)
        assert all(one < 3 <= two for one, two in pairs)
        assert {two for _, two in pairs} == set(range(3, count))


@pytest.mark.parametrize("seed", range(3))
def test_across_pairs_each_of_the_second_with_the_first_ones_of_its_key(seed: int):
    chance = np.random.default_rng(seed)
    one, two = (chance.integers(0, 9, size).astype(np.uint64) for size in (40, 60))
    found = set(zip(*(side.tolist() for side in across(one, two, full=3)), strict=True))
    assert found == {
        (here, there)
        for there in range(60)
        for here in np.flatnonzero((one == two[there]) & (two[there] != 0))[:3].tolist()
    }


def test_the_rows_of_larger_buckets_are_marked():
    crowd = np.zeros(9, np.bool_)
    bucket_pairs(np.array([1, 2, 1, 2, 2, 0, 0, 0, 2], np.uint64), full=3, crowd=crowd)
    assert np.flatnonzero(crowd).tolist() == [1, 3, 4, 8]


# ---------------------------------------------------------------------- datasets
def variants(count: int) -> list[bytes]:
    """JPEGs of one picture in other sizes, qualities and lights; no two are equal."""
    picture = Image.open(io.BytesIO(photo(3)))
    found = []
    for number in range(count):
        file = io.BytesIO()
        scale = 0.5 + (number % 7) * 0.03
        changed = picture.resize((int(320 * scale), int(240 * scale))).point(lambda v, n=number: min(255, v + n // 7))
        changed.save(file, "JPEG", quality=40 + number % 50)
        found.append(file.getvalue())
    return found


@pytest.fixture(scope="module")
def crowd() -> list[bytes]:
    return variants(CROWD)


def kept(folder: Path, rows: list, **options) -> list[str]:
    """Texts that stay."""
    write(folder / "a", rows, looks=True)
    run(DedupConfig(inputs=(folder / "a",), output=folder / "c", **options))
    return sorted(one.text for _, _, one in Dataset.open(folder / "c").examples())


@pytest.mark.parametrize("text", ["one caption", None])
def test_a_crowd_with_one_caption_or_none_leaves_one(tmp_path: Path, crowd: list[bytes], text: str | None):
    assert kept(tmp_path, [example(text, data) for data in crowd]) == [text or ""]


def test_of_a_crowd_each_caption_leaves_one(tmp_path: Path, crowd: list[bytes]):
    captions = Random(1).sample([f"caption {number // 2}" for number in range(CROWD)], CROWD)
    rows = [example(text, data) for text, data in zip(captions, crowd, strict=True)]
    assert kept(tmp_path, rows) == sorted(set(captions))


def test_of_a_crowd_captions_that_are_near_leave_one(tmp_path: Path, crowd: list[bytes]):
    base = [words(number) for number in range(CROWD // 2)]
    captions = Random(2).sample([*base, *(f"{text} more" for text in base)], CROWD)
    rows = [example(text, data) for text, data in zip(captions, crowd, strict=True)]
    assert {text.removesuffix(" more") for text in kept(tmp_path, rows)} == set(base)
    assert len(kept(tmp_path / "again", Random(3).sample(rows, CROWD), workers=2)) == CROWD // 2


def test_of_many_pages_of_one_form_copies_go_and_others_stay(tmp_path: Path):
    texts = [f"filed by the clerk on behalf of {words(number)}" for number in range(CROWD)]
    pages = [example(text, page(f"{text[:40]} {number % 7}")) for number, text in enumerate(texts)]
    copied = (5, 20, 31, 36)
    equal = [example(texts[number], page(f"{texts[number][:40]} {number % 7}", noise=3)) for number in copied[:2]]
    misread = [
        example(texts[number].replace("clerk", "clerl"), page(f"{texts[number][:40]} {number % 7}", noise=3))
        for number in copied[2:]
    ]
    rows = Random(4).sample([*pages, *equal, *misread], CROWD + len(copied))
    left = kept(tmp_path, rows, levels=("exact", "pixel", "perceptual"))
    assert sorted(text.replace("clerl", "clerk") for text in left) == sorted(texts)


@pytest.mark.parametrize("column", ["example_id", "asset_id"])
def test_of_a_crowd_of_vectors_one_is_left(tmp_path: Path, column: str):
    rows = [example("one caption", png(number)) if column == "asset_id" else example(f"text {number}") for number in range(CROWD)]  # fmt: skip
    ids = [row.images[0].asset_id if column == "asset_id" else row.example_id for row in rows]
    chance = np.random.default_rng(7)
    vectors = 10 + chance.normal(0, 1.2, (CROWD, 16))
    values = pa.array(vectors.tolist(), pa.list_(pa.float32(), 16))
    pq.write_table(pa.table({column: ids, "vector": values}), tmp_path / "vectors.parquet")
    left = kept(tmp_path, rows, levels=("semantic",), embeddings=(tmp_path / "vectors.parquet",))
    assert len(left) == 1
