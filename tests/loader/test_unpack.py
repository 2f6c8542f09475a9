"""unpack(pack(x)) == x."""

import numpy as np

from shardkit.loader.unpack import unpack
from tests.loader.builders import make_host_batch, random_packs


def test_unpacking_gives_back_what_was_packed():
    num_images = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        packs = random_packs(random)
        host, pixels = make_host_batch(packs, random)

        found = unpack(host.to_device())

        assert [len(pack) for pack in found] == [len(pack) for pack in packs]
        shown = iter(pixels)
        for sequence, back in zip(
            (s for pack in packs for s in pack), (u for pack in found for u in pack), strict=True
        ):
            assert back.sequence.input_ids.tolist() == sequence.input_ids.tolist()
            assert back.sequence.objectives == sequence.objectives
            assert back.sequence.slots == sequence.slots
            assert back.sequence.window == sequence.window
            assert back.sequence.documents == sequence.documents
            assert len(back.pixels) == len(sequence.slots)
            for content in back.pixels:
                assert np.array_equal(content, next(shown))
                num_images += 1
    assert num_images > 100, "vacuous: nearly no images"
