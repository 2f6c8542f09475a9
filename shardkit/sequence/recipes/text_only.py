"""What recipes share that make sequences without images."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from shardkit.media.processors import Processor


@dataclass(frozen=True, kw_only=True, slots=True)
class TextOnly:
    NAME: ClassVar[str]
    VERSION: ClassVar[int]
    PROMPTS: ClassVar[bool] = False

    def recipe(self) -> dict[str, Any]:
        """Name, version and all fields: what goes into the fingerprint."""
        return {"name": self.NAME, "version": self.VERSION, **asdict(self)}

    @property
    def patch_pixels(self) -> int:
        return 1

    def image_processor(self) -> Processor | None:
        """There is none."""
        return None
