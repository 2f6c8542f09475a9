"""What of an item is looked for."""

from __future__ import annotations

from shardkit.prepare.decontaminate.items import Bench, Item, Picture
from shardkit.prepare.decontaminate.passages import Searched, searched
from tests.prepare.decontaminate.builders import words

ASK = "What is the name of the street on the sign?"
LONG = "In which of the towns that the letter names did the writer stay for a whole winter?"


def picture(number: int) -> Picture:
    return Picture(
        asset_id=f"{number:064x}", frame=0, pixel_id=f"{number:032x}", phash="", phash_fine="", picture_class="picture"
    )


def look(*items: Item) -> Searched:
    return searched([Bench(name="b", digest="", items=items)], shortest=8)


def passages(*items: Item) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(passage.part, passage.text, passage.items) for passage in look(*items).passages]


def paired(*items: Item) -> list[int]:
    return [pair.item for pair in look(*items).pairs]


def item(question: str, *answers: str, show: int | None = None, context: str = "") -> Item:
    pictures = () if show is None else (picture(show),)
    return Item(label="", question=question, answers=answers, context=context, pictures=pictures)


def test_a_question_is_a_passage_and_a_short_answer_is_none():
    assert passages(item(LONG, "Bath")) == [("question", LONG, (0,))]
    assert paired(item(LONG, "Bath")) == []
    answer = words(1, 20)
    assert passages(item("Where?", answer)) == [("answer", answer, (0,))]
    assert passages(item("Where?", words(1, 19))) == []


def test_a_short_question_goes_with_its_answer():
    assert paired(item("Who wrote it?", "Ada")) == [0]
    assert paired(item("Who wrote?", "Ada Quill")) == []
    assert paired(item("Who wrote it?", "?", "...")) == []
    assert paired(item("Who wrote it?", words(1, 20))) == []
    assert paired(item("Who wrote it?")) == []


def test_a_question_about_a_picture_is_looked_for_with_its_answer_besides():
    assert paired(item(ASK, "High", show=1), item(LONG, "Bath", show=2)) == [0]
    assert [part for part, _, _ in passages(item(ASK, "High", show=1))] == ["question"]


def test_a_question_of_several_pictures_or_answers_is_a_template():
    assert passages(item(ASK, "High", show=1), item(ASK, "Low", show=2)) == []
    assert paired(item(ASK, "High", show=1), item(ASK, "Low", show=2)) == []
    assert passages(item(LONG, "Bath"), item(LONG.upper(), "York")) == []
    assert paired(item(LONG, "Bath"), item(LONG.upper(), "York")) == [0, 1]


def test_an_item_that_is_listed_twice_is_no_template():
    assert passages(item(LONG, "Bath"), item(LONG, "bath ")) == [("question", LONG, (0, 1))]
    assert passages(item(ASK, "High", show=1), item(ASK, "High", show=1)) == [("question", ASK, (0, 1))]


def test_another_benchmark_may_ask_the_same():
    benches = [Bench(name=name, digest="", items=(item(LONG, answer),)) for name, answer in (("a", "x"), ("b", "y"))]
    assert [passage.items for passage in searched(benches, shortest=8).passages] == [(0, 1)]


def test_one_caption_of_several_pictures_is_a_template_and_one_text_of_several_questions_is_not():
    text = words(3, 12)
    assert passages(item("", show=1, context=text), item("", show=2, context=text)) == []
    both = [item("Who wrote it?", "Ada", context=text), item("Who read it?", "Bea", context=text)]
    assert passages(*both) == [("context", text, (0, 1))]


def test_what_only_frames_an_item_is_no_passage():
    frame, body = "Read the text and answer the question behind it.", words(4, 30)
    assert passages(item(f"{frame}\n\n{body}", "x")) == [("question", body, (0,))]
    assert passages(item(frame, "x")) == [("question", frame, (0,))]
    instruction = words(5, 40)
    many = [item(f"{instruction}\n\n{words(100 + k, 20)}", "x") for k in range(21)]
    assert instruction not in [text for _, text, _ in passages(*many)]
    assert instruction in [text for _, text, _ in passages(*many[:20])]
