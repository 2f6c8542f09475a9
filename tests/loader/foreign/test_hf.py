"""Datasets of the library `datasets`: columns, images by path, formats."""

import datasets
import pytest

from shardkit.errors import ConfigError, SourceError
from shardkit.loader.foreign import HFDataset
from tests.loader.builders import seen
from tests.loader.foreign.builders import make, picture


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
