"""Every level keeps the promise of a matcher, and says what it should of small examples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shardkit.prepare.dedup import MATCHERS
from shardkit.prepare.dedup.facts import Facts, read_facts
from shardkit.prepare.dedup.levels import NEAR_REASONS, ONLY_BOILERPLATE
from shardkit.prepare.dedup.reasons import REASONS
from tests.prepare.builders import example, image, png, write

PLAIN = png(1)
PACKED = png(1, level=0)
"""Other bytes, the same pixels."""


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Facts]:
    rows = {
        "cat": example("cat"),
        "CAT": example(" CAT\n"),
        "nothing": example(None),
        "blank": example(" \n"),
        "photo": example("cat", PLAIN),
        "photo, packed": example("Cat", PACKED),
        "photo, other text": example("dog", PLAIN),
        "photo, no text": example(None, PLAIN),
        "photo, blank text": example("  ", PLAIN),
        "two photos": example("cat", PLAIN, png(2)),
        "two photos, turned": example("cat", png(2), PLAIN),
        "said": example(None, turns=[("user", "cat")]),
        "answered": example(None, turns=[("assistant", "cat")]),
    }
    dataset = write(tmp_path_factory.mktemp("facts") / "d", list(rows.values()))
    return dict(zip(rows, read_facts(dataset.reader(dataset.shards[0])), strict=True))


def equal(level: str, one: Facts, two: Facts) -> bool:
    left, right = MATCHERS[level].signature(one), MATCHERS[level].signature(two)
    return left is not None and left == right


@pytest.mark.parametrize("level", MATCHERS)
def test_an_example_with_nothing_in_it_matches_nothing(level: str, facts: dict[str, Facts]):
    for name in ("nothing", "blank"):
        assert MATCHERS[level].signature(facts[name]) is None
        assert MATCHERS[level].ties(facts[name]) == ()


@pytest.mark.parametrize("level", MATCHERS)
def test_every_level_has_a_reason_of_its_own_and_says_what_it_found(level: str, facts: dict[str, Facts]):
    assert MATCHERS[level].REASON in REASONS
    assert len({matcher.REASON for matcher in MATCHERS.values()}) == len(MATCHERS)
    assert set(REASONS) == {
        *(matcher.REASON for matcher in MATCHERS.values()),
        *NEAR_REASONS.values(),
        ONLY_BOILERPLATE,
    }
    found = [f for f in facts.values() if MATCHERS[level].signature(f) is not None and MATCHERS[level].removable(f)]
    assert found
    assert all(":" in MATCHERS[level].evidence(one) for one in found)


@pytest.mark.parametrize("level", MATCHERS)
def test_what_a_level_may_remove_is_tied_by_it(level: str, facts: dict[str, Facts]):
    for one in facts.values():
        if MATCHERS[level].signature(one) is not None:
            assert MATCHERS[level].ties(one)


def test_texts_are_compared_in_their_normalized_form(facts: dict[str, Facts]):
    assert equal("text", facts["cat"], facts["CAT"])
    assert not equal("text", facts["cat"], facts["photo, other text"])


def test_an_image_keeps_an_example_from_being_removed_for_its_text(facts: dict[str, Facts]):
    assert equal("text", facts["cat"], facts["photo"])
    assert MATCHERS["text"].removable(facts["cat"])
    assert not MATCHERS["text"].removable(facts["photo"])


def test_the_same_image_is_a_duplicate_only_with_the_same_text(facts: dict[str, Facts]):
    assert not equal("exact", facts["photo"], facts["photo, other text"])
    assert not equal("exact", facts["photo"], facts["photo, no text"])
    assert equal("exact", facts["photo, no text"], facts["photo, blank text"])


def test_other_bytes_of_the_same_pixels_are_equal_at_level_pixel_alone(facts: dict[str, Facts]):
    assert equal("pixel", facts["photo"], facts["photo, packed"])
    assert not equal("exact", facts["photo"], facts["photo, packed"])


@pytest.mark.parametrize("level", ["exact", "pixel"])
def test_images_count_all_and_in_their_order(level: str, facts: dict[str, Facts]):
    assert not equal(level, facts["photo"], facts["two photos"])
    assert not equal(level, facts["two photos"], facts["two photos, turned"])
    assert len(MATCHERS[level].ties(facts["two photos"])) == 2


def test_who_says_it_counts(facts: dict[str, Facts]):
    assert not equal("text", facts["said"], facts["answered"])
    assert MATCHERS["text"].ties(facts["said"]) == MATCHERS["text"].ties(facts["answered"]) == ("cat",)


def test_frames_of_one_file_differ_and_are_tied(tmp_path: Path):
    page = image(PLAIN)
    rows = [example("page", PLAIN), example("page", PLAIN)]
    object.__setattr__(rows[1], "images", (image(PLAIN, frame=1, pixel_id=f"{1:032x}"),))
    dataset = write(tmp_path / "d", rows)
    first, second = read_facts(dataset.reader(dataset.shards[0]))
    assert not equal("exact", first, second)
    assert MATCHERS["exact"].ties(first) == MATCHERS["exact"].ties(second) == (page.asset_id,)


@pytest.mark.parametrize("shards", ["arrow", "tar"])
def test_facts_are_the_same_from_arrow_and_tar_and_for_some_rows(tmp_path: Path, shards: str):
    rows = [example(f"t {k}", *(png(n) for n in range(k % 3)), place=k) for k in range(130)]
    dataset = write(tmp_path / "d", rows, shards=shards)
    reader = dataset.reader(dataset.shards[0], verify="off")
    found = list(read_facts(reader))
    assert [f.example_id for f in found] == [row.example_id for row in rows]
    assert [f.raw_text for f in found] == [f"t {k}" for k in range(130)]
    assert [f.num_pixels for f in found] == [36 * (k % 3) for k in range(130)]
    assert [f.num_bytes for f in found] == [
        sum(len(i.data) + 64 for i in row.images) + 32 + len(row.text) + len(row.metadata) for row in rows
    ]
    some = [100, 3, 64]
    assert list(read_facts(reader, np.array(some, np.int32))) == [found[k] for k in some]
