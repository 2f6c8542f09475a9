from __future__ import annotations

from pathlib import Path

import pytest

from tests.journey.road import ingest_captions, ingest_lines, shardkit


@pytest.fixture(scope="session")
def lines(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> Path:
    """The text lines, ingested. Only to be read."""
    out = tmp_path_factory.mktemp("ingested") / "lines"
    shardkit(*ingest_lines(sample, out))
    return out


@pytest.fixture(scope="session")
def captions(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> Path:
    """The captions, ingested. Only to be read."""
    out = tmp_path_factory.mktemp("ingested") / "captions"
    shardkit(*ingest_captions(sample, out))
    return out
