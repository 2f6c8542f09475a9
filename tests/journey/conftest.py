from __future__ import annotations

from pathlib import Path

import pytest

from tests.journey.road import Road


@pytest.fixture(scope="session")
def lines(road: Road) -> Path:
    """The text lines, ingested. Only to be read."""
    return road.stages["lines"]


@pytest.fixture(scope="session")
def captions(road: Road) -> Path:
    """The captions, ingested. Only to be read."""
    return road.stages["captions"]
