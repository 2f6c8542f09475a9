from __future__ import annotations

from pathlib import Path

import pytest

from tests.journey.road import Road, walk


@pytest.fixture(scope="session")
def road(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> Road:
    """The whole road on the bundled sample, with one worker. Only to be read."""
    return walk(tmp_path_factory.mktemp("road"), sample, workers=1)
