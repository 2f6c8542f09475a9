"""Copies to the device: the same batch, whichever way it came."""

import numpy as np
import pytest
import torch

from shardkit.errors import ConfigError
from shardkit.loader.choices import choose_device
from shardkit.loader.staging import DEPTH, Staging
from tests.loader.builders import make_host_batch, pack_digests, random_packs


def hosts(number):
    for seed in range(number):
        random = np.random.default_rng(seed)
        yield make_host_batch(random_packs(random), random)[0]


def test_on_a_cpu_it_is_the_batch_itself():
    staging = Staging("cpu")
    for host in hosts(20):
        batch = staging.put(host)
        assert batch.pixels.data_ptr() == host.pixels.data_ptr()
        assert torch.equal(batch.input_ids, host.to_device().input_ids)
        assert batch.info is host.info


@pytest.mark.parametrize("device", ["nothing", 1.5, None])
def test_a_device_that_torch_does_not_know(device):
    with pytest.raises(ConfigError, match="which torch does not know"):
        choose_device(device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA")
def test_a_device_that_is_not_at_hand_is_missed_with_the_first_batch():
    (host,) = hosts(1)
    for use in (Staging("cuda").put, Staging("cuda").decode):
        with pytest.raises(ConfigError, match="batches cannot be built on cuda"):
            use(host)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_batches_of_a_ring_do_not_mix():
    staging, kept, wanted = Staging("cuda"), [], []
    for host in hosts(DEPTH * 5):
        kept.append(staging.put(host))
        wanted.append(pack_digests(host))
        host.pixels.zero_()  # the caller may use its memory again at once
    torch.cuda.synchronize()
    for batch, digests in zip(kept, wanted, strict=True):
        assert pack_digests(batch) == digests
