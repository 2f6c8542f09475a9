"""chat: dialogues, preference pairs and plain texts, as JSON lines, a JSON array or Parquet.

    {"conversations": [{"role": "user", "content": "..."}, ...]}     MiniMind SFT, RLAIF and agents; ShareGPT with from and value
    {"messages": [...]}                                              OpenAI; content may be a list of text and image parts
    {"instruction": "...", "input": "...", "output": "..."}          Alpaca; Dolly with context; also prompt or question with
                                                                     completion, response or answer
    {"chosen": [...], "rejected": [...]}                             a preference pair: one example; both may be answers to prompt
    {"images": [...], "texts": [{"user": ..., "assistant": ...}]}    The Cauldron, FineVision
    {"prompt": {"text", "role", "replies": [...]}}                   OpenAssistant: an example for each of its dialogues
    {"text": "..."}                                                  a text, as pretraining files have it

A turn becomes a segment with its role; what a turn carries beside its content becomes a segment with a name: tools,
reasoning_content, tool_calls. Where a row has system or tools beside its turns, they come before them. In preference pairs the
names begin with chosen or rejected; `annotator`, `model`, `generator`, `chosen_model` say who answers. One well-formed `<think>` block at the head of an assistant's content is its reasoning;
every other control string is text like any other. What else stands in turns is metadata, in `turn_fields`.

A row may have images beside its turns (`images` or `image`): each has its `<image>` mark in the turns, and the numbers must agree.
Where questions and answers stand in fields of their own and no mark is in them, the images come before the first question. In
a row without images the mark is text. Images in parts of a content stand where they are.

A dialogue may begin with system turns; then user and assistant alternate, with tool turns after an assistant's. It has at
least one assistant turn, and none is empty; but where a row has `gt`, by which answers are judged, the last one may be: it is
the place of an answer. Anything else is excluded under its own reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.draft import Draft
from shardkit.prepare.ingest.formats.chat_spellings import Turns, branches, continued, exchanged, is_tree, spoken
from shardkit.prepare.ingest.formats.chat_turns import PLACEHOLDER, ROLES, Talk, carried, full, joined
from shardkit.prepare.ingest.formats.fields import annotator_of, found, text_field
from shardkit.prepare.ingest.formats.image_value import image_ref
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record, exclusion
from shardkit.records import Exclusion, Relation, Segment

CONTAINERS = ("jsonl", "parquet", "arrow", "mds", "json")
FIELDS = ("conversations", "chosen", "rejected", "text", "images")

_IMAGES = ("images", "image", "image_bytes")
_ANSWERS = ("output", "completion", "response", "answer")
_QUESTIONS = ("prompt", "question", "instruction", "query")

_BESIDE = ("input", "context")
"""What stands beside an instruction and belongs to it: Alpaca's and Dolly's word for it."""
_SYSTEM = "system_prompt"
_TREE = "message_tree_id"

Row = Mapping[str, Any]


def drafts(record: Record, config: IngestConfig, _reader: Reader) -> Iterator[Draft | Exclusion]:
    """The draft of one row; of a tree one for each of its dialogues.

    Raises:
        Bad: with the reason.
    """
    row = record.value
    if not isinstance(row, dict):
        raise Bad("not_an_object", f"the row is a JSON {type(row).__name__}, not an object")
    if is_tree(row):
        yield from _of_tree(record, config)
    else:
        yield _draft(record, row, config)


def shows(row: Row) -> bool:
    """Whether a row without a list of turns is a dialogue all the same: by its question and answer, exchanges or tree."""
    if is_tree(row) or exchanged(row.get("texts")) is not None:
        return True
    turns = row.get("conversation")
    if isinstance(turns, list) and turns and all(isinstance(turn, dict) for turn in turns):
        return True
    asked, answered = (any(isinstance(row.get(name), str) for name in names) for names in (_QUESTIONS, _ANSWERS))
    return asked and answered


def _of_tree(record: Record, config: IngestConfig) -> Iterator[Draft | Exclusion]:
    """The dialogues of a tree, each a record of its own; they share a group."""
    row = record.value
    group = row.get(_TREE)
    rest = {key: value for key, value in row.items() if key != "prompt"}
    changes = record.changes
    number = 0
    for number, (name, turns) in enumerate(branches(row["prompt"]), 1):
        one = replace(record, position=f"{record.position}/{name or number}", changes=changes)
        changes = Counter()  # what was altered to read the row is counted once
        try:
            draft = _draft(one, {**rest, "messages": turns}, config)
        except Bad as bad:
            yield exclusion(one.input, one.position, bad.reason, bad.detail)
        else:
            yield replace(draft, group=group if isinstance(group, str) and group else None)
    if not number:
        raise Bad("no_answer", "no message of the tree is an answer")


def _draft(record: Record, row: Row, config: IngestConfig) -> Draft:
    """The draft of a row.

    Raises:
        Bad: with the reason.
    """
    names = {name: config.fields.get(name, name) for name in FIELDS}
    talk = Talk(changes=record.changes, asks=full(row.get("gt")))
    pictures = next((name for name in (names["images"], *_IMAGES) if row.get(name) not in (None, "", b"", [])), None)
    if pictures is not None:
        entries = row[pictures] if isinstance(row[pictures], list) else [row[pictures]]
        talk.images = [image_ref(entry) for entry in entries]
        talk.num_given = len(entries)
    used, segments, relations = _content(row, names, talk)
    metadata = {key: value for key, value in row.items() if key not in used}
    if pictures is not None and talk.images:
        metadata.pop(pictures, None)
    if talk.fields:
        metadata["turn_fields"] = [*talk.fields, *([row["turn_fields"]] if "turn_fields" in metadata else [])]
    return Draft(
        input=record.input,
        position=record.position,
        folder=record.folder,
        segments=tuple(segments),
        images=tuple(talk.images),
        relations=tuple(relations),
        metadata=metadata,
        changes=record.changes,
    )


def _content(row: Row, names: Mapping[str, str], talk: Talk) -> tuple[list[str], list[Segment], list[Relation]]:
    """The fields that were used, the segments and the relations of a row."""
    turns = next((name for name in (names["conversations"], "messages") if row.get(name) is not None), None)
    if all(row.get(names[name]) is not None for name in ("chosen", "rejected")):
        return _pair(row, names, turns, talk)
    if turns is not None or names["conversations"] in row or "messages" in row:
        name = turns or (names["conversations"] if names["conversations"] in row else "messages")
        return _dialogue(row, [name], _turns(_listed(row[name]), talk), name, talk)
    answer = next((name for name in _ANSWERS if _is_said(row.get(name))), None)
    if answer is not None:
        used, question = _question(row, None)
        if question:
            return _dialogue(row, [*used, answer], _shown_first(_answered(question, row[answer]), talk), answer, talk)
    if names["text"] in row:
        if talk.num_given:
            raise Bad("wrong_type", "the row is a text with images; read it with: shardkit ingest rows")
        return [names["text"]], [Segment(kind="text", text=text_field(row, names["text"]))], []
    for name in ("conversation", "texts"):
        listed = _listed(row.get(name))
        if isinstance(listed, list) and listed and (name == "conversation" or exchanged(listed) is not None):
            return _dialogue(row, [name], _turns(listed, talk), name, talk)
    raise Bad("missing_field", f"neither conversations, messages, chosen and rejected nor text (found: {found(row)})")


def _turns(value: Any, talk: Talk) -> Any:
    """Turns as such, whether they were written as turns or as exchanges."""
    turns = exchanged(value)
    return value if turns is None else _shown_first(turns, talk)


def _shown_first(turns: Turns, talk: Talk) -> Turns:
    """`turns` with the images of the row before the first question, where no mark says where they stand."""
    if not talk.num_given or not all(isinstance(turn, dict) for turn in turns) or any(map(_shows, turns)):
        return turns
    place = next((k for k, turn in enumerate(turns) if turn.get("role") == "user"), 0)
    first = turns[place].get("content")
    if not isinstance(first, str):
        return turns
    return [*turns[:place], {**turns[place], "content": PLACEHOLDER * talk.num_given + first}, *turns[place + 1 :]]


def _shows(turn: Mapping[str, Any]) -> bool:
    content = turn.get("content", turn.get("value"))
    return isinstance(content, list) or (isinstance(content, str) and PLACEHOLDER in content)


def _dialogue(
    row: Row, used: list[str], turns: Any, name: str, talk: Talk
) -> tuple[list[str], list[Segment], list[Relation]]:
    opening = {field: segment for field, segment in _opening(row, talk) if field not in used}
    segments = [*opening.values(), *talk.segments(turns, name)]
    shown = tuple(range(len(talk.images)))
    relation = Relation(
        kind="dialogue", images=shown, segments=tuple(range(len(segments))), annotator=annotator_of(row)
    )
    return [*used, *opening], segments, [relation]


def _pair(
    row: Row, names: Mapping[str, str], turns: str | None, talk: Talk
) -> tuple[list[str], list[Segment], list[Relation]]:
    """A preference pair; where its two sides are but answers, the question that stands beside them goes before each."""
    used = [names["chosen"], names["rejected"]]
    sides = [row[name] for name in used]
    if not all(map(_is_whole, sides)):
        asked, question = _question(row, turns)
        if question:
            sides = [_shown_first(_answered(question, side), talk) for side in sides]
            used += asked
        elif all(texts := [spoken(side) for side in sides]):
            sides = texts
    opening = {field: segment for field, segment in _opening(row, talk) if field not in used}
    segments: list[Segment] = []
    relations: list[Relation] = []
    for part, name, side in zip(("chosen", "rejected"), used, sides, strict=False):
        first, held = len(segments), len(talk.images)
        segments += [replace(said, name=joined(part, said.name or "")) for said in opening.values()]
        segments += talk.segments(side, name, part)
        shown = (*range(talk.num_given), *range(max(held, talk.num_given), len(talk.images)))
        relations.append(
            Relation(
                kind="preference",
                images=shown,
                segments=tuple(range(first, len(segments))),
                scope=part,
                annotator=annotator_of(row, (f"{part}_model", f"{part}-model")) or annotator_of(row),
            )
        )
    return [*used, *opening], segments, relations


def _opening(row: Row, talk: Talk) -> Iterator[tuple[str, Segment]]:
    """What a row says before its turns, by field: tools, and the system's text."""
    for name in ("tools", "system"):
        text = carried(row.get(name), talk.changes)
        if text is not None and (name == "tools" or isinstance(row[name], str)):
            yield name, Segment(kind="text", text=text, role="system", name="tools" if name == "tools" else None)


def _listed(value: Any) -> Any:
    """A list of turns that a table holds as its JSON text."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        return parse(value.encode("utf-8", "surrogatepass")).value
    return value


def _is_said(value: Any) -> bool:
    return isinstance(value, str | dict) or (isinstance(value, list) and bool(value))


def _is_whole(side: Any) -> bool:
    """Whether one side of a pair holds its question: it is a list, and no answer begins it."""
    if not isinstance(side, list) or not side or not isinstance(side[0], dict):
        return isinstance(side, list)
    name = side[0].get("role", side[0].get("from"))
    return not isinstance(name, str) or ROLES.get(name.lower()) != "assistant"


def _answered(question: list[Any], side: Any) -> Turns:
    """A question and its answer; a prompt in which speakers are marked ends with the mark of the one who answers."""
    last = question[-1]
    told = continued(last.get("content") if isinstance(last, dict) else None, side)
    return [*question, *_answer(side)] if told is None else [*question[:-1], *told]


def _answer(side: Any) -> Turns:
    if isinstance(side, str):
        return [{"role": "assistant", "content": side}]
    return side if isinstance(side, list) else [side]


def _question(row: Row, turns: str | None) -> tuple[list[str], Turns]:
    """The turns before an answer that stands in a field of its own, and the fields that they come from."""
    name = turns or next((name for name in _QUESTIONS if _is_said(row.get(name))), None)
    if name is None:
        return [], []
    value = _listed(row[name]) if turns else row[name]
    if isinstance(value, list | dict):
        return [name], _answer(value)
    used, text = [name], value
    beside = next((name for name in _BESIDE if isinstance(row.get(name), str)), None)
    if name == "instruction" and beside is not None:
        used.append(beside)
        text = f"{value}\n{row[beside]}" if row[beside] else value
    before: Turns = []
    if full(row.get(_SYSTEM)) and "system" not in row:
        used.append(_SYSTEM)
        before.append({"role": "system", "content": row[_SYSTEM]})
    history = row.get("history")
    if isinstance(history, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in history):
        used.append("history")
        for asked, answered in history:
            before += [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
    return used, [*before, {"role": "user", "content": text}]
