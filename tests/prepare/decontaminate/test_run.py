"""decontaminate as a whole: what goes, what stays, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from shardkit.errors import SourceError
from shardkit.store import Dataset
from tests.prepare.builders import example, texts
from tests.prepare.decontaminate.builders import (
    SPEECH,
    corpus,
    decontaminate,
    jpeg,
    jsonl,
    page,
    photo,
    words,
    write,
)


def evidence(path: Path) -> list[tuple[str, str, str, str]]:
    rows = Dataset.open(path).table("evidence").to_pylist()
    return [(row["item"], row["kind"], row["measure"], row["verdict"]) for row in rows]


def questions(count: int) -> list[dict[str, object]]:
    return [{"id": f"q{k}", "question": words(7000 + k, 15) + "?", "answer": words(8000 + k, 2)} for k in range(count)]


def test_five_planted_items_are_what_goes(tmp_path: Path):
    items = questions(20)
    documents = corpus()
    for k in range(5):
        documents[10 * k] += f"\n\n{words(1, 30)} {items[k]['question']} {words(2, 30)}"
    write(tmp_path / "a", [example(text) for text in documents])
    result = decontaminate(tmp_path / "c", tmp_path / "a", jsonl(tmp_path / "quiz.jsonl", items))
    assert result.counts == {
        "read": 60, "kept": 55, "excluded": 5, "excluded_by_reason": {"contaminated_text": 5},
    }  # fmt: skip
    assert texts(Dataset.open(tmp_path / "c")) == sorted(text for k, text in enumerate(documents) if k % 10 or k == 50)
    assert evidence(tmp_path / "c") == [(f"q{k}", "text", "ngram13", "contaminated") for k in range(5)]
    found = result.report["benchmarks"]["quiz"]
    assert {name: found[name] for name in ("items", "searchable", "contaminated", "common", "review", "examples")} == {
        "items": 20, "searchable": 20, "contaminated": 5, "common": 0, "review": 0, "examples": 5,
    }  # fmt: skip
    excluded = [orjson.loads(line) for line in Dataset.open(tmp_path / "c").exclusions()]
    assert [(row["input"], row["position"], row["reason"]) for row in excluded] == [
        ("rows.jsonl", str(10 * k + 1), "contaminated_text") for k in range(5)
    ]
    assert excluded[0]["detail"] == "it holds the item q0 of the benchmark quiz (ngram13 1.00)"


def test_a_quotation_of_many_documents_is_common_and_stays(tmp_path: Path):
    documents = corpus()
    for k in range(12):
        documents[k] += f"\n\nAs was said then: {SPEECH}"
    write(tmp_path / "a", [example(text) for text in documents])
    items = [{"question": SPEECH, "answer": "Lincoln"}, *questions(3)]
    result = decontaminate(tmp_path / "c", tmp_path / "a", jsonl(tmp_path / "quiz.jsonl", items))
    assert result.counts["excluded"] == 0
    assert result.report["benchmarks"]["quiz"]["common"] == 1
    rows = Dataset.open(tmp_path / "c").table("evidence").to_pylist()
    assert [(row["verdict"], row["examples"], row["score"]) for row in rows] == [("common", 12, 1.0)] * 3
    assert rows[0]["excerpt"].startswith("Four score and seven")


def test_what_stands_beside_a_quotation_is_still_found(tmp_path: Path):
    own = words(9, 30)
    documents = corpus()
    for k in range(12):
        documents[k] += f"\n\nAs was said then: {SPEECH}"
    documents[20] += f"\n\n{SPEECH} {own}"
    write(tmp_path / "a", [example(text) for text in documents])
    items = [{"question": f"{SPEECH} {own}", "answer": "yes"}]
    result = decontaminate(tmp_path / "c", tmp_path / "a", jsonl(tmp_path / "quiz.jsonl", items))
    assert result.counts["excluded"] == 1
    assert documents[20] not in texts(Dataset.open(tmp_path / "c"))


def test_short_answers_and_template_questions_tell_nothing(tmp_path: Path):
    ask = "What is the total amount that is stated on this receipt?"
    items = [{"image": f"{k}.png", "question": ask, "answer": f"{k}.50"} for k in range(6)]
    for k in range(6):
        (tmp_path / f"{k}.png").write_bytes(photo(k))
    rows = [example(f"it cost {k}.50", photo(50 + k)) for k in range(6)]
    rows += [example(turns=[("user", ask), ("assistant", f"{k}.50")]) for k in range(6)]
    write(tmp_path / "a", rows)
    result = decontaminate(tmp_path / "c", tmp_path / "a", jsonl(tmp_path / "receipts.jsonl", items))
    assert result.counts["excluded"] == 0
    assert evidence(tmp_path / "c") == []
    assert result.report["benchmarks"]["receipts"]["searchable"] == 6


def test_a_short_question_needs_its_answer_close_behind(tmp_path: Path):
    items = [{"question": "Who wrote Kestrel Down?", "answers": ["Ada Quill", "Quill"]}]
    rows = [
        example(turns=[("user", "Who wrote Kestrel Down?"), ("assistant", "It was Ada Quill.")]),
        example("Q: who wrote kestrel down? A: QUILL"),
        example(turns=[("user", "Who wrote Kestrel Down?"), ("assistant", "I do not know.")]),
        example("Ada Quill"),
        example(f"Who wrote Kestrel Down? {words(5, 20)} Ada Quill"),
    ]
    write(tmp_path / "a", rows)
    result = decontaminate(tmp_path / "c", tmp_path / "a", jsonl(tmp_path / "quiz.jsonl", items))
    assert result.counts["kept"] == 3
    assert evidence(tmp_path / "c") == [("1", "text", "question_answer", "contaminated")] * 2


def test_a_picture_saved_again_is_found_and_a_page_of_the_same_form_is_not(tmp_path: Path):
    def form(number: int) -> str:
        return "\n".join(f"{words(k, 8)}: {number * 37 + k}" for k in range(20))

    (tmp_path / "1.png").write_bytes(photo(1))
    (tmp_path / "2.png").write_bytes(page(form(1)))
    items = [{"id": "photo", "image": "1.png"}, {"id": "form", "image": "2.png", "text": form(1)}]
    rows = [
        example(words(31, 9), photo(1)),
        example(words(32, 9), jpeg(photo(1))),
        example(words(33, 9), photo(2)),
        example(form(1), jpeg(page(form(1)))),
        example(form(2), page(form(2))),
        example(None, jpeg(page(form(1)), 70)),
    ]
    write(tmp_path / "a", rows)
    result = decontaminate(tmp_path / "c", tmp_path / "a", jsonl(tmp_path / "shown.jsonl", items))
    kept = [made for _, _, made in Dataset.open(tmp_path / "c").examples()]
    assert kept == [rows[2], rows[4], rows[5]]
    assert result.counts["excluded_by_reason"] == {"contaminated_image": 3}
    assert sorted(set(evidence(tmp_path / "c"))) == [
        ("form", "image", "page", "contaminated"), ("form", "image", "page", "review"),
        ("form", "text", "ngram13", "contaminated"),
        ("photo", "image", "perceptual", "contaminated"), ("photo", "image", "pixels", "contaminated"),
    ]  # fmt: skip


def test_a_short_question_beside_another_picture_is_for_review(tmp_path: Path):
    (tmp_path / "1.png").write_bytes(photo(1))
    ask = "What is the man in the blue coat doing?"
    items = [{"image": "1.png", "question": ask, "answer": "fishing"}]
    rows = [
        example(f"{ask} He sleeps.", photo(2)),
        example(f"{ask} fishing", photo(3)),
        example(f"{ask} He sleeps."),
    ]
    write(tmp_path / "a", rows)
    decontaminate(tmp_path / "c", tmp_path / "a", jsonl(tmp_path / "vqa.jsonl", items))
    assert [made for _, _, made in Dataset.open(tmp_path / "c").examples()] == rows[:1]


def test_part_of_a_long_passage_is_found_and_ten_words_of_it_are_not(tmp_path: Path):
    passage = words(40, 300)
    part = " ".join(passage.split()[50:90])
    rows = [example(part), example(" ".join(passage.split()[50:60])), example(words(41, 50))]
    write(tmp_path / "a", rows)
    decontaminate(tmp_path / "c", tmp_path / "a", jsonl(tmp_path / "reading.jsonl", [{"context": passage}]))
    assert [made for _, _, made in Dataset.open(tmp_path / "c").examples()] == rows[1:]
    assert evidence(tmp_path / "c") == [("1", "text", "inside13", "contaminated")]


def test_report_leaves_nothing_out(tmp_path: Path):
    items = questions(2)
    write(tmp_path / "a", [example(f"so: {items[0]['question']}"), example("other")])
    bench = jsonl(tmp_path / "quiz.jsonl", items)
    result = decontaminate(tmp_path / "c", tmp_path / "a", bench, action="report")
    assert (result.counts["kept"], result.counts["excluded"]) == (2, 0)
    assert result.report["benchmarks"]["quiz"]["examples"] == 1
    assert evidence(tmp_path / "c") == [("q0", "text", "ngram13", "contaminated")]


def files(path: Path) -> dict[str, bytes]:
    found = {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}
    manifest = orjson.loads(found.pop("manifest.json"))
    return {**found, "id": manifest["dataset_id"].encode()}


def test_neither_workers_nor_the_order_of_anything_changes_a_byte(tmp_path: Path):
    items = questions(6)
    rows = [example(f"{text}\n\n{items[k % 6]['question']}" if k % 9 == 0 else text) for k, text in enumerate(corpus())]
    write(tmp_path / "a", rows[:40], unit_rows=7)
    write(tmp_path / "b", rows[40:], unit_rows=3)
    one, two = jsonl(tmp_path / "one.jsonl", items[:4]), jsonl(tmp_path / "two.jsonl", items[4:])
    (tmp_path / "moved").mkdir()
    same = jsonl(tmp_path / "moved" / "two.jsonl", items[4:])
    decontaminate(tmp_path / "c", (tmp_path / "a", tmp_path / "b"), one, two)
    decontaminate(tmp_path / "d", (tmp_path / "b", tmp_path / "a"), same, one, workers=2)
    assert files(tmp_path / "c") == files(tmp_path / "d")
    again = decontaminate(tmp_path / "c", (tmp_path / "b", tmp_path / "a"), same, one)
    assert again.unchanged
    assert again.counts["excluded"] == 7


def test_a_dataset_is_a_benchmark_and_its_dialogues_are_questions(tmp_path: Path):
    items = questions(3)
    turns = [example(turns=[("user", str(q["question"])), ("assistant", str(q["answer"]))]) for q in items]
    write(tmp_path / "bench", [*turns, example(words(55, 20), photo(5))])
    rows = [example(f"x {items[1]['question']} y"), example("z", photo(5)), example(words(56, 20), photo(6))]
    write(tmp_path / "a", rows)
    result = decontaminate(tmp_path / "c", tmp_path / "a", tmp_path / "bench")
    assert [made for _, _, made in Dataset.open(tmp_path / "c").examples()] == rows[2:]
    assert result.report["benchmarks"]["bench"]["items"] == 4
    recipe = Dataset.open(tmp_path / "c").recipe
    assert list(recipe["benchmarks"]) == ["bench"]
    assert str(tmp_path) not in orjson.dumps(recipe).decode()


def test_a_dry_run_writes_nothing(tmp_path: Path):
    items = questions(2)
    write(tmp_path / "a", [example(str(items[0]["question"])), example("other")])
    before = sorted(tmp_path.rglob("*"))
    bench = jsonl(tmp_path / "quiz.jsonl", items)
    result = decontaminate(None, tmp_path / "a", bench)
    assert result.counts["excluded"] == 1
    assert result.to_json()["dataset"] is None
    assert sorted(p for p in tmp_path.rglob("*") if p != bench) == before


@pytest.mark.parametrize("limit", [11, 12])
def test_the_limit_of_common_is_an_option(tmp_path: Path, limit: int):
    rows = [example(f"{words(k, 20)} {SPEECH}") for k in range(12)]
    write(tmp_path / "a", rows)
    bench = jsonl(tmp_path / "quiz.jsonl", [{"question": SPEECH}])
    result = decontaminate(None, tmp_path / "a", bench, common_groups=limit)
    assert result.counts["excluded"] == (0 if limit == 11 else 12)


def test_rows_of_one_group_count_once(tmp_path: Path):
    rows = [example(f"{words(k, 20)} {SPEECH}", group="book") for k in range(12)]
    write(tmp_path / "a", rows)
    result = decontaminate(None, tmp_path / "a", jsonl(tmp_path / "quiz.jsonl", [{"question": SPEECH}]))
    assert result.counts["excluded"] == 12


def test_a_source_that_would_vanish_stops_the_run(tmp_path: Path):
    items = questions(2)
    rows = [example(f"{items[0]['question']} {k}", source="copies", group="one") for k in range(600)]
    rows += [example(words(k, 9), source="copies") for k in range(400)] + [example("else", source="fine")]
    write(tmp_path / "a", rows)
    bench = jsonl(tmp_path / "quiz.jsonl", items)
    with pytest.raises(SourceError) as caught:
        decontaminate(tmp_path / "c", tmp_path / "a", bench)
    assert caught.value.what == (
        "600 of 1000 examples of the source 'copies' would be removed (60.0%, the limit is 50.0%); nothing was written"
    )
    assert not (tmp_path / "c").exists()
    assert decontaminate(None, tmp_path / "a", bench).refused == caught.value.what
    assert decontaminate(tmp_path / "c", tmp_path / "a", bench, max_removed_per_source=0.6).counts["excluded"] == 600
    assert decontaminate(None, tmp_path / "a", bench, action="report").refused is None


def test_a_crowd_of_copies_hides_none_of_them(tmp_path: Path):
    (tmp_path / "1.png").write_bytes(photo(1))
    body = "\n".join(words(k, 8) for k in range(20))
    (tmp_path / "2.png").write_bytes(page(f"{body}\n7"))
    items = [{"id": "photo", "image": "1.png"}, {"id": "form", "image": "2.png", "text": FORM.format("Ines Carvalho")}]
    copies = [example(words(200 + k, 9), jpeg(photo(1), 40 + k)) for k in range(50)]
    forms = [example(FORM.format(words(300 + k, 3)), page(f"{body}\n{k}")) for k in range(50) if k != 7]
    rows = [*copies, *forms, example(FORM.format("Ines Carvalho"), jpeg(page(f"{body}\n7")))]
    write(tmp_path / "a", rows)
    decontaminate(tmp_path / "c", tmp_path / "a", jsonl(tmp_path / "shown.jsonl", items), common_groups=100)
    kept = [made for _, _, made in Dataset.open(tmp_path / "c").examples()]
    assert kept == forms
    table = Dataset.open(tmp_path / "c").table("evidence").to_pylist()
    assert {row["example_id"] for row in table if row["item"] == "photo"} == {row.example_id for row in copies}


FORM = "Name and place {}"
"""Under 8 tokens: no n-gram finds it."""
