"""What every stage refuses that writes shards of examples, before it reads anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardkit.errors import ConfigError
from shardkit.prepare.ingest import IngestConfig
from shardkit.prepare.lineage.forget.config import ForgetConfig
from shardkit.prepare.shrink.config import ShrinkConfig
from shardkit.prepare.split.config import SplitConfig

HERE = Path("here")
STAGES: dict[str, Callable[..., Any]] = {
    "ingest": lambda **more: IngestConfig(format="rows", paths=(HERE,), output=HERE, **more),
    "split": lambda **more: SplitConfig(input=HERE, output=HERE, ratios=(("a", "1"),), **more),
    "shrink": lambda **more: ShrinkConfig(input=HERE, output=HERE, max_side=9, **more),
    "forget": lambda **more: ForgetConfig(input=HERE, output=HERE, licences=("CC0",), **more),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("options", "told"),
    [({"shards": "zip"}, "--shards 'zip' is none of arrow, tar"), ({"shard_size": 0}, "a shard of no bytes")],
)
def test_shards_that_nothing_writes_are_refused(stage: str, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        STAGES[stage](**options)
    assert caught.value.what == told
    assert caught.value.hint
