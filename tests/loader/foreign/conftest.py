"""The same samples as tars and as rows, written by the libraries that others use."""

import random

import datasets
import pytest
import webdataset

from tests.loader.conftest import WORDS
from tests.loader.foreign.builders import picture


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
def tars(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("tars")
    with webdataset.ShardWriter(str(folder / "%03d.tar"), maxcount=25, verbose=0) as writer:
        for key, text, pictures in pairs:
            kind = ["png" if data[:2] == b"\x89P" else "jpg" for data in pictures]
            members = {f"{at}.{kind[at]}": data for at, data in enumerate(pictures)}
            writer.write({"__key__": key, "txt": text, "json": {"caption": text.upper()}, **members})
    return sorted(folder.glob("*.tar"))


@pytest.fixture(scope="session")
def rows(pairs):
    features = datasets.Features({"said": datasets.Value("string"), "shown": [datasets.Image()]})
    values = {
        "said": [text for _, text, _ in pairs],
        "shown": [[{"bytes": b, "path": None} for b in p] for *_, p in pairs],
    }
    return datasets.Dataset.from_dict(values, features=features)
