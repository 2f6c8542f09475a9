"""dedup, split, verify, audit, stats, head and schema, as a user meets them."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from shardkit.cli import COMMANDS, run
from shardkit.store import Dataset
from tests.prepare.audit.planting import first_of, rewrite
from tests.prepare.builders import example, png, write

RATIOS = ["--ratios", "train=0.5,test=0.5"]


@pytest.fixture
def road(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    rows = [example(f"t {k}", png(k), group=f"g{k // 2}") for k in range(20)]
    write(
        tmp_path / "a",
        [*rows, rows[4], example("t 3", png(3, level=0)), example("caption", png(50)), example("caption", png(51))],
    )
    assert run(["dedup", f"{tmp_path}/a", "-o", f"{tmp_path}/c", "--workers", "1"]) == 0
    assert run(["split", f"{tmp_path}/c", "-o", f"{tmp_path}/s", *RATIOS, "--workers", "1"]) == 0
    capsys.readouterr()
    return tmp_path


def json_of(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict:
    assert run([*arguments, "--json"]) == code
    return orjson.loads(capsys.readouterr().out)


def test_stdout_is_a_path_and_an_id_and_people_are_told_on_stderr(road: Path, capsys: pytest.CaptureFixture[str]):
    assert (
        run(
            [
                "dedup",
                f"{road}/a",
                "-o",
                f"{road}/c2",
                "--level",
                "exact,text",
                "--level",
                "pixel,perceptual",
                "--workers",
                "1",
            ]
        )
        == 0
    )
    out, err = capsys.readouterr()
    assert out == f"{road}/c2\t{Dataset.open(road / 'c').id}\n"
    assert err.splitlines() == [
        "read 24 examples, kept 22, excluded 2",
        "  source       read      exact      pixel perceptual       text       kept",
        "  test           24          1          1          0          0         22",
        "texts beside several images: 1, in 2 examples; they stay",
        "         2  caption",
    ]
    assert run(["split", f"{road}/c", "-o", f"{road}/s", *RATIOS, "--quiet", "--workers", "1"]) == 0
    assert capsys.readouterr() == (f"{road}/s\t{Dataset.open(road / 's').id}\n", "")


def test_json_has_the_counts(road: Path, capsys: pytest.CaptureFixture[str]):
    found = json_of(capsys, "dedup", f"{road}/a", "-o", f"{road}/c", "--workers", "1")
    assert found["unchanged"] is True
    assert {name: found[name] for name in ("dataset", "id", "read", "kept", "excluded", "excluded_by_reason")} == {
        "dataset": f"{road}/c", "id": Dataset.open(road / "c").id, "read": 24, "kept": 22, "excluded": 2,
        "excluded_by_reason": {"duplicate_exact": 1, "duplicate_pixel": 1},
    }  # fmt: skip
    found = json_of(capsys, "split", f"{road}/c", "-o", f"{road}/s2", *RATIOS, "--workers", "1")
    assert found["id"] == Dataset.open(road / "s2").id
    assert (found["read"], found["kept"]) == (22, 22)


@pytest.mark.parametrize("command", [["dedup", "a"], ["split", "c", *RATIOS]])
def test_a_dry_run_prints_the_table_and_writes_nothing(
    road: Path, capsys: pytest.CaptureFixture[str], command: list[str]
):
    before = sorted(road.rglob("*"))
    name, source, *rest = command
    assert run([name, f"{road}/{source}", *rest, "--dry-run", "--workers", "1"]) == 0
    out, _ = capsys.readouterr()
    assert out.startswith("read 2")
    assert sorted(road.rglob("*")) == before
    found = json_of(capsys, name, f"{road}/{source}", *rest, "--dry-run", "--workers", "1")
    assert (found["dataset"], found["id"]) == (None, None)


def test_errors_are_one_message_and_a_way_out(road: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["dedup", f"{road}/a", "--level", "fuzzy", "--dry-run"]) == 3
    assert capsys.readouterr().err == (
        "there is no level 'fuzzy'; there are exact, pixel, perceptual, text, semantic\nNext: choose with --level\n"
    )
    assert run(["dedup", f"{road}/a"]) == 3
    assert "no output" in capsys.readouterr().err
    assert run(["split", f"{road}/c", "-o", f"{road}/s", "--ratios", "train=0.4,test=0.6", "--workers", "1"]) == 8
    assert "ratios was" in capsys.readouterr().err
    assert run(["verify", f"{road}/nothing"]) == 4
    assert run(["head", f"{road}/s", "--split", "dev"]) == 3
    assert run(["split", f"{road}/c", "-o", f"{road}/x"]) == 2


def test_a_refused_run_leaves_nothing_in_the_way(road: Path):
    command = ["split", f"{road}/c", "-o", f"{road}/x", "--ratios", "train=0.999,test=0.001", "--workers", "1"]
    assert run(command) == 3
    assert not (road / "x").exists()
    assert run([*command, "--allow-empty"]) == 0


def test_verify_prints_what_is_wrong_and_exits_with_5(road: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["verify", f"{road}/s", "--deep", "--workers", "1"]) == 0
    assert capsys.readouterr().out == f"{road}/s\t{Dataset.open(road / 's').id}\t11 files and 22 examples are whole\n"
    shard = Dataset.open(road / "s").shards[0]
    shard.path.write_bytes(shard.path.read_bytes() + b"\0")
    (road / "s" / "notes.txt").write_bytes(b"")
    assert run(["verify", f"{road}/s", "--workers", "1"]) == 5
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == "not of the dataset: notes.txt"
    assert f"{shard.name}: the file has {shard.entry.size + 1} bytes, the manifest says {shard.entry.size}" in err
    found = json_of(capsys, "verify", f"{road}/s", "--workers", "1", code=5)
    assert (found["ok"], found["stray"], len(found["problems"])) == (False, ["notes.txt"], 1)


def test_audit_prints_what_leaks_and_exits_with_6(road: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["audit", f"{road}/s", "--workers", "1"]) == 0
    kinds = "asset, pixel, text, group, parent, near_picture, near_page, near_text"
    assert capsys.readouterr().out == f"{road}/s\tno leak between train, test in 22 examples ({kinds})\n"
    assert run(["audit", f"{road}/c", "--workers", "1"]) == 0
    assert "never split" in capsys.readouterr().out
    shard, _ = first_of(road / "s", "test")
    _, taken = first_of(road / "s", "train")
    rewrite(road / "s", shard, lambda rows: [taken, *rows[1:]])
    assert run(["audit", f"{road}/s", "--workers", "1"]) == 6
    out, err = capsys.readouterr()
    assert out == ""
    assert f"asset {taken.images[0].asset_id}: test: 1 examples" in err
    assert "1 of kind asset, 1 of kind pixel, 1 of kind text, 1 of kind group; first, asset" in err
    found = json_of(capsys, "audit", f"{road}/s", "--workers", "1", code=6)
    assert found["ok"] is False
    assert found["leaks"]["asset"] == 1


def test_stats_and_head_speak_text_and_json(road: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["stats", f"{road}/s", "--workers", "1"]) == 0
    out, _ = capsys.readouterr()
    assert out.startswith(f"{road}/s\t")
    assert "test / train" in out
    assert json_of(capsys, "stats", f"{road}/s", "--workers", "1")["totals"]["examples"] == 22
    assert run(["head", f"{road}/a", "-n", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert len(json_of(capsys, "head", f"{road}/a", "-n", "2")["examples"]) == 2


def test_schema_has_every_command_with_its_options(capsys: pytest.CaptureFixture[str]):
    found = json_of(capsys, "schema")
    assert {name.split(" ")[0] for name in found["commands"]} == set(COMMANDS)
    assert {"tokenizer train", "tokenizer report"} <= set(found["commands"])
    assert found["commands"]["dedup"]["options"]["--priority"] == {
        "names": ["--priority"], "argument": False, "required": False, "repeatable": True, "flag": False, "choices": None,
        "help": "Keep examples of this source rather than others. Repeatable, the first before the second.",
    }  # fmt: skip
    assert found["commands"]["split"]["options"]["--shards"]["choices"] == ["arrow", "tar"]
    assert found["commands"]["audit"]["options"]["dataset"]["required"] is True
    assert found["commands"]["verify"]["answer"]["stray"] == "files that are not of the dataset"
    streams = {"train", "rollout-prompts", "schema"}  # a line of its own, lines, this object
    assert {name for name, one in found["commands"].items() if one["answer"] is None} == streams
    for name, command in found["commands"].items():
        assert "--json" in command["options"], name
        assert "--quiet" in command["options"], name
    assert run(["schema"]) == 0
    assert "duplicate_exact" in capsys.readouterr().out
