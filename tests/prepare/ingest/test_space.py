"""How much disk a run may need is said before it begins; too little space is an error with both numbers."""

import gzip
import json
import os
from types import SimpleNamespace

import pytest
from PIL import Image

from shardkit.cli import run as command
from shardkit.errors import OutputError
from shardkit.prepare.ingest import IngestConfig, run
from shardkit.prepare.ingest import space as module
from shardkit.store.output import Output
from tests.prepare.ingest.builders import jsonl, picture, tar


@pytest.fixture
def free(monkeypatch):
    """Sets how many bytes are free on every disk."""

    def set_free(num_bytes):
        monkeypatch.setattr(module.os, "statvfs", lambda _: SimpleNamespace(f_bavail=num_bytes, f_frsize=1))

    return set_free


def need(kind, *paths, **settings):
    return run(IngestConfig(format=kind, paths=paths, output=None, dry_run=True, **settings)).disk_need


def taken(out):
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(out) for name in names)


def pairs(folder, number=20):
    folder.mkdir()
    for index in range(number):
        (folder / f"{index:03d}.png").write_bytes(picture(index))
        (folder / f"{index:03d}.txt").write_text(f"line {index}")
    return folder


@pytest.mark.parametrize("number", [1, 300])
def test_pairs_need_at_least_what_they_take(tmp_path, number):
    folder = pairs(tmp_path / "in", number)
    run(IngestConfig(format="ocr", paths=(folder,), output=tmp_path / "out"))
    asked = need("ocr", folder)
    assert sum(path.stat().st_size for path in folder.iterdir()) < asked < 20_000 * number
    assert number == 1 or taken(tmp_path / "out") < asked


@pytest.mark.parametrize(("keep_metadata", "most"), [(False, 1.5), (True, 2.5)])
def test_a_file_of_many_pages_is_stored_in_about_its_own_bytes(tmp_path, keep_metadata, most):
    folder = tmp_path / "in"
    folder.mkdir()
    noise = [Image.frombytes("L", (64, 64), os.urandom(4096)) for _ in range(40)]
    noise[0].save(folder / "a.tif", save_all=True, append_images=noise[1:], compression="tiff_lzw")
    (folder / "a.txt").write_text("\f".join(f"page {n}" for n in range(40)))
    size = (folder / "a.tif").stat().st_size
    config = IngestConfig(format="iit-cdip", paths=(folder,), output=tmp_path / "out", keep_metadata=keep_metadata)
    assert run(config).tally.kept == 40
    assert size < sum(path.stat().st_size for path in (tmp_path / "out" / "shards").rglob("*.arrow")) < most * size
    asked = need("iit-cdip", folder, keep_metadata=keep_metadata)
    assert taken(tmp_path / "out") < asked < (most - 0.4) * size + 40 * 2700 + 2000


def test_small_texts_need_more_than_their_bytes(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(jsonl([{"text": f"text {index}"} for index in range(3000)]))
    run(IngestConfig(format="text", paths=(path,), output=tmp_path / "out"))
    assert taken(tmp_path / "out") < need("text", path) < 40 * path.stat().st_size


def test_packed_text_is_taken_to_unpack(tmp_path):
    plain, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    plain.write_bytes(jsonl([{"text": os.urandom(400).hex()} for _ in range(50)]))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert need("text", packed) > need("text", plain) * packed.stat().st_size / plain.stat().st_size * 4


def test_pictures_that_records_name_count_but_no_more_than_they_can_name(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for index in range(200):
        (folder / f"{index:03d}.jpg").write_bytes(picture(index, kind="JPEG"))
    size = max(path.stat().st_size for path in folder.iterdir())
    table = tmp_path / "photos" / "table.csv"
    table.write_text("image,text\n000.jpg,one\n")
    few = need("caption", table)
    assert size < few < 10 * (size + 2000)
    table.write_text("image,text\n" + "".join(f"{index:03d}.jpg,a caption of it\n" for index in range(200)))
    assert need("caption", table) > sum(path.stat().st_size for path in folder.glob("*.jpg"))


def test_pictures_that_nobody_may_name_warn_and_do_not_refuse(tmp_path, free, capsys):
    folder = tmp_path / "photos"
    folder.mkdir()
    for index in range(40):
        (folder / f"{index:03d}.jpg").write_bytes(picture(index, (64, 64), kind="JPEG"))
    table = folder / "table.csv"
    table.write_text("image,text\n" + "".join(f"000.jpg,caption {index}\n" for index in range(30)))
    free(need("caption", table) - 1)
    words = ["ingest", "caption", str(table), "-o", str(tmp_path / "out"), "--workers", "1"]
    assert command(words) == 0
    assert "the disk may be too small" in capsys.readouterr().err
    free(100)
    assert command([*words[:-2], "--overwrite", "--limit", "5"]) == 0
    assert command(["ingest", "caption", str(table), "-o", str(tmp_path / "other")]) == 8


def test_records_of_one_picture_name_no_more_than_there_are(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for index in range(400):
        (folder / f"{index:03d}.jpg").write_bytes(picture(index, kind="JPEG"))
    table = folder / "table.csv"
    table.write_text("image,text\n" + "".join(f"{index:03d}.jpg,{'long ' * 500}\n" for index in range(5)))
    text = table.stat().st_size
    largest = sorted((path.stat().st_size for path in folder.glob("*.jpg")), reverse=True)
    assert need("caption", table) < 2 * text + sum(largest[:120]) + 320_000 < text + sum(largest) + 400 * 1500


def test_a_tar_needs_its_size(tmp_path):
    path = tmp_path / "in.tar"
    path.write_bytes(
        tar([(f"{n}.{ext}", data) for n in range(9) for ext, data in (("png", picture(n)), ("txt", b"t"))])
    )
    assert need("caption", path) == path.stat().st_size


def test_with_a_limit_nothing_is_foretold_or_refused(tmp_path, free):
    folder = pairs(tmp_path / "in")
    free(10)
    assert need("ocr", folder, limit=2) is None
    assert run(IngestConfig(format="ocr", paths=(folder,), output=tmp_path / "out", limit=2)).tally.kept == 2


def test_too_little_space_is_said_with_both_numbers_before_anything_is_written(tmp_path, free):
    folder = pairs(tmp_path / "in")
    free(12_345)
    with pytest.raises(OutputError, match=r"too little space .*it may need \d+\.\d kB, 12\.3 kB are free") as caught:
        run(IngestConfig(format="ocr", paths=(folder,), output=tmp_path / "deep" / "out"))
    assert caught.value.exit_code == 8
    assert "-o" in caught.value.hint
    assert not (tmp_path / "deep" / "out").exists()


def test_what_an_unfinished_run_wrote_is_not_asked_for_again(tmp_path, free, monkeypatch):
    folder = pairs(tmp_path / "in", 60)
    config = IngestConfig(format="ocr", paths=(folder,), output=tmp_path / "out", unit_size=8_000)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Output, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(config)
    monkeypatch.undo()
    total = need("ocr", folder)
    free(total - 1)
    assert run(config).tally.kept == 60


def test_an_unchanged_dataset_asks_for_no_space(tmp_path, free):
    config = IngestConfig(format="ocr", paths=(pairs(tmp_path / "in"),), output=tmp_path / "out")
    run(config)
    free(0)
    assert run(config).unchanged


def test_a_dry_run_prints_it(tmp_path, capsys):
    folder = pairs(tmp_path / "in")
    assert command(["ingest", "ocr", str(folder), "--dry-run", "--workers", "1", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["disk_need"] == need("ocr", folder)
    assert "the dataset may need " in said.err


@pytest.mark.parametrize(
    ("num_bytes", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (2_500_000_000_000_000, "2500.0 TB")]
)
def test_numbers_of_bytes_are_spoken(num_bytes, text):
    assert module.spoken(num_bytes) == text


def test_links_that_lead_nowhere_and_round_are_passed_over(tmp_path):
    folder = pairs(tmp_path / "in")
    table = folder / "pairs.csv"
    table.write_text("image,caption\na.png,a caption that is long enough to name several pictures of this folder\n")
    before = need("caption", table)
    (folder / "round.png").symlink_to("round.png")
    (folder / "gone.png").symlink_to("nowhere.png")
    (folder / "again").symlink_to(folder)
    assert need("caption", table) == before > 0
