"""Recipes from a command line and from TOML: settings that name files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shardkit.errors import ConfigError
from shardkit.media.processors import PixelBudget, hf
from shardkit.prepare.tokenize.settings import read_recipe
from shardkit.text.template import chatml


def settings_of(*args: Any) -> dict[str, Any]:
    return read_recipe(*args).recipe()


def test_texts_stand_in_a_file_one_a_line(tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("Be kind. \n\n\u4f60\u597d\u2028!\n", encoding="utf-8")
    found = settings_of("sft", {"system_prompts": str(tmp_path / "prompts.txt"), "system_prompt_ratio": "0.2"})
    assert (found["system_prompts"], found["system_prompt_ratio"]) == (["Be kind.", "\u4f60\u597d\u2028!"], 0.2)


def test_files_that_a_toml_file_names_lie_beside_it(tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text(chatml().source + "{# ours #}", encoding="utf-8")
    (tmp_path / "p.txt").write_text("A.\n", encoding="utf-8")
    toml = 'name = "sft"\nchat_template = "t.jinja"\nsystem_prompts = "p.txt"\nthink_removal_ratio = 0.5\n'
    (tmp_path / "my.toml").write_text(toml, encoding="utf-8")
    found = settings_of(str(tmp_path / "my.toml"), {})
    assert (found["system_prompts"], found["think_removal_ratio"]) == (["A."], 0.5)
    assert found["chat_template"] != chatml().digest
    assert settings_of(str(tmp_path / "my.toml"), {"system_prompts": str(tmp_path / "p.txt")}) == found
    (tmp_path / "my.toml").write_text('name = "sft"\nsystem_prompts = ["A."]\n', encoding="utf-8")
    assert settings_of(str(tmp_path / "my.toml"), {})["system_prompts"] == ["A."]


def test_a_template_is_a_setting_or_an_option(tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text("{{ messages[0].content }}", encoding="utf-8")
    by_option = settings_of("rlaif", {}, tmp_path / "t.jinja")
    assert settings_of("rlaif", {"chat_template": str(tmp_path / "t.jinja")}) == by_option
    assert by_option["chat_template"] != settings_of("rlaif", {})["chat_template"] == chatml().digest


@pytest.mark.parametrize(
    ("recipe", "settings", "template", "says"),
    [
        ("pretrain", {}, "t.jinja", "recipe pretrain has no chat template"),
        ("sft", {}, "t.jinja", "the chat template does not render dialogues as the layout chatml of recipe sft"),
        ("rlaif", {}, "none.jinja", "the chat template cannot be read (No such file or directory)"),
        ("rlaif", {"system_prompts": "none.txt"}, None, "the texts cannot be read (No such file or directory)"),
        ("rlaif", {"system_prompts": "bad.txt"}, None, "the texts cannot be read (it is no UTF-8 text)"),
    ],
)
def test_a_file_that_does_not_serve_is_refused(
    tmp_path: Path, recipe: str, settings: dict[str, str], template: str | None, says: str
) -> None:
    (tmp_path / "t.jinja").write_text("{{ messages[0].content }}", encoding="utf-8")
    (tmp_path / "bad.txt").write_bytes(b"\xff\n")
    placed = {key: str(tmp_path / value) for key, value in settings.items()}
    with pytest.raises(ConfigError) as caught:
        read_recipe(recipe, placed, tmp_path / template if template else None)
    assert caught.value.what.startswith(says)
    assert caught.value.hint


def test_the_folder_of_a_processor_lies_beside_the_toml_file_too(tmp_path: Path) -> None:
    (tmp_path / "qwen").mkdir()
    (tmp_path / "qwen" / "preprocessor_config.json").write_bytes(
        hf.files(PixelBudget(max_pixels=200704, hold_sides=False))["preprocessor_config.json"]
    )
    (tmp_path / "my.toml").write_text('name = "vlm"\nprocessor = "hf:qwen"\n', encoding="utf-8")
    found = settings_of(str(tmp_path / "my.toml"), {})
    assert (found["processor"], found["max_pixels"]) == ("pixel-budget", 200704)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("processor = 3", "processor=3 is none of square"),
        ("processor = {name = 'square'}", "processor={'name': 'square'} is none of square"),
        ("processor = ['square']", "processor=['square'] is none of square"),
        ("image_size = 99999999999999999999", "image_size=99999999999999999999 is not"),
        ("seed = -99999999999999999999", "seed=-99999999999999999999 is not"),
        ("seed = 2026-11-30", "seed=datetime.date(2026, 11, 30) is not a whole number"),
        ("bos = [1]", "bos=[1] is not text"),
    ],
)
def test_a_toml_value_of_another_kind_is_refused(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "my.toml").write_text(f'name = "vlm"\n{line}\n', encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_recipe(str(tmp_path / "my.toml"), {})
    assert caught.value.what.startswith(says)


@pytest.mark.parametrize(
    ("line", "says", "hint"),
    [
        ("chat_template = 3", "chat_template=3 is no name of a file", "write chat_template = 'FILE'"),
        (
            "system_prompts = ['a', 3]",
            "system_prompts=['a', 3] is not a list of texts",
            "write system_prompts = [...] in a TOML file, or --set system_prompts=FILE, a file with one text in each line",
        ),
    ],
)
def test_settings_that_may_be_files_say_so(tmp_path: Path, line: str, says: str, hint: str) -> None:
    (tmp_path / "my.toml").write_text(f'name = "sft"\n{line}\n', encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_recipe(str(tmp_path / "my.toml"), {})
    assert (caught.value.what, caught.value.hint) == (says, hint)
