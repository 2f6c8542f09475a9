"""What the tests of the rows share."""

import json

from shardkit.loader import StreamingLoader


def make_loader(path, **more):
    return StreamingLoader(path, **{"max_tokens": 128, "tail": "pad", **more})


def one_each(path, **more):
    return make_loader(path, **{"packer": "none", **more})


def rows_of(batches):
    return [row for batch in batches for row in batch.info.rows]


def copied(state):
    return json.loads(json.dumps(state))
