"""TOML files as editors write them, and those that mean harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardkit.errors import ConfigError
from shardkit.records.toml_file import read_toml


def read(file: Path) -> dict:
    return read_toml(file, "the mixture file", find="check --mixture", write="write by = ...")


def test_a_mark_and_line_ends_of_windows_are_no_content(tmp_path: Path):
    file = tmp_path / "m.toml"
    file.write_bytes(b'\xef\xbb\xbfby = "token"\r\n[weights]\r\nweb = 3\r\n')
    assert read(file) == {"by": "token", "weights": {"web": 3}}


@pytest.mark.parametrize(
    "data",
    [b"by = ", b'by = "\xff"', b"by = " + b"9" * 5000, b"by = " + b"[" * 100_000],
    ids=["cut", "latin-1", "5,000 digits", "brackets"],
)
def test_what_is_no_toml_is_named(data: bytes, tmp_path: Path):
    file = tmp_path / "m.toml"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=r"m\.toml: the mixture file is no TOML \(") as caught:
        read(file)
    assert caught.value.hint == "write by = ..."


@pytest.mark.parametrize("name", ["none.toml", "folder"])
def test_what_cannot_be_read_is_named(name: str, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="the mixture file cannot be read") as caught:
        read(tmp_path / name)
    assert (caught.value.where, caught.value.hint) == (str(tmp_path / name), "check --mixture")
