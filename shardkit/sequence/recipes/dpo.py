"""`dpo`: a preference pair, two documents of one sequence, so that no pack parts them.

    chosen    prompt  answer that was preferred          documents = (0, length of the first)
    rejected  prompt  the other answer

The prompt is the turns that both sides begin with; what the assistant says behind it is a target.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.recipes.built import Built
from shardkit.sequence.recipes.chat import lay_out
from shardkit.sequence.recipes.chat_recipe import AnswerRecipe
from shardkit.sequence.recipes.dialogue import SIDES, read_pair
from shardkit.sequence.recipes.draft import side_by_side
from shardkit.sequence.recipes.finish import distinct, too_long
from shardkit.sequence.recipes.overlong import truncated
from shardkit.sequence.recipes.refused import Refused

if TYPE_CHECKING:
    from shardkit.media.processors import Processor
    from shardkit.records import Example
    from shardkit.sequence.recipes.built import Encoder
    from shardkit.sequence.recipes.dialogue import Dialogue
    from shardkit.sequence.recipes.draft import Draft
    from shardkit.sequence.sequence import Sequence


@dataclass(frozen=True, kw_only=True, slots=True)
class Dpo(AnswerRecipe):
    """Preference pairs of `shardkit ingest chat`; --max-tokens holds for both sides together.

    A pair has no windows. `truncate` gives each side half of the room, and what one side leaves of its half to the other.
    What is drawn is drawn once for both sides.
    """

    NAME: ClassVar[str] = "dpo"
    VERSION: ClassVar[int] = 1
    MAX_TOKENS: ClassVar[int] = 4096
    TARGETS: ClassVar[tuple[str, ...]] = SIDES

    supervise_history: bool = False
    """Whether answers inside the prompt, equal on both sides, are targets too."""

    def build(
        self, example: Example, tokenizer: Encoder, processor: Processor | None, max_tokens: int, overlong: str
    ) -> Built:
        drafts: list[Draft] = []
        show = self.shows(example, tokenizer, processor)
        try:
            pair = read_pair(example.segments, images=show is not None)
            first = prompt_turns(*pair)
            for epoch in range(self.alternatives):
                opening = self.opening(pair, example, epoch)
                empty_think = self.shows_empty_think(example, epoch)
                for name, side in zip(SIDES, pair, strict=True):
                    target = 0 if self.supervise_history else first + bool(opening)
                    drawn = side.opened(opening)
                    pieces = lay_out(drawn, empty_think=empty_think, ends=self.supervise_eos, first_target=target)
                    drafts.append(self.encoded(pieces, tokenizer, epoch, OBJECTIVES[name], show))
        except Refused as refused:
            return Built(reason=refused.reason, detail=refused.detail)
        kept, alternatives = distinct(drafts)
        return _finish(example, list(zip(kept[::2], kept[1::2], strict=True)), alternatives, max_tokens, overlong)


def prompt_turns(chosen: Dialogue, rejected: Dialogue) -> int:
    """How many turns both sides begin with.

    Raises:
        Refused: where they are the same throughout, or part at what is no answer.
    """
    if chosen.tools != rejected.tools:
        raise Refused("prompts_differ", "the two sides have different tools")
    for number, (one, other) in enumerate(zip(chosen.turns, rejected.turns, strict=False)):
        if not one.says_the_same(other):
            if {one.role, other.role} != {"assistant"}:
                raise Refused("prompts_differ", f"the two sides part at turn {number + 1}, which is no answer")
            return number
    if len(chosen.turns) == len(rejected.turns):
        raise Refused("same_answers", "the two sides say the same")
    raise Refused("prompts_differ", "one side is the beginning of the other")


def shares(chosen: int, rejected: int, room: int) -> tuple[int, int]:
    """How many tokens of each side fit into `room`: half each, and what one side does not need goes to the other."""
    first = min(chosen, max(room // 2, room - rejected))
    return first, min(rejected, room - first)


def _finish(
    example: Example, pairs: list[tuple[Draft, Draft]], alternatives: int, max_tokens: int, overlong: str
) -> Built:
    longest = max(len(chosen) + len(rejected) for chosen, rejected in pairs)
    if longest > max_tokens and overlong != "truncate":
        hint = "raise --max-tokens, or choose --overlong truncate or drop"
        return too_long(example, longest, max_tokens, overlong, hint)
    sequences: list[Sequence] = []
    for chosen, rejected in pairs:
        cuts = shares(len(chosen), len(rejected), max_tokens)
        sides = [
            side.piece(0, truncated(len(side), side.spans, cut), 0)
            for side, cut in zip((chosen, rejected), cuts, strict=True)
        ]
        for name, side in zip(SIDES, sides, strict=True):
            if not side.num_supervised:
                return Built(reason="no_targets", detail=f"no token of the {name} side is a target")
        number = len(sequences)
        sequences.append(side_by_side(sides, window=number, alternative=chosen.alternative, alternatives=alternatives))
    lost = sum(len(chosen) + len(rejected) for chosen, rejected in pairs) - sum(s.num_tokens for s in sequences)
    changes = sum((draft.changes for pair in pairs for draft in pair), Counter[str]())
    changes.update(examples_truncated=int(lost > 0), tokens_truncated=lost)
    shown = {slot.image for sequence in sequences for slot in sequence.slots}
    changes["images_dropped"] = len(example.images) - len(shown)
    return Built(sequences=tuple(sequences), changes={name: count for name, count in changes.items() if count})
