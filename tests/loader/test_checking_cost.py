"""What checked reading costs: digests of row blocks, beside decoding the pictures in them, in seconds of one thread."""

import statistics
import time

import numpy as np
import pytest
from PIL import Image

from shardkit.digest import xxh3
from shardkit.loader import pictures
from shardkit.media import turbo
from shardkit.media.processors import Square
from tests.media.test_turbo import jpeg, picture


@pytest.mark.parametrize("decoder", ["pillow", "turbo"])
def test_digests_cost_at_most_a_twentieth_of_decoding(decoder):
    if decoder == "turbo" and not turbo.installed():
        pytest.skip("simplejpeg is not installed")
    random = np.random.default_rng(0)
    noise = random.integers(0, 40, (480, 640, 3), np.uint8)
    stored = [jpeg(picture(480, 640, seed), quality=85) for seed in range(8)]
    stored += [jpeg(Image.fromarray(np.asarray(picture(480, 640, 9)) // 2 + noise), quality=85)]
    block = b"".join(stored)
    processor, out = Square(image_size=224), np.zeros((224, 224, 3), np.uint8)
    shared = pictures.Pictures(processor, decoder)

    def decode():
        for data in stored:
            shared.put(data, out, (224, 224), None)

    digests, decodes = [], []
    for _ in range(7):
        for work, spent in ((lambda: xxh3(block), digests), (decode, decodes)):
            began = time.thread_time()
            work()
            spent.append(time.thread_time() - began)
    assert statistics.median(digests) <= 0.05 * statistics.median(decodes)
