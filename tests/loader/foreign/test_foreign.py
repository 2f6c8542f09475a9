"""Files that were never ingested: as they were written by other libraries, packed like a dataset, resumed with less."""

import gc
import io
import json
import pickle
import random
import tarfile

import datasets
import numpy as np
import pytest
import webdataset
from PIL import Image
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from shardkit.errors import ConfigError, IntegrityError, OutputError, ResumeError, SourceError
from shardkit.loader import Promise, StreamingLoader, unpack
from shardkit.loader.foreign import ForeignLoader, HFDataset, WebDatasetTars
from tests.loader.builders import seen
from tests.loader.conftest import TOKENIZER, WORDS, ingest, tokenize

SETTINGS = {"image_size": 56}


def picture(number, kind):
    chance = np.random.default_rng(number)
    size = chance.integers(30, 90, 2)
    small = Image.fromarray(chance.integers(0, 256, (4, 5, 3), np.uint8)).resize(tuple(map(int, size)))
    out = io.BytesIO()
    small.save(out, kind)
    return out.getvalue()


@pytest.fixture(scope="module")
def pairs():
    """(key, text, pictures) of 60 samples; each eighth has two pictures, each tenth none."""
    chance = random.Random(0)
    found = []
    for number in range(60):
        pictures = [picture(number * 3 + at, "JPEG" if number % 3 else "PNG") for at in range(1 + (number % 8 == 0))]
        text = " ".join(chance.choices(WORDS, k=chance.randint(2, 30))) + f" {number}"
        if number % 8 == 0:
            text = f"<image>{text}<image> and more"
        found.append((f"{number:04}", text, pictures if number % 10 != 9 else []))
    return found


@pytest.fixture(scope="module")
def tars(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("tars")
    with webdataset.ShardWriter(str(folder / "%03d.tar"), maxcount=25, verbose=0) as writer:
        for key, text, pictures in pairs:
            kind = ["png" if data[:2] == b"\x89P" else "jpg" for data in pictures]
            members = {f"{at}.{kind[at]}": data for at, data in enumerate(pictures)}
            writer.write({"__key__": key, "txt": text, "json": {"caption": text.upper()}, **members})
    return sorted(folder.glob("*.tar"))


@pytest.fixture(scope="module")
def rows(pairs):
    features = datasets.Features({"said": datasets.Value("string"), "shown": [datasets.Image()]})
    values = {
        "said": [text for _, text, _ in pairs],
        "shown": [[{"bytes": b, "path": None} for b in p] for *_, p in pairs],
    }
    return datasets.Dataset.from_dict(values, features=features)


def make(source, **more):
    options = {"tokenizer": TOKENIZER, "settings": SETTINGS, "max_tokens": 128, "global_batch": 2, "tail": "pad"}
    return ForeignLoader(source, **{**options, **more})


def delivered(loader):
    """text ids and pixels of each sequence, as a sorted list."""
    return sorted(
        (one.sequence.input_ids.tolist(), [pixels.tobytes() for pixels in one.pixels])
        for batch in loader
        for pack in unpack(batch)
        for one in pack
    )


def test_tars_and_rows_give_what_an_ingested_dataset_gives(tmp_path, pairs, tars, rows):
    folder = tmp_path / "pairs"
    folder.mkdir()
    lines = []
    for key, text, pictures in pairs:
        names = []
        for at, data in enumerate(pictures):
            names.append(f"{key}-{at}.{'png' if data[:2] == bytes([0x89, 0x50]) else 'jpg'}")
            (folder / names[-1]).write_bytes(data)
        marked = text if "<image>" in text else "<image>" * len(pictures) + text
        # What has fewer pictures than places is left out on both sides.
        lines.append(json.dumps({"text": marked, "images": names}))
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    ours = tokenize(ingest(folder / "rows.jsonl", tmp_path / "ingested", "--max-bad", 1), out=tmp_path / "tokens")
    with StreamingLoader(ours, max_tokens=128, tail="pad") as loader:
        expected = delivered(loader)

    assert delivered(make(WebDatasetTars(tars))) == expected
    assert delivered(make(HFDataset(rows, text="said", images="shown"))) == expected


def test_samples_are_named_and_those_left_out_are_counted(pairs, tars):
    loader = make(WebDatasetTars(tars, name="pairs"))

    ids = [one for batch in loader for one in batch.ids]
    left = [key for key, text, pictures in pairs if "<image>" in text and len(pictures) != 2]

    assert sorted(set(ids)) == [
        f"{number // 25:03}.tar/{key}" for number, (key, *_) in enumerate(pairs) if key not in left
    ]
    assert loader.excluded == ({"image_count_mismatch": len(left)} if left else {})
    assert set(loader.metrics().shares) == {"pairs"}
    assert loader.metrics().media_bytes == sum(len(data) for key, _, p in pairs for data in p if key not in left)


def test_texts_may_be_a_field_of_json(tars):
    upper = make(WebDatasetTars(tars, text="json:caption"))
    assert len(delivered(upper)) > 0
    with pytest.raises(SourceError, match=r"none of 60 samples gives a sequence .*its member json gives no text"):
        make(WebDatasetTars(tars, text="json:nothing"))
    with pytest.raises(SourceError, match="the sample has no member caption"):
        make(WebDatasetTars(tars, text="caption"))


@pytest.mark.parametrize("stop", [0, 1, 5])
def test_a_state_says_that_it_promises_less_and_is_kept(tars, stop):
    whole = seen(make(WebDatasetTars(tars), epochs=2))
    loader = make(WebDatasetTars(tars), epochs=2)
    arriving = iter(loader)
    before = [seen([next(arriving)])[0] for _ in range(stop)]
    state = json.loads(json.dumps(loader.state_dict()))

    assert state["promise"] == "STATISTICALLY_EQUIVALENT"
    assert "not by digest" in state["because"]
    restored = make(WebDatasetTars(tars), epochs=2)
    with pytest.raises(ResumeError, match="is all that is promised here"):
        restored.load_state_dict(state)
    assert restored.load_state_dict(state, require="equivalent") is Promise.STATISTICALLY_EQUIVALENT
    assert before + seen(restored) == whole


def test_a_state_of_other_files_or_settings_is_refused(tars):
    state = make(WebDatasetTars(tars)).state_dict()
    for other, says in (
        (make(WebDatasetTars(tars[:2])), "source.files is"),
        (make(WebDatasetTars(tars), seed=3), "seed is 0 there, 3 here"),
        (make(WebDatasetTars(tars), settings={"image_size": 84}), "tokenize.recipe.image_size is"),
    ):
        with pytest.raises(ResumeError, match=says):
            other.load_state_dict(state, require="equivalent")
    with pytest.raises(ResumeError, match="this is no state of a loader"):
        make(WebDatasetTars(tars)).load_state_dict({}, require="equivalent")


def test_ranks_and_workers_share_the_same_batches(tars, rows):
    for source in (WebDatasetTars(tars), HFDataset(rows, text="said", images="shown")):
        loader = make(source)
        whole = seen(loader)
        fresh = make(source)
        assert seen(DataLoader(fresh, batch_size=None, num_workers=2)) == whole
        assert seen(pickle.loads(pickle.dumps(make(source)))) == whole
        batch = next(iter(DataLoader(make(source), batch_size=None, num_workers=1)))
        assert fresh.state_after(batch)["cursor"]["step"] == 1
        ranks = [seen(make(source, rank=rank, world_size=2)) for rank in (0, 1)]
        for position, digests, _, _ in whole:
            own = [digest for rank in ranks for place, found, _, _ in rank for digest in found if place == position]
            assert sorted(own) == sorted(digests)


def test_lengths_are_measured_once(tars, tmp_path, monkeypatch):
    file = tmp_path / "lengths.npz"
    whole = seen(make(WebDatasetTars(tars), measured=file))
    assert file.exists()
    monkeypatch.setattr("shardkit.loader.foreign.measure.Building.build", None)
    again = make(WebDatasetTars(tars), measured=file)
    monkeypatch.undo()

    assert seen(again) == whole
    with pytest.raises(ConfigError, match="of other files, or for another tokenizer or recipe"):
        make(WebDatasetTars(tars[:2]), measured=file)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ConfigError, match="holds no lengths"):
        make(WebDatasetTars(tars), measured=file)


def test_lengths_that_cannot_be_kept_are_said_before_the_first_pass(tars, tmp_path, monkeypatch):
    monkeypatch.setattr("shardkit.loader.foreign.measure.Building.build", None)
    with pytest.raises(OutputError, match="ENOENT") as caught:
        make(WebDatasetTars(tars), measured=tmp_path / "nowhere" / "lengths.npz")
    assert caught.value.where == str(tmp_path / "nowhere" / "lengths.npz")
    assert caught.value.what == "a folder on the way to the lengths is not there (ENOENT)"
    assert caught.value.hint == "make it, or choose another file with measured="


def test_a_tar_that_is_cut_or_damaged_is_refused(tars, tmp_path):
    whole = tars[0].read_bytes()
    for number, cut in enumerate((len(whole) // 2 // 512 * 512, 512 * 3, 700)):
        (tmp_path / f"{number}.tar").write_bytes(whole[:cut])
        with pytest.raises(SourceError, match=r"cut|cannot be read"):
            WebDatasetTars([tmp_path / f"{number}.tar"])
    header = whole.index(b"0010")
    damaged = bytearray(whole)
    damaged[header // 512 * 512 + 5] ^= 8
    (tmp_path / "flipped.tar").write_bytes(damaged)
    with pytest.raises(SourceError, match=r"damaged|cannot be read"):
        WebDatasetTars([tmp_path / "flipped.tar"])
    with pytest.raises(SourceError, match="no such tar"):
        WebDatasetTars([tmp_path / "absent.tar"])


def test_members_of_one_key_in_several_places_are_refused(tmp_path):
    with webdataset.TarWriter(str(tmp_path / "a.tar")) as writer:
        for name in ("one", "two"):
            writer.write({"__key__": name, "txt": name})
        writer.write({"__key__": "one", "jpg": picture(1, "JPEG")})
    with pytest.raises(SourceError, match="the members of the key 'one' lie in several places"):
        WebDatasetTars([tmp_path / "a.tar"])


def test_a_sample_that_changed_since_the_first_pass_is_no_silent_other_one(tars, tmp_path):
    copy = tmp_path / tars[0].name
    copy.write_bytes(tars[0].read_bytes())
    file = tmp_path / "lengths.npz"
    make(WebDatasetTars([copy]), measured=file)
    data = copy.read_bytes()
    place = data.index(b" 12", data.index(b"0012.txt"))
    copy.write_bytes(data[: place - 4] + b"\xc3\x9f\xc3\x9f" + data[place:])
    with pytest.raises(IntegrityError, match="another one than on the first pass"):
        list(make(WebDatasetTars([copy]), measured=file))


def test_a_dataset_that_does_not_fit_is_refused(rows):
    with pytest.raises(ConfigError, match="there is no column 'text'"):
        HFDataset(rows)
    with pytest.raises(ConfigError, match="cannot be read by index"):
        HFDataset(rows.to_iterable_dataset(), text="said", images="shown")
    with pytest.raises(ConfigError, match=r"these are several splits \(train\)"):
        HFDataset(datasets.DatasetDict({"train": rows}), text="said", images="shown")
    texts = make(HFDataset(rows, text="said", images=None), recipe="pretrain", settings={})
    # Places of pictures that are not given are no text.
    assert texts.excluded == {"image_count_mismatch": 8}
    assert sum(len(batch.ids) for batch in texts) == 52


def test_workers_are_hosted_as_those_of_a_dataset(tars):
    """Epoch after epoch; and the process that only hosts them does not claim to know the place."""
    whole = seen(make(WebDatasetTars(tars), epochs=2))
    loader = make(WebDatasetTars(tars))
    hosted = DataLoader(loader, batch_size=None, num_workers=2)
    assert seen(hosted) + seen(hosted) == whole
    with pytest.raises(ConfigError, match="does not know the place"):
        loader.state_dict()
    with pytest.raises(ConfigError, match="workers of a DataLoader hand out the batches"):
        loader.metrics()
    loader = make(WebDatasetTars(tars))
    first, second = iter(loader), iter(loader)
    next(second)
    with pytest.raises(ConfigError, match="another iteration of this loader was begun"):
        next(first)


def write_tar(path, members):
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            if isinstance(data, bytes):
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
            else:
                member.type, member.linkname = tarfile.SYMTYPE, str(data)
                tar.addfile(member)
    return path


def test_samples_that_lack_something_are_left_out_and_counted(tmp_path):
    shown = picture(1, "JPEG")
    tar = write_tar(
        tmp_path / "a.tar",
        [
            ("good.txt", b"a text"),
            ("good.gif", picture(2, "GIF")),
            ("without.jpg", shown),
            ("latin.txt", b"caf\xe9"),
            ("twice.jpg", shown),
            ("twice.jpg", picture(3, "JPEG")),
            ("twice.txt", b"two pictures of one name"),
            ("linked.jpg", tmp_path / "secret"),
            ("linked.txt", b"a link"),
        ],
    )

    loader = make(WebDatasetTars([tar]))

    assert [(batch.ids, len(batch.image_grid_thw)) for batch in loader] == [(("a.tar/good",), 1)]
    assert loader.excluded == {"no_text": 2, "unsafe_member": 2}


def test_a_field_that_is_no_text_is_none(tmp_path):
    values = [b'{"caption": "a text"}', b'{"caption": null}', b'{"caption": 5}', b"[" * 100_000, b'{"other": "a"}']
    tar = write_tar(tmp_path / "a.tar", [(f"{number}.json", data) for number, data in enumerate(values)])
    loader = make(WebDatasetTars([tar], text="json:caption"))
    assert [batch.ids for batch in loader] == [("a.tar/0",)]
    assert loader.excluded == {"no_text": 4}


def test_tars_of_one_name_keep_their_samples_apart(tmp_path):
    paths = []
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        paths.append(write_tar(tmp_path / folder / "0.tar", [("0.txt", folder.encode() * 3)]))
    assert sorted(one for batch in make(WebDatasetTars(paths)) for one in batch.ids) == ["x/0.tar/0", "y/0.tar/0"]


def test_a_member_of_negative_size_is_damage_and_no_endless_loop(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("0.txt", b"a text")])
    header = bytearray(path.read_bytes())
    header[124:136] = (-512 % (1 << 96)).to_bytes(12, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    path.write_bytes(header)
    with pytest.raises(SourceError, match="a negative or impossible size"):
        WebDatasetTars([path])


@pytest.mark.parametrize("paths", ["pairs.tar", []])
def test_paths_are_a_list(paths):
    with pytest.raises(ConfigError, match="not a list of paths"):
        WebDatasetTars(paths)


def test_pictures_by_path_are_read_below_the_roots_only(tmp_path):
    (tmp_path / "inside").mkdir()
    for folder in (tmp_path, tmp_path / "inside"):
        (folder / "a.jpg").write_bytes(picture(1, "JPEG"))
    ways = [
        tmp_path / "inside" / "a.jpg",
        tmp_path / "a.jpg",
        tmp_path / "inside" / ".." / "a.jpg",
        tmp_path / "inside/b",
    ]
    values = {"text": list("abcd"), "image": [{"bytes": None, "path": str(path)} for path in ways]}
    features = datasets.Features({"text": datasets.Value("string"), "image": datasets.Image()})
    rows = datasets.Dataset.from_dict(values, features=features)

    loader = make(HFDataset(rows, roots=[tmp_path / "inside"]))

    assert [batch.ids for batch in loader] == [("0",)]
    assert loader.excluded == {"outside_root": 2, "missing_image": 1}
    with pytest.raises(SourceError, match=r"lies in none of roots=\[...\]"):
        make(HFDataset(rows))


def test_a_format_for_others_changes_nothing_and_a_transform_does(rows):
    whole = seen(make(HFDataset(rows, text="said", images="shown")))
    assert seen(make(HFDataset(rows.with_format("numpy"), text="said", images="shown"))) == whole
    upper = rows.with_transform(lambda batch: {**batch, "said": [text.upper() for text in batch["said"]]})
    assert seen(make(HFDataset(upper, text="said", images="shown"))) != whole


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_data_loader_restores_what_was_said_to_be_enough(tars, workers, monkeypatch):
    whole = seen(make(WebDatasetTars(tars)))
    arriving = iter(stateful := StatefulDataLoader(make(WebDatasetTars(tars)), batch_size=None, num_workers=workers))
    before = seen([next(arriving), next(arriving)])
    state = stateful.state_dict()
    del arriving

    taken = StatefulDataLoader(make(WebDatasetTars(tars), require="equivalent"), batch_size=None, num_workers=workers)
    taken.load_state_dict(state)
    assert before + seen(taken) == whole
    refused = StatefulDataLoader(make(WebDatasetTars(tars)), batch_size=None, num_workers=workers)
    refused.load_state_dict(state)
    # torchdata tells workers of a loader that could not begin nothing, and waits five seconds for each.
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.1)
    with pytest.raises(ResumeError, match="is all that is promised here"):
        next(iter(refused))
    gc.collect()


def test_the_first_pass_decodes_neither_plain_jpegs_nor_plain_pngs(tars, pairs, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("shardkit.loader.foreign.sample.plain_png_size", lambda _data: None)
        with make(WebDatasetTars(tars)) as loader:
            whole = seen(loader)
    monkeypatch.setattr("shardkit.loader.foreign.sample.decode_rgb", None)
    with make(WebDatasetTars(tars)) as loader:
        assert seen(loader) == whole
    assert {data[:2] for *_, pictures in pairs for data in pictures} == {b"\x89P", b"\xff\xd8"}


def test_a_png_that_is_cut_is_left_out_by_the_first_pass(tmp_path):
    data = picture(1, "PNG")
    with tarfile.open(tmp_path / "pairs.tar", "w") as tar:
        for key, image in (("0", data), ("1", data[: len(data) // 2]), ("2", data[:60] + b"\0" + data[61:])):
            for name, content in ((f"{key}.png", image), (f"{key}.txt", b"words")):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    with make(WebDatasetTars([tmp_path / "pairs.tar"])) as loader:
        assert sum(loader.excluded.values()) == 2
        assert len(delivered(loader)) == 1
