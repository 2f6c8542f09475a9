"""How large a picture may be. Judged from the header, before any memory for pixels is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from shardkit.errors import ConfigError
from shardkit.media.reasons import BadMedia

PILLOW_MAX_PIXELS = 178_956_970
"""Where Pillow itself refuses a picture; its guard stays switched on, so no limit of ours can lie above."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MediaLimits:
    max_pixels: int = 64_000_000
    """Width times height of one frame."""
    max_bytes: int = 64 * 2**20
    """Size of the file as it came."""
    max_aspect: int = 200
    """Longer side over shorter side."""

    def __post_init__(self) -> None:
        for name in ("max_pixels", "max_bytes", "max_aspect"):
            if getattr(self, name) < 1:
                raise ConfigError(
                    f"the media limit {name} is {getattr(self, name)}", hint=f"give {name} a value above 0"
                )
        if self.max_pixels > PILLOW_MAX_PIXELS:
            raise ConfigError(
                f"max_pixels is {self.max_pixels}, the decoder takes {PILLOW_MAX_PIXELS} at most",
                hint=f"give max_pixels a value up to {PILLOW_MAX_PIXELS}",
            )

    def check_bytes(self, num_bytes: int) -> None:
        if num_bytes == 0:
            raise BadMedia("empty_file", "the file is empty")
        if num_bytes > self.max_bytes:
            raise BadMedia("too_many_bytes", f"{num_bytes} bytes, the limit is {self.max_bytes}")

    def check_size(self, width: int, height: int) -> None:
        if width * height > self.max_pixels:
            claim = f"{width} x {height} = {width * height} pixels"
            raise BadMedia("too_many_pixels", f"{claim}, the limit max_pixels is {self.max_pixels}")
        if max(width, height) > self.max_aspect * min(width, height):
            raise BadMedia("extreme_aspect", f"{width} x {height}, the limit is 1:{self.max_aspect}")
