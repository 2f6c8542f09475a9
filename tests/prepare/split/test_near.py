"""What dedup found near stays on one side of a split, also where both rows stay."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from random import Random

from PIL import Image

from shardkit.prepare.audit.config import AuditConfig
from shardkit.prepare.audit.run import run as audit
from shardkit.prepare.dedup import near_text, perceptual
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.select.config import SelectConfig
from shardkit.prepare.select.run import run as select
from shardkit.prepare.split.near import known_levels, rules_for
from shardkit.prepare.split.times import parse_cutoffs
from shardkit.records import Example, Relation
from shardkit.store import Dataset
from tests.prepare.builders import example, png, write
from tests.prepare.dedup.pictures import page, photo
from tests.prepare.split.builders import listed, split


def sides(path: Path) -> dict[str, str]:
    """Text -> split."""
    dataset = Dataset.open(path)
    return {made.text: dataset.shards[shard].split for shard, _, made in dataset.examples()}


def test_a_picture_saved_again_with_another_text_stays_beside_the_first(tmp_path: Path):
    rows = [
        example(f"{name} {k}", photo(k, quality=quality), group=f"{name} {k}")
        for k in range(60)
        for name, quality in (("one", 90), ("two", 50))
    ]
    write(tmp_path / "a", rows, looks=True)
    dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c"))
    assert Dataset.open(tmp_path / "c").manifest.counts["kept"] == 120
    split(tmp_path / "c", tmp_path / "s", "train=0.5,test=0.5")
    where = sides(tmp_path / "s")
    assert set(where.values()) == {"train", "test"}
    assert [k for k in range(60) if where[f"one {k}"] != where[f"two {k}"]] == []
    # Where dedup did not look, split does.
    split(tmp_path / "a", tmp_path / "u", "train=0.5,test=0.5")
    assert sides(tmp_path / "u") == where
    # Else nothing ties them: their pixels differ.
    split(tmp_path / "a", tmp_path / "t", "train=0.5,test=0.5", edges="exact")
    apart = sides(tmp_path / "t")
    assert [k for k in range(60) if apart[f"one {k}"] != apart[f"two {k}"]] != []


def test_a_picture_that_is_boilerplate_ties_nothing_by_its_looks(tmp_path: Path):
    logo = [example(f"site {k}", photo(1, quality=60), group=f"site {k}") for k in range(25)]
    again = [example(f"other {k}", photo(1, quality=70), group=f"other {k}") for k in range(25)]
    write(tmp_path / "a", [*logo, *again], looks=True)
    dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c"))
    result = split(tmp_path / "c", tmp_path / "s", "train=0.5,test=0.5")
    assert result.report["groups"]["components"] == 50


WORDS = [f"word{k}" for k in range(60)]


def edited(number: int, *, body: list[str] = WORDS) -> str:
    """A text that is near to all others of its body: one word of sixty is another."""
    return " ".join([*body[:30], f"changed{number}", *body[31:]])


def crowd(count: int, *, seed: int) -> list[Example]:
    """Texts that share most keys, of which few pairs are near: those where three in four changed words stand at one
    place. Each stands beside a picture of its own, so dedup removes none."""
    chance, body = Random(seed), [f"word{k}" for k in range(200)]
    rows = []
    for number in range(count):
        words = list(body)
        for place in chance.sample(range(18), 4):
            words[10 * place + 9] = f"changed{seed}x{number}"
        when = f"{2010 + number % 12}-01-02T00:00:00Z" if number % 2 else "unknown"
        rows.append(example(" ".join(words), png(number), keep=chance.randrange(2), when=when))
    return rows


def assert_no_leak(path: Path) -> None:
    assert set(sides(path).values()) == {"train", "test"}
    assert audit(AuditConfig(dataset=path)).error is None


HALVES = {"ratios": "train=0.5,test=0.5", "max_group_share": 1.0}


def test_of_a_crowd_no_pair_leaks_that_dedup_did_not_compare(tmp_path: Path):
    write(tmp_path / "a", crowd(150, seed=0))
    made = dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c"))
    assert made.counts["kept"] == 150
    assert made.report["crowded"] == {"perceptual": 0, "text": 150}
    select(SelectConfig(input=tmp_path / "c", output=tmp_path / "d", where="keep == 1"))
    assert known_levels(rules_for(Dataset.open(tmp_path / "d"), None, edges="near", preset=None)) == {"perceptual"}
    split(tmp_path / "d", tmp_path / "s", **HALVES)
    assert_no_leak(tmp_path / "s")


def test_of_a_crowd_no_pair_leaks_for_rows_without_a_time_that_stood_before_it(tmp_path: Path):
    write(tmp_path / "a", crowd(150, seed=1))
    # A component is as late as its latest row: this cutoff leaves some for both sides.
    split(tmp_path / "a", tmp_path / "s", None, time_field="when", cutoffs=parse_cutoffs(["test=2019-06-01"]))
    assert_no_leak(tmp_path / "s")


def test_of_a_crowd_no_pair_leaks_where_an_older_split_leaves_rows_out(tmp_path: Path):
    write(tmp_path / "a", crowd(60, seed=2))
    split(tmp_path / "a", tmp_path / "s", **HALVES)
    write(tmp_path / "b", [*crowd(60, seed=2), *crowd(100, seed=3)])
    grown = split(tmp_path / "b", tmp_path / "t", None, like=tmp_path / "s", max_group_share=1.0)
    assert grown.counts["excluded_by_reason"]
    assert_no_leak(tmp_path / "t")


def test_near_texts_are_tied_where_nobody_looked_before(tmp_path: Path):
    rows = [example(edited(k % 2, body=[f"{w}of{k // 2}" for w in WORDS]), group=f"g{k}") for k in range(60)]
    write(tmp_path / "a", rows)
    result = split(tmp_path / "a", tmp_path / "s", "train=0.5,test=0.5")
    where = sides(tmp_path / "s")
    assert all(where[rows[k].text] == where[rows[k + 1].text] for k in range(0, 60, 2))
    assert result.report["groups"]["near_pairs"] == 30
    assert Dataset.open(tmp_path / "s").recipe["near"] == {
        "perceptual": {"version": perceptual.VERSION, "threshold": perceptual.THRESHOLD, "transforms": []},
        "text": {"version": near_text.VERSION, "preset": "web", "threshold": 0.75},
    }
    alone = split(tmp_path / "a", tmp_path / "t", "train=0.5,test=0.5", edges="exact")
    assert alone.report["groups"]["components"] == 60
    assert Dataset.open(tmp_path / "t").recipe["near"] == {}


def test_copies_of_a_text_that_is_nearly_everywhere_tie_nothing_and_are_listed(tmp_path: Path):
    imprint = [example(edited(k), group=f"site {k}") for k in range(30)]
    story = [f"{word}again" for word in WORDS]
    rows = [*imprint, *(example(edited(k, body=story), group=f"page {k}") for k in range(3))]
    write(tmp_path / "a", rows)
    result = split(tmp_path / "a", tmp_path / "s", "train=0.5,test=0.5")
    assert result.report["groups"]["components"] == 31
    assert listed(result) == {"near_text": 30}
    table = Dataset.open(tmp_path / "s").table("boilerplate").to_pylist()
    assert {row["value"] for row in table} == {row.text for row in imprint}
    assert {(row["kind"], row["groups"], row["examples"]) for row in table} == {("near_text", 1, 1)}
    wide = split(tmp_path / "a", None, "train=0.5,test=0.5", frequent_asset_limit=30, allow_empty=True)
    assert wide.report["groups"]["components"] == 2
    assert listed(wide) == {}
    # What one split permitted, a split of its output permits too.
    again = split(tmp_path / "s", tmp_path / "t", "train=0.5,test=0.5", frequent_asset_limit=30)
    assert again.report["groups"]["components"] == 31
    assert listed(again) == {"near_text": 30}


def test_a_picture_of_a_document_ties_it_to_another_that_shows_it_saved_again(tmp_path: Path):
    rows = [
        example(f"document {k} {name}", photo(k, quality=quality), photo(other, quality=90), group=f"{k} {name}")
        for k in range(40)
        for name, quality, other in (("one", 90, 100 + k), ("two", 50, 200 + k))
    ]
    write(tmp_path / "a", rows, looks=True)
    dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c"))
    assert Dataset.open(tmp_path / "c").table("edges").num_rows == 0, "dedup compares lists, one by one"
    split(tmp_path / "c", tmp_path / "s", "train=0.5,test=0.5")
    where = sides(tmp_path / "s")
    assert all(where[f"document {k} one"] == where[f"document {k} two"] for k in range(40))
    assert set(where.values()) == {"train", "test"}


def test_new_data_is_near_to_rows_of_the_older_split(tmp_path: Path):
    rows = [example(edited(0, body=[f"{w}of{k}" for w in WORDS])) for k in range(40)]
    write(tmp_path / "a", rows)
    split(tmp_path / "a", tmp_path / "s", "train=0.5,test=0.5")
    before = sides(tmp_path / "s")
    write(tmp_path / "b", [example(edited(1, body=[f"{w}of{k}" for w in WORDS])) for k in range(40)])
    dedup(DedupConfig(inputs=(tmp_path / "b",), output=tmp_path / "c"))
    split(tmp_path / "c", tmp_path / "t", None, like=tmp_path / "s")
    after = sides(tmp_path / "t")
    assert {text.replace("changed1", "changed0"): where for text, where in after.items()} == before


def test_the_rules_are_those_of_dedup_unless_others_are_asked_for(tmp_path: Path):
    write(tmp_path / "a", [example(edited(k)) for k in range(3)])
    made = dedup(
        DedupConfig(
            inputs=(tmp_path / "a",), output=tmp_path / "c", preset="ocr", thresholds={"text": 0.99, "perceptual": 0.9}
        )
    )
    assert made.counts["kept"] == 3
    dataset = Dataset.open(tmp_path / "c")
    rules = rules_for(dataset, None, edges="near", preset=None)
    assert (rules.preset, rules.text, rules.perceptual) == ("ocr", 0.99, 0.9)
    assert known_levels(rules) == {"perceptual", "text"}
    other = rules_for(dataset, None, edges="near", preset="web")
    assert (other.preset, other.text) == ("web", 0.75)
    assert known_levels(other) == {"perceptual"}
    assert rules_for(dataset, None, edges="exact", preset=None).recipe() == {}
    split(tmp_path / "c", tmp_path / "s", "train=0.5,test=0.5")
    later = rules_for(Dataset.open(tmp_path / "a"), Dataset.open(tmp_path / "s").recipe, edges="near", preset=None)
    assert (later.preset, later.text, later.perceptual) == ("ocr", 0.99, 0.9)


def test_pairs_of_dedup_are_taken_through_stages_that_leave_rows_out(tmp_path: Path):
    body = [[f"{w}of{k}" for w in WORDS] for k in range(30)]
    rows = [
        example(edited(n, body=body[k]), photo(100 * n + k), group=f"g{n} {k}", n=n)
        for k in range(30)
        for n in range(2)
    ]
    write(tmp_path / "a", rows)
    dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c"))
    select(SelectConfig(input=tmp_path / "c", output=tmp_path / "d", where="n >= 0"))
    found = Dataset.open(tmp_path / "c")
    rules = rules_for(Dataset.open(tmp_path / "d"), None, edges="near", preset=None)
    assert rules.found_by is not None
    assert rules.found_by.id == found.id
    result = split(tmp_path / "d", tmp_path / "s", "train=0.5,test=0.5")
    assert result.report["groups"]["components"] == 30
    assert Dataset.open(tmp_path / "s").recipe["near_found_by"] == found.id
    (tmp_path / "c").rename(tmp_path / "moved")
    assert rules_for(Dataset.open(tmp_path / "d"), None, edges="near", preset=None).found_by is None
    again = split(tmp_path / "d", tmp_path / "t", "train=0.5,test=0.5")
    assert sides(tmp_path / "t") == sides(tmp_path / "s")
    assert again.dataset_id != result.dataset_id, "where the pairs come from is part of the recipe"


def touched(data: bytes) -> bytes:
    """The picture with one pixel a shade lighter: no bit of its hash is another."""
    picture = Image.open(io.BytesIO(data))
    red, *rest = picture.getpixel((7, 7))
    picture.putpixel((7, 7), (red ^ 1, *rest))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def test_a_copy_that_agrees_in_every_bit_is_tied_too(tmp_path: Path):
    rows = [
        example(f"{name} {k}", data, group=f"{name} {k}")
        for k in range(8)
        for name, data in (("one", photo(k)), ("two", touched(photo(k))))
    ]
    write(tmp_path / "a", rows, looks=True)
    dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c"))
    edges = Dataset.open(tmp_path / "c").table("edges").to_pylist()
    assert [(edge["level"], edge["score"]) for edge in edges] == [("image", 1.0)] * 8
    split(tmp_path / "c", tmp_path / "s", "train=0.5,test=0.5")
    where = sides(tmp_path / "s")
    assert [k for k in range(8) if where[f"one {k}"] != where[f"two {k}"]] == []
    assert set(where.values()) == {"train", "test"}


def test_a_picture_that_a_document_shows_twice_is_compared_by_itself(tmp_path: Path):
    rows = [
        row
        for k in range(8)
        for row in (
            example(f"twice {k}", photo(k, quality=90), photo(k, quality=90)),
            example(f"once {k}", photo(k, quality=50)),
        )
    ]
    write(tmp_path / "a", rows, looks=True)
    dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c"))
    split(tmp_path / "c", tmp_path / "s", "train=0.5,test=0.5")
    where = sides(tmp_path / "s")
    assert [k for k in range(8) if where[f"twice {k}"] != where[f"once {k}"]] == []
    assert set(where.values()) == {"train", "test"}


def test_a_reading_of_a_page_and_a_dialogue_that_says_it_stay_together(tmp_path: Path):
    """Dedup removes neither, because nobody speaks in the one; a split goes by the pages and their words."""
    says = "the clerk of harbour {} counts casks and bales"
    rows = [
        row
        for k in range(6)
        for row in (
            example(says.format("abcdef"[k] * 3), page(""), group=f"one {k}"),
            example(None, page("", noise=3), turns=[("assistant", says.format("abcdef"[k] * 3 + "e"))]),
        )
    ]
    write(tmp_path / "a", rows, looks=True)
    made = dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c"))
    assert made.counts["kept"] == 12
    near = Dataset.open(tmp_path / "c").table("near").to_pylist()
    assert {(row["level"], row["outcome"]) for row in near} == {("perceptual", "kept")}


def test_documents_of_which_only_their_pages_are_left_are_compared_again(tmp_path: Path):
    """Their texts were different ones, and now they have none."""
    menu = "our news of today\nwrite to us here"
    rows = [
        replace(row, relations=(Relation(kind="interleaved"),), example_id=f"{number:032x}")
        for number, row in enumerate(
            [
                example(menu, page("same"), group="https://a.example/1"),
                example(f"{menu}\nread more of it", page("same", noise=3), group="https://a.example/2"),
                *(example(f"{menu}\nread more of it\npage {k}", group=f"https://a.example/x{k}") for k in range(30)),
            ]
        )
    ]
    write(tmp_path / "a", rows, looks=True)
    dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c", boilerplate="remove"))
    left = {row.example_id for _, _, row in Dataset.open(tmp_path / "c").examples() if row.images and not row.text}
    assert len(left) == 2
    split(tmp_path / "c", tmp_path / "s", "train=0.5,test=0.5")
    groups = Dataset.open(tmp_path / "s").table("groups").to_pylist()
    assert len({row["component"] for row in groups if row["example_id"] in left}) == 1
