"""What the recipes of dialogues share: marks, the layout, and what is drawn once a pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from shardkit.errors import ConfigError
from shardkit.sequence.recipes.controls import AUTO
from shardkit.sequence.recipes.draft import Draft
from shardkit.sequence.recipes.draws import choice, happens
from shardkit.sequence.recipes.text_only import TextOnly
from shardkit.text.template import ChatTemplate, TemplateRefused, chatml

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardkit.media.processors import Processor
    from shardkit.records import Example
    from shardkit.sequence.recipes.built import Encoder
    from shardkit.sequence.recipes.chat import Piece
    from shardkit.sequence.recipes.dialogue import Dialogue

Show = Callable[[Draft, int], None]
"""Lays out an image of an example, by its number."""
LAYOUTS = ("chatml",)
"""Layouts from the structure of a dialogue, by name; chat.py has the one that there is."""
MAX_ALTERNATIVES = 256

SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "You answer questions clearly and say so when you are not sure.",
    "You are a careful assistant who gives short, correct answers.",
    "Help with the task at hand, step by step where that is useful.",
    "You are a friendly and knowledgeable partner in conversation.",
    "Answer in the language of the question.",
    "\u4f60\u662f\u4e00\u4e2a\u4e50\u4e8e\u52a9\u4eba\u7684\u52a9\u624b\u3002",
    "\u8bf7\u6e05\u695a\u3001\u51c6\u786e\u5730\u56de\u7b54\u95ee\u9898\uff0c\u4e0d\u786e\u5b9a\u65f6\u8bf7\u8bf4\u660e\u3002",
    "\u4f60\u662f\u4e00\u4e2a\u8ba4\u771f\u7ec6\u81f4\u7684\u52a9\u624b\uff0c\u56de\u7b54\u7b80\u6d01\u3002",
    "\u8bf7\u7528\u63d0\u95ee\u8005\u7684\u8bed\u8a00\u56de\u7b54\u3002",
)
"""Neutral ones, from which a system turn is drawn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatRecipe(TextOnly):
    CONTROLS: ClassVar[tuple[str, ...]] = (
        "im_start", "im_end", "think_start", "think_end", "call_start", "call_end", "response_start", "response_end",
    )  # fmt: skip
    ANY_TEMPLATE: ClassVar[bool] = False
    """Whether any chat template serves, or only one that renders as the layout lays out."""

    im_start: str = AUTO
    """Control token before a turn; "auto" for the tokenizer's."""
    im_end: str = AUTO
    """Control token behind it."""
    think_start: str = AUTO
    """Control token before the reasoning of an answer."""
    think_end: str = AUTO
    """Control token behind it."""
    call_start: str = AUTO
    """Control token before a tool call."""
    call_end: str = AUTO
    """Control token behind it."""
    response_start: str = AUTO
    """Control token before the result of a tool."""
    response_end: str = AUTO
    """Control token behind it."""
    layout: str = "chatml"
    """A name of LAYOUTS."""
    chat_template: ChatTemplate | None = None
    """The template of a model; None is the project's own. On a command line and in a file it is the name of a file."""
    seed: int = 0
    """What is drawn depends on it, on the pass, the example and the purpose."""
    alternatives: int = 1
    """Passes over the data that may differ; pass `e` is drawn like pass e mod alternatives."""
    system_prompts: tuple[str, ...] = SYSTEM_PROMPTS
    """Texts of a drawn system turn. On a command line it is the name of a file that has one in each line."""
    system_prompt_ratio: float = 0.0
    """Share of the examples that get a system turn; never one that has tools or a system turn."""

    def __post_init__(self) -> None:
        template = self.chat_template
        if template is not None and not isinstance(template, ChatTemplate):
            raise ConfigError("chat_template is no ChatTemplate", hint="read one with ChatTemplate.load")
        if self.layout not in LAYOUTS:
            raise ConfigError(f"layout={self.layout!r} is none of {', '.join(LAYOUTS)}", hint="leave out --set layout")
        if template is not None and not self.ANY_TEMPLATE and not _is_chatml(template):
            raise ConfigError(
                f"the chat template does not render dialogues as the layout {self.layout} of recipe {self.NAME} lays them "
                "out, and what of another text the assistant says no template tells",
                where=template.where,
                hint="leave out --chat-template, or tokenize prompts with the recipe rlaif or agent",
            )
        if self.by_template:
            for part in self.CONTROLS:
                object.__setattr__(self, part, "")
        for part in () if self.by_template else ChatRecipe.CONTROLS:
            if not getattr(self, part):
                raise ConfigError(
                    f"{part}='' names no control token; the chat layout needs it",
                    hint=f"name one with --set {part}=TOKEN, or leave it to {part}={AUTO}",
                )
        if not 1 <= self.alternatives <= MAX_ALTERNATIVES:
            raise ConfigError(
                f"alternatives={self.alternatives} is not 1 to {MAX_ALTERNATIVES}", hint="set another with --set"
            )
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_ratio") and not 0 <= value <= 1:
                raise ConfigError(f"{field.name}={value} is not 0 to 1", hint=f"write --set {field.name}=0.2")
        if self.system_prompt_ratio and not (self.system_prompts and all(map(str.strip, self.system_prompts))):
            raise ConfigError("a system prompt is empty, or there is none", hint="give --set system_prompts=FILE")

    @property
    def by_template(self) -> bool:
        """Whether ids come from the text of a template that was given, not from the layout."""
        return self.ANY_TEMPLATE and self.chat_template is not None

    @property
    def template(self) -> ChatTemplate:
        return self.chat_template or chatml()

    def recipe(self) -> dict[str, Any]:
        """Name, version and all fields; the template by its digest."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        # As JSON gives it back, so that a manifest's recipe is equal to this one.
        stated = {"system_prompts": list(self.system_prompts), "chat_template": self.template.digest}
        return {"name": self.NAME, "version": self.VERSION, **values, **stated}

    def opening(self, dialogues: Iterable[Dialogue], example: Example, epoch: int) -> str:
        """The text of the system turn that pass `epoch` puts before the dialogues of an example; "" for none."""
        if not self.system_prompt_ratio or any(dialogue.has_opening for dialogue in dialogues):
            return ""
        key = (self.seed, epoch, example.example_id)
        drawn = happens(self.system_prompt_ratio, *key, "system prompt")
        return choice(self.system_prompts, *key, "which system prompt") if drawn else ""

    def shows(self, example: Example, tokenizer: Encoder, processor: Processor | None) -> Show | None:
        """What lays out the images of an example; None for a recipe that takes none."""
        return None

    def encoded(
        self, pieces: Iterable[Piece], tokenizer: Encoder, alternative: int, objective: int, show: Show | None = None
    ) -> Draft:
        """The tokens of `pieces`, whose targets get `objective`."""
        draft = Draft(alternative)
        controls, encode = tokenizer.controls, tokenizer.encode
        for text, mark, target, image in pieces:
            counts = objective if target else 0
            if mark:
                draft.add_control(controls, getattr(self, mark), counts)
            elif image is not None:
                assert show is not None, "only a dialogue that was read with images has some"
                show(draft, image)
            else:
                draft.add_text(encode(text), counts, [])
        return draft


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerRecipe(ChatRecipe):
    """A recipe whose targets are what the assistant says."""

    empty_think: bool = True
    """Whether an answer without reasoning begins with an empty think block, as the template has it; never a target."""
    think_removal_ratio: float = 0.0
    """Share of the examples from which all empty think blocks are left out."""
    supervise_eos: bool = True
    """Whether the mark that closes an answer, and the line feed behind it, are targets."""

    def shows_empty_think(self, example: Example, epoch: int) -> bool:
        """Drawn once for all answers of an example."""
        return self.empty_think and not happens(
            self.think_removal_ratio, self.seed, epoch, example.example_id, "think removal"
        )


@lru_cache(maxsize=8)
def _is_chatml(template: ChatTemplate) -> bool:
    """Whether the template renders as our own does: turns of all roles, tools, calls, results, reasoning, the prompt."""
    call = {"name": "f", "arguments": {"b": "\u4e00<", "a": [1, None]}}
    turns: list[dict[str, Any]] = [
        {"role": "system", "content": "s\n"},
        {"role": "user", "content": " q"},
        {"role": "assistant", "content": "\n a ", "reasoning_content": "r\n", "tool_calls": [call, {"function": call}]},
        {"role": "tool", "content": "1"},
        {"role": "tool", "content": "2"},
        {"role": "assistant", "content": "", "reasoning_content": "", "tool_calls": [call | {"arguments": "{}"}]},
        {"role": "tool", "content": "3"},
        {"role": "assistant", "content": "b", "reasoning_content": ""},
    ]
    tools = [{"type": "function", "function": {"name": "f", "description": "\u4e00"}}]
    try:
        return all(
            template.render(turns[start:end], tools=given, add_generation_prompt=asked, open_thinking=thinking)
            == chatml().render(turns[start:end], tools=given, add_generation_prompt=asked, open_thinking=thinking)
            for start, end in ((0, 8), (1, 8), (0, 4), (1, 2))
            for given in (None, tools)
            for asked, thinking in ((False, False), (True, False), (True, True))
        )
    except TemplateRefused:
        return False
