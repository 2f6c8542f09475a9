"""A sequence while it is being laid out: ids and objectives in the same breath, image spans as they come."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.sequence import Sequence, Slot

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Sequence as List

    import numpy.typing as npt

    from shardkit.media.processors.geometry import Geometry

Span = tuple[int, int]
"""[start, end) of an image, the tokens around its slots included."""
_BYTES = [bytes([objective]) for objective in range(256)]


class Draft:
    """All tokens of an example, before it is cut to length.

    Args:
        alternative: which passes over the data see it, where passes differ; see `Sequence`.
    """

    def __init__(self, alternative: int = 0) -> None:
        self.alternative = alternative
        self.ids: list[int] = []
        self.objectives = bytearray()
        self.slots: list[Slot] = []
        self.spans: list[Span] = []
        """One for each slot, in order."""
        self.changes: Counter[str] = Counter()
        """What was altered while it was laid out, by a name of CHANGES of the recipes."""
        self.has_target = False
        """Whether a token of a text is a target; an end alone, or white space, is nothing to learn."""
        self._after_text = False

    def __len__(self) -> int:
        return len(self.ids)

    def add_control(self, controls: Mapping[str, int], name: str, objective: int = 0) -> None:
        """The control token `name`; "" adds nothing."""
        if name:
            self.ids.append(controls[name])
            self.objectives.append(objective)

    def add_text(self, ids: list[int], objective: int, separator: list[int], *, blank: bool = False) -> None:
        """A text; behind another text `separator` stands before it. One that is `blank`, white space, is no reason to learn."""
        if not ids:
            return
        self._add([*separator, *ids] if separator and self._after_text else ids, objective)
        self._after_text = True
        self.has_target |= objective > 0 and not blank and len(self.ids) > 1

    def add_image(
        self,
        image: int,
        geometry: Geometry,
        before: list[int],
        patch: int,
        after: list[int],
        *,
        tokens: int | None = None,
        ocr_labels: tuple[int, ...] | None = None,
        reading_order: tuple[int, ...] | None = None,
    ) -> None:
        """`before`, one `patch` for each slot of the processed image, `after`; none of them a target.

        Args:
            tokens: patches that stand for the image, where it is not one a slot.
        """
        start = len(self.ids)
        count = geometry.slots if tokens is None else tokens
        self._add([*before, *[patch] * count, *after], 0)
        self.spans.append((start, len(self.ids)))
        height, width = geometry.shown
        self.slots.append(
            Slot(
                start=start + len(before),
                count=count,
                image=image,
                height=geometry.height,
                width=geometry.width,
                used_height=height,
                used_width=width,
                ocr_labels=ocr_labels,
                reading_order=reading_order,
            )
        )
        self._after_text = False

    def _add(self, ids: list[int], objective: int) -> None:
        self.ids += ids
        self.objectives += _BYTES[objective] * len(ids)

    def last_objective(self) -> int:
        """What the end is a target of: the last text's objective, so that no objective gets tokens of another."""
        return next((objective for objective in reversed(self.objectives) if objective), OBJECTIVES["text"])

    def same_tokens(self, other: Draft) -> bool:
        """Whether `other` says the same, whatever alternative it is of."""
        return (self.ids, self.objectives, self.slots) == (other.ids, other.objectives, other.slots)

    def piece(self, start: int, end: int, window: int, alternatives: int = 1, prompt: str | None = None) -> Sequence:
        """Tokens [start, end) as a sequence of their own; its first token has lost what it would follow from."""
        objectives = bytearray(self.objectives[start:end])
        objectives[:1] = bytes(min(1, len(objectives)))
        kept = [
            replace(s, start=s.start - start)
            for s, (first, last) in zip(self.slots, self.spans, strict=True)
            if start <= first and last <= end
        ]
        ids: npt.NDArray[np.unsignedinteger[Any]] = np.array(self.ids[start:end], dtype=np.uint32)
        return Sequence(
            input_ids=ids,
            objectives=bytes(objectives),
            slots=tuple(kept),
            window=window,
            alternative=self.alternative,
            alternatives=alternatives,
            prompt=prompt,
        )


def side_by_side(documents: List[Sequence], *, window: int, alternative: int, alternatives: int) -> Sequence:
    """Documents as one sequence, each a document of its own in it, with its images."""
    starts = np.cumsum([0, *(document.num_tokens for document in documents)])
    return Sequence(
        input_ids=np.concatenate([document.input_ids for document in documents]),
        objectives=b"".join(document.objectives for document in documents),
        slots=tuple(
            replace(slot, start=int(start) + slot.start)
            for start, document in zip(starts, documents, strict=False)
            for slot in document.slots
        ),
        window=window,
        documents=tuple(starts[:-1].tolist()),
        alternative=alternative,
        alternatives=alternatives,
    )
