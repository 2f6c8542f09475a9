"""The CUDA kernel without CUDA: in Triton's interpreter, in a process of its own."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from shardkit.loader.patches import cut
from tests.loader.builders import make_host_batch, random_packs

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(find_spec("triton") is None, reason="no Triton on this platform")
def test_the_kernel_gives_the_bits_of_the_torch_form():
    command = [sys.executable, "-m", "tests.loader.kernel_check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "the same bits, 0 patches of no images\n"), done.stderr[-2000:]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_patches_on_cuda_have_the_bits_of_the_cpu():
    for seed in range(20):
        random = np.random.default_rng(seed)
        batch = make_host_batch(random_packs(random), random)[0].to_device()
        kinds = {"vertical": (32, 8), "layout": (56, 56)}
        one, other = (cut(part, batch.sizes.images, kinds) for part in (batch.pixels, batch.pixels.cuda()))
        for kind in kinds:
            for name in ("values", "image", "row", "col"):
                assert torch.equal(getattr(one[kind], name), getattr(other[kind], name).cpu()), (kind, name)
