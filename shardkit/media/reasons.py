"""Why a file is no picture for us: a closed list of codes, and the exception that carries one."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "empty_file": "the file has no bytes",
    "not_an_image": "the bytes are no picture: a web page, text, an archive, or nothing known",
    "unsupported_format": "a picture or document of a kind that is not taken, or whose decoder is not installed",
    "truncated": "the file ends before its picture does",
    "corrupt": "the file cannot be decoded",
    "too_many_bytes": "the file is larger than the limit on bytes",
    "too_many_pixels": "the header claims more pixels than the limit",
    "extreme_aspect": "one side is longer than the limit allows for the other",
    "no_such_frame": "the file has fewer frames or pages than asked for",
}
"""Code -> what it means; ingest turns a BadMedia into an exclusion with this code as its reason."""


class BadMedia(Exception):  # noqa: N818 - it is a finding about the data, not an error of the program
    """A file that is not taken. `reason` is a code of `REASONS`, `detail` one sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        assert reason in REASONS, reason
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"
