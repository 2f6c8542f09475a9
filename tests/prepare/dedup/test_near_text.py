"""Near texts: what is found, beside all against all with Python sets, and what is never near."""

from __future__ import annotations

import random
from itertools import combinations
from pathlib import Path

import numpy as np
import orjson
import pytest

from shardkit.engine import silent
from shardkit.errors import OutputError
from shardkit.prepare.dedup import near_text, overlap
from shardkit.prepare.dedup import texts as texts_module
from shardkit.prepare.dedup.buckets import PairSet
from shardkit.prepare.dedup.inputs import Inputs, open_inputs
from shardkit.prepare.dedup.near_text import PRESETS, Preset, Search, evidence, search, verify
from shardkit.text.normalize import normalize
from tests.prepare.builders import example, png, write
from tests.prepare.dedup.test_shingles import obvious

WORDS = [a + b + c for a in "bdfgk" for b in "aeiou" for c in "lmnrst"]


def prose(chance: random.Random, size: int) -> list[str]:
    return [chance.choice(WORDS) for _ in range(size)]


def edited(chance: random.Random, words: list[str], edits: int) -> list[str]:
    made = list(words)
    for _ in range(edits):
        made[chance.randrange(len(made))] = chance.choice(WORDS)
    return made


def look(tmp_path: Path, texts: list[str | None], *, preset: Preset = PRESETS["web"], workers: int = 1) -> Search:
    write(tmp_path / "data", [example(text) if text is not None else example(None, png(1)) for text in texts])
    return look_at(tmp_path, open_inputs([tmp_path / "data"]), preset=preset, workers=workers)


def look_at(tmp_path: Path, inputs: Inputs, *, preset: Preset = PRESETS["web"], workers: int = 1) -> Search:
    (tmp_path / "scratch").mkdir(exist_ok=True)
    return search(
        inputs,
        np.arange(inputs.num_rows),
        preset=preset,
        workers=workers,
        scratch=tmp_path / "scratch",
        on_progress=silent,
    )


def pairs_of(found: Search) -> dict[tuple[int, int], float]:
    edges = found.edges
    return dict(zip(zip(edges.one.tolist(), edges.two.tolist(), strict=True), edges.score.tolist(), strict=True))


def as_set(text: str, width: int) -> set[tuple[str, ...]]:
    """Reference: a set of tuples of tokens."""
    words = obvious(text)
    return {tuple(words[k : k + width]) for k in range(len(words) - width + 1)}


@pytest.mark.parametrize("name", PRESETS)
def test_scores_are_exact_and_near_pairs_are_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(overlap, "_BLOCK_PAIRS", 7)
    monkeypatch.setattr(near_text, "_JOB_ROWS", 31)
    monkeypatch.setattr(texts_module, "BATCH_CHARACTERS", 2000)
    chance = random.Random(3)
    bases = [prose(chance, chance.randrange(30, 120)) for _ in range(25)]
    texts = [" ".join(edited(chance, base, edits)) for base in bases for edits in (0, 1, 2, 4, 9)]
    preset = PRESETS[name]
    found = pairs_of(look(tmp_path, texts, preset=preset))
    sets = [as_set(text, preset.width) for text in texts]
    exact = {
        (one, two): score
        for one, two in combinations(range(len(texts)), 2)
        if (score := len(sets[one] & sets[two]) / len(sets[one] | sets[two])) >= preset.floor
    }
    assert found == {pair: exact[pair] for pair in found}
    sure = [pair for pair, score in exact.items() if score >= preset.threshold + 0.1]
    assert sum(pair in found for pair in sure) >= 0.95 * len(sure)
    assert len(sure) > 20


def test_edges_tell_the_tokens_of_each_text(tmp_path: Path):
    base = prose(random.Random(1), 60)
    edges = look(tmp_path, [" ".join(base), None, " ".join(base[:-1])]).edges
    assert (edges.one.tolist(), edges.two.tolist(), edges.detail.tolist()) == ([0], [2], [[60, 59]])
    assert edges.score.tolist() == [55 / 56]
    assert evidence(edges.score[0], edges.detail[0].tolist()) == "Jaccard 0.9821 of shingles; 60 and 59 tokens"


def test_units_are_indices_into_positions(tmp_path: Path):
    base = prose(random.Random(1), 60)
    texts = ["other " * 30, " ".join(base), "short", " ".join(base[1:])]
    write(tmp_path / "data", [example(text) for text in texts])
    edges = near_text.find(
        open_inputs([tmp_path / "data"]),
        np.array([1, 3]),
        preset=PRESETS["web"],
        workers=1,
        scratch=tmp_path,
        on_progress=silent,
    )
    assert (edges.one.tolist(), edges.two.tolist()) == ([0], [1])


# ---------------------------------------------------------------------- what others got wrong
def test_rows_of_one_template_with_other_payloads_are_not_near(tmp_path: Path):
    chance = random.Random(0)
    rows = []
    for number in range(500):
        values = ", ".join(str(chance.randrange(10**6)) for _ in range(20))
        head = f'{{"id": {number}, "type": "event", "source": {{"name": "sensor", "unit": "celsius"}}, '
        rows.append(f'{head}"payload": {{"values": [{values}]}}, "note": "{" ".join(prose(chance, 25))}"}}')
    found = look(tmp_path, list(rows))
    assert found.num_compared == 500
    assert len(found.edges.above(PRESETS["web"].threshold)) == 0


@pytest.mark.parametrize("name", PRESETS)
def test_short_texts_are_near_to_none(name: str, tmp_path: Path):
    texts = ["cat", "dog", "cat", "\u6211\u559c\u6b22\u5065\u8eab", "\u6211\u559c\u6b22\u666e\u6d31\u8336", ""]
    texts += ["a b c d e f g h i j k l m n o p q r s", "a b c d e f g h i j k l m n o p q r s t"]
    found = look(tmp_path, list(texts), preset=PRESETS[name])
    assert (len(found.edges), found.num_compared) == (0, 1)


CHINESE = [
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u4e00\u8d77\u53bb\u516c\u56ed\u6563\u6b65\u5427\uff0c\u987a\u4fbf\u4e70\u70b9\u6c34\u679c\u56de\u6765\u3002",
    "\u8fd9\u672c\u4e66\u4ecb\u7ecd\u4e86\u673a\u5668\u5b66\u4e60\u7684\u57fa\u672c\u65b9\u6cd5\uff0c\u9002\u5408\u521d\u5b66\u8005\u9605\u8bfb\u548c\u53c2\u8003\u4f7f\u7528\u3002",
    "\u6211\u559c\u6b22\u5728\u65e9\u6668\u559d\u4e00\u676f\u666e\u6d31\u8336\uff0c\u7136\u540e\u5750\u5728\u7a97\u8fb9\u5b89\u9759\u5730\u770b\u4e00\u4f1a\u513f\u62a5\u7eb8\u3002",
]


def chinese_sentences(count: int) -> list[str]:
    chance = random.Random(8)
    signs = "".join(CHINESE)
    return CHINESE + ["".join(chance.sample(signs, 40)) for _ in range(count - len(CHINESE))]


@pytest.mark.parametrize("name", PRESETS)
def test_distinct_sentences_without_spaces_are_not_near_and_an_edit_of_one_is(name: str, tmp_path: Path):
    sentences = chinese_sentences(20)
    edit = sentences[1].replace("\u521d", "\u65b0")
    found = look(tmp_path, [*sentences, edit], preset=PRESETS[name])
    assert list(pairs_of(found)) == [(1, 20)]
    assert found.num_compared == 21


def test_a_passage_over_and_over_is_not_the_passage(tmp_path: Path):
    base = " ".join(prose(random.Random(1), 50))
    assert len(look(tmp_path, [base, " ".join([base] * 3)]).edges) == 0


# ---------------------------------------------------------------------- cost and independence
def test_many_alike_cost_a_linear_number_of_pairs(tmp_path: Path):
    chance = random.Random(2)
    base = prose(chance, 100)
    found = look(tmp_path, [" ".join([*base, f"number{k}"]) for k in range(400)])
    assert found.num_large > 0
    # The longest texts come first; of equal length, those whose content says so. All are tied to the first.
    assert 400 * 16 / 2 < len(found.edges) <= found.num_candidates < 400 * 16 * 14
    hub = np.bincount(np.concatenate([found.edges.one, found.edges.two])).max()
    assert hub == 399


def test_workers_and_the_order_of_rows_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(near_text, "_JOB_ROWS", 40)
    chance = random.Random(4)
    base = prose(chance, 100)
    texts = sorted({" ".join(edited(chance, base, chance.randrange(6))) for _ in range(120)})
    found = []
    for number, workers in enumerate((1, 2, 3)):
        folder = tmp_path / str(number)
        folder.mkdir()
        order = list(range(len(texts)))
        random.Random(number).shuffle(order)
        pairs = pairs_of(look(folder, [texts[k] for k in order], workers=workers))
        found.append({frozenset((order[one], order[two])): score for (one, two), score in pairs.items()})
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 100


def test_pairs_from_elsewhere_are_verified(tmp_path: Path):
    base = prose(random.Random(1), 60)
    write(tmp_path / "data", [example(t) for t in (" ".join(base), "else " * 30, " ".join(base[2:]))])
    pairs = PairSet()
    pairs.add(np.array([0, 0]), np.array([1, 2]))
    edges = verify(
        open_inputs([tmp_path / "data"]),
        np.arange(3),
        pairs,
        preset=PRESETS["web"],
        workers=1,
        scratch=tmp_path,
        on_progress=silent,
    )
    assert (edges.one.tolist(), edges.two.tolist()) == ([0], [2])


def test_a_scratch_folder_that_is_not_there_is_an_output_error(tmp_path: Path):
    write(tmp_path / "data", [example("a b")])
    inputs = open_inputs([tmp_path / "data"])
    with pytest.raises(OutputError):
        search(
            inputs,
            np.arange(1),
            preset=PRESETS["web"],
            workers=1,
            scratch=tmp_path / "none",
            on_progress=silent,
        )


def test_nothing_to_compare(tmp_path: Path):
    found = look(tmp_path, ["", None])
    assert (len(found.edges), found.edges.detail.shape, found.num_candidates) == (0, (0, 2), 0)
    write(tmp_path / "none", [])
    assert len(look_at(tmp_path, open_inputs([tmp_path / "none"])).edges) == 0


# ---------------------------------------------------------------------- truth sets
@pytest.mark.parametrize("name", PRESETS)
def test_pairs_over_the_threshold_are_found_in_the_planted_texts(name: str, shared: Path, tmp_path: Path):
    rows = [orjson.loads(line) for line in (shared / "data/neardup_text/planted.jsonl").read_bytes().splitlines()]
    texts = list({normalize(row["text"]): row["text"] for row in rows}.values())
    preset = PRESETS[name]
    sets, sizes = [as_set(text, preset.width) for text in texts], [len(obvious(text)) for text in texts]
    true = {
        (one, two)
        for one, two in combinations(range(len(texts)), 2)
        if min(sizes[one], sizes[two]) >= max(20, max(sizes[one], sizes[two]) / 2)
        and len(sets[one] & sets[two]) >= preset.threshold * len(sets[one] | sets[two])
    }
    found = {
        pair
        for pair, score in pairs_of(look(tmp_path, list(texts), preset=preset)).items()
        if score >= preset.threshold
    }
    assert found <= true
    assert len(found) >= 0.97 * len(true)
    assert len(true) > 100
