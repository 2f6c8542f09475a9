"""What was made from one example, or from examples of one group, stands on one side."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardkit.prepare.audit.config import AuditConfig, AuditResult
from shardkit.prepare.audit.run import run
from shardkit.records import Example
from tests.prepare.audit.careless import RECORD, write_split
from tests.prepare.builders import example, write
from tests.prepare.split.builders import split

PAGES = [example(f"page {page} of book {book}", book=f"b{book}", n=page, group=f"b{book}")
         for book in range(20) for page in range(3)]  # fmt: skip


def audit(path: Path, **options) -> AuditResult:
    return run(AuditConfig(dataset=path, **options))


def question(page: Example, number: int) -> Example:
    return example(f"question {number} about {page.example_id[:8]}", made_from=page.example_id, n=number)


def leaks(result: AuditResult) -> dict[str, int]:
    return {kind: count for kind, count in result.leaks.items() if count}


def test_questions_about_one_page_on_two_sides_are_found_by_the_field_that_names_it(tmp_path: Path):
    one, two = question(PAGES[0], 1), question(PAGES[0], 2)
    write_split(tmp_path / "s", {"train": [one], "test": [two]}, recipe={**RECORD, "parent_field": "made_from"})
    result = audit(tmp_path / "s")
    assert leaks(result) == {"parent": 1}
    assert result.evidence[0]["value"] == PAGES[0].example_id
    write_split(tmp_path / "t", {"train": [one], "test": [two]})
    assert leaks(audit(tmp_path / "t")) == {}


@pytest.mark.parametrize("several", [False, True])
def test_a_list_of_parents_is_read(tmp_path: Path, several: bool):
    both = [PAGES[0].example_id, PAGES[1].example_id]
    one = example("of two pages", made_from=both if several else both[0], n=1)
    write_split(tmp_path / "s", {"train": [one], "test": [PAGES[1]]}, recipe={**RECORD, "parent_field": "made_from"})
    assert leaks(audit(tmp_path / "s")) == ({"parent": 1} if several else {})


def test_questions_about_two_pages_of_one_book_are_found_where_the_pages_are_at_hand(tmp_path: Path):
    pages = write(tmp_path / "pages", PAGES)
    recipe = {**RECORD, "group_by": "book", "parent_field": "made_from", "parents": [pages.id]}
    parts = {"train": [question(PAGES[0], 1)], "test": [question(PAGES[1], 2), question(PAGES[4], 3)]}
    write_split(tmp_path / "s", parts, recipe=recipe)
    alone = audit(tmp_path / "s")
    assert leaks(alone) == {}
    assert any("is not at hand" in note and "--base" in note for note in alone.notes)
    result = audit(tmp_path / "s", bases=(tmp_path,))
    assert leaks(result) == {"group": 1}
    assert result.evidence[0]["sides"].keys() == {"train", "test"}
    assert audit(tmp_path / "s", bases=(tmp_path,), workers=2) == result


def test_our_split_of_questions_divides_no_book(tmp_path: Path):
    write(tmp_path / "pages", PAGES)
    write(tmp_path / "questions", [question(page, number) for page in PAGES for number in range(2)])
    split(
        tmp_path / "questions",
        tmp_path / "s",
        "train=0.5,test=0.5",
        parents=(tmp_path / "pages",),
        parent_field="made_from",
    )
    result = audit(tmp_path / "s", bases=(tmp_path,))
    assert result.error is None
    assert not any("not at hand" in note for note in result.notes)
    assert result.examples == 120
