"""What recipes of prompts share: the turns before a dialogue's last answer, as ids, as text, and as JSON for a sampler."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shardkit.sequence.recipes.built import Built
from shardkit.sequence.recipes.chat import answer_prompt, lay_out
from shardkit.sequence.recipes.chat_recipe import ChatRecipe
from shardkit.sequence.recipes.dialogue import Dialogue, read_dialogue
from shardkit.sequence.recipes.draft import Draft
from shardkit.sequence.recipes.draws import happens
from shardkit.sequence.recipes.finish import distinct, too_long
from shardkit.sequence.recipes.refused import Refused
from shardkit.sequence.recipes.rendered import render
from shardkit.text.template import TemplateRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardkit.media.processors import Processor
    from shardkit.records import Example
    from shardkit.sequence.recipes.built import Encoder


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptRecipe(ChatRecipe, ABC):
    """A prompt is never cut: one that is longer than --max-tokens is left out."""

    PROMPTS: ClassVar[bool] = True
    ANY_TEMPLATE: ClassVar[bool] = True
    TARGETS: ClassVar[tuple[str, ...]] = ()

    open_thinking_ratio: float = 0.0
    """Share of the prompts that end with an open think block; the others end with an empty one."""

    @abstractmethod
    def beside(self, example: Example, last: str) -> dict[str, Any]:
        """What the JSON of the prompt holds beside text, messages and tools.

        Args:
            last: the text of the answer that is left away.

        Raises:
            Refused: where something is missing.
        """

    def build(
        self, example: Example, tokenizer: Encoder, processor: Processor | None, max_tokens: int, overlong: str
    ) -> Built:
        """`processor` is not used."""
        del processor
        drafts, prompts = [], []
        try:
            dialogue = read_dialogue(example.segments)
            asked = _asked(dialogue)
            ids = call_ids(dialogue, json.loads(example.metadata))
            beside = self.beside(example, dialogue.turns[-1].content)
            for epoch in range(self.alternatives):
                drawn = asked.opened(self.opening([dialogue], example, epoch))
                key = (self.seed, epoch, example.example_id)
                messages = _with(ids, drawn.messages())
                thinking = happens(self.open_thinking_ratio, *key, "open thinking")
                text, draft = self._prompt(drawn, messages, tokenizer, epoch, thinking)
                drafts.append(draft)
                said = {"text": text, "messages": messages, "tools": list(drawn.tools), **beside}
                prompts.append(json.dumps(said, ensure_ascii=False, separators=(",", ":")))
        except Refused as refused:
            return Built(reason=refused.reason, detail=refused.detail)
        kept, alternatives = distinct(drafts)
        longest = max(map(len, kept))
        if longest > max_tokens:
            return too_long(example, longest, max_tokens, overlong, "raise --max-tokens, or choose --overlong drop")
        return Built(
            sequences=tuple(
                draft.piece(0, len(draft), number, alternatives, prompt)
                for number, (draft, prompt) in enumerate(zip(kept, prompts, strict=False))
            )
        )

    def _prompt(
        self, dialogue: Dialogue, messages: list[dict[str, Any]], tokenizer: Encoder, alternative: int, thinking: bool
    ) -> tuple[str, Draft]:
        """The text and the tokens of a prompt; `messages` are the dialogue's."""
        # With reasoning given, be it empty, no template looks for it in the content.
        messages = [
            {"reasoning_content": "", **message} if message["role"] == "assistant" else message for message in messages
        ]
        tools = list(dialogue.tools)
        options = {"add_generation_prompt": True, "open_thinking": thinking}
        if self.by_template:
            rendered = render(self.template, messages, tools, tuple(tokenizer.controls), **options)
            draft = Draft(alternative)
            for piece in rendered.pieces:
                if piece.mark:
                    draft.add_control(tokenizer.controls, piece.mark)
                else:
                    draft.add_text(tokenizer.encode(piece.text), 0, [])
            if not len(draft):
                raise Refused("template_refused", "the template renders nothing that has a token")
            return rendered.text, draft
        pieces = [*lay_out(dialogue, empty_think=True), *answer_prompt(open_thinking=thinking)]
        try:
            text = self.template.render(messages, tools=tools, **options)
        except TemplateRefused as refused:
            raise Refused("template_refused", str(refused)) from None
        return text, self.encoded(pieces, tokenizer, alternative, 0)


def _asked(dialogue: Dialogue) -> Dialogue:
    """The turns before the last answer."""
    if not dialogue.turns or dialogue.turns[-1].role != "assistant":
        raise Refused("last_turn", "its last turn is not the assistant's")
    asked = dialogue[:-1]
    if not asked.turns or asked.turns[-1].role not in ("user", "tool"):
        raise Refused("no_prompt", "no turn of a user or a tool stands before the last answer")
    return asked


def call_ids(dialogue: Dialogue, metadata: Mapping[str, Any]) -> list[dict[str, str]]:
    """For each result of a tool the id of its call, and the tool's name where the row has it; [] where one is missing.

    Ingest keeps what a turn carries besides in `turn_fields`, by the number of the turn in the row. Only where as many
    turns have a `tool_call_id` as there are results is it sure which is whose.
    """
    listed = metadata.get("turn_fields")
    fields = [one.get("fields") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    found = [
        {name: one[name] for name in ("tool_call_id", "name") if isinstance(one.get(name), str)}
        for one in fields
        if isinstance(one, dict) and isinstance(one.get("tool_call_id"), str)
    ]
    return found if len(found) == sum(turn.role == "tool" for turn in dialogue.turns) else []


def _with(ids: list[dict[str, str]], messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    left = iter(ids)
    return [{**message, **next(left, {})} if message["role"] == "tool" else message for message in messages]
