"""Containment: a path from data opens regular files inside the roots and nothing else."""

from __future__ import annotations

import os
import unicodedata

import pytest

from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.roots import Roots, is_address, locate, read_bounded


@pytest.fixture
def places(tmp_path):
    """root/ with links and special files, and a sibling whose name begins alike."""
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "root-2").mkdir()
    (tmp_path / "root-2" / "secret.png").write_bytes(b"secret")
    (root / "a.png").write_bytes(b"inside")
    (root / "inside.png").symlink_to("a.png")
    (root / "out.png").symlink_to("../root-2/secret.png")
    (root / "far").symlink_to("/etc")
    (root / "loop.png").symlink_to("loop.png")
    (root / "dangling.png").symlink_to("nothing.png")
    os.mkfifo(root / "pipe.png")
    return str(root)


@pytest.mark.parametrize("text", ["a.png", "./a.png", "sub/../a.png", "inside.png"])
def test_what_ends_inside_is_read(places, text):
    assert read_bounded(locate(text, (places,)), 100, text) == b"inside"


def test_backslashes_part_folders_where_no_file_is_called_so(places):
    assert locate("sub\\..\\a.png", (places,)) == f"{places}/a.png"
    with open(f"{places}/sub\\..\\a.png", "wb"):
        pass
    assert locate("sub\\..\\a.png", (places,)) == f"{places}/sub\\..\\a.png"


@pytest.mark.parametrize(("there", "asked"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_name_is_found_in_the_other_form_of_unicode(tmp_path, there, asked):
    name = unicodedata.normalize(there, "caf\u00e9.png")
    (tmp_path / name).write_bytes(b"x")
    assert locate(unicodedata.normalize(asked, name), (str(tmp_path),)) == str(tmp_path / name)


def test_an_absolute_path_inside_a_root_is_read(places):
    assert locate(f"{places}/a.png", (places,)) == f"{places}/a.png"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("../root-2/secret.png", "path_outside"),
        ("C:\\a.png", "asset_missing"),
        ("/etc/hostname", "path_outside"),
        ("out.png", "path_outside"),
        ("far/hostname", "path_outside"),
        ("../nothing.png", "path_outside"),
        ("nothing.png", "asset_missing"),
        ("a.png/below.png", "asset_missing"),
        ("dangling.png", "asset_missing"),
        ("nul\0.png", "asset_missing"),
        ("", "asset_missing"),
        ("x" * 5000, "asset_missing"),
        ("sub", "asset_folder"),
        ("loop.png", "asset_loop"),
        ("pipe.png", "asset_special"),
    ],
)
def test_everything_else_is_refused_with_its_own_reason(places, text, reason):
    with pytest.raises(Bad) as bad:
        locate(text, (places,))
    assert bad.value.reason == reason


def test_the_first_root_that_has_the_file_gives_it(places, tmp_path):
    other = str(tmp_path / "root-2")
    assert locate("secret.png", (places, other)) == f"{other}/secret.png"


def test_a_file_over_the_limit_is_not_read(places):
    with pytest.raises(Bad, match="6 bytes, the limit is 5") as bad:
        read_bounded(f"{places}/a.png", 5, "a.png")
    assert bad.value.reason == "too_many_bytes"


@pytest.mark.parametrize("name", ["pipe.png", "inside.png", "sub"])
def test_what_was_put_there_after_the_look_is_not_opened(places, name):
    with pytest.raises(Bad):
        read_bounded(f"{places}/{name}", 100, name)


def test_no_permission_is_a_reason_of_its_own(places, monkeypatch):
    def refuse(*_args, **_more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(Bad) as bad:
        read_bounded(f"{places}/a.png", 100, "a.png")
    assert bad.value.reason == "asset_unreadable"


def test_names_are_relative_and_lead_back(tmp_path):
    roots = Roots(input_root="/data/in", images=("/data/pictures", "/data/in/sub"), maps=("/store",))
    for path, name in [
        ("/data/in/x/a.png", "x/a.png"), ("/data/pictures/b.png", "@images0/b.png"), ("/store/c/d.png", "@map0/c/d.png"),
    ]:  # fmt: skip
        assert roots.name(path) == name
        assert roots.path(name) == path
    assert roots.path("@images7/b.png") is None


@pytest.mark.parametrize("text", ["https://x/y", "file:///etc/hostname", "data:,", "ftp://x", "//host/x", "HTTP:x"])
def test_addresses_are_told_from_paths(text):
    assert is_address(text)


@pytest.mark.parametrize("text", ["a.png", "/a.png", "C:\\a.png", "a:b.png"[2:], "../a", "x/https://y"])
def test_paths_are_told_from_addresses(text):
    assert not is_address(text)
