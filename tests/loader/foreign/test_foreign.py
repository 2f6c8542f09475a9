"""Files that were never ingested: as they were written by other libraries, packed like a dataset, resumed with less."""

import gc
import json
import pickle

import pytest
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from shardkit.errors import ConfigError, IntegrityError, OutputError, ResumeError
from shardkit.loader import Promise, StreamingLoader
from shardkit.loader.foreign import HFDataset, WebDatasetTars
from tests.loader.builders import seen
from tests.loader.conftest import ingest, tokenize
from tests.loader.foreign.builders import delivered, make


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
