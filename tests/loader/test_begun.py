"""Batches that are begun before they are asked for: what becomes of them when a consumer leaves, fails, closes or forks."""

import multiprocessing
import signal
import threading
import time

import pytest

from shardkit.errors import ConfigError, SourceError
from shardkit.loader.foreign import ForeignLoader, Sample
from shardkit.loader.reader import Reader
from shardkit.store.dataset import Dataset
from tests.loader.builders import make_loader, seen
from tests.loader.conftest import TOKENIZER

SAMPLES = 8


class Texts:
    """A source of short texts, a batch each. From a read on it may hold whoever reads, or fail."""

    name = "texts"
    num_rows = (SAMPLES,)

    def __init__(self):
        self.identity = {"format": "texts"}
        self.reads = self.inside = 0
        self.holds_from = self.fails_at = None
        self.held, self.go_on = threading.Event(), threading.Event()

    def sample(self, shard, row):
        self.reads += 1
        if self.fails_at is not None and self.reads >= self.fails_at:
            raise SourceError("the disk is gone", where=self.place(shard, row), hint="bring it back")
        if self.holds_from is not None and self.reads >= self.holds_from:
            self.inside += 1
            self.held.set()
            self.go_on.wait(10)
            self.inside -= 1
        return Sample(key=f"{row}", text=f"text {row}", images=())

    def place(self, shard, row):
        return f"{shard}:{row}"


@pytest.fixture
def source():
    texts = Texts()
    yield texts
    texts.go_on.set()


def of_texts(source, **more):
    """A loader of a sequence a batch, whose first pass is over."""
    options = {"recipe": "pretrain", "max_tokens": 64, "packer": "none"}
    loader = ForeignLoader(source, tokenizer=TOKENIZER, **{**options, **more})
    source.reads = 0
    return loader


@pytest.fixture
def order():
    """The samples in the order of their batches."""
    with of_texts(Texts()) as loader:
        return [batch.ids for batch in loader]


def test_a_sample_is_read_once_for_its_batch(source, order):
    assert len(list(of_texts(source))) == len(order) == SAMPLES
    assert source.reads == SAMPLES


def test_an_iteration_that_is_left_waits_for_no_reading_and_the_next_one_goes_on(source, order):
    with of_texts(source) as loader:
        source.holds_from = 3
        stream = iter(loader)
        before = [next(stream).ids]
        source.held.wait(10)

        stream.close()

        assert source.inside == 1, "somebody reads still"
        source.go_on.set()
        assert before + [batch.ids for batch in loader] == order


def test_behind_a_batch_that_fails_nothing_is_read_and_a_new_iteration_goes_on_there(source, order):
    with of_texts(source) as loader:
        source.fails_at = 4
        batches = []
        with pytest.raises(SourceError, match="the disk is gone"):
            batches.extend(batch.ids for batch in loader)
        assert batches == order[:3]
        assert source.reads == 4
        assert loader.state_dict()["cursor"]["step"] == 3

        with pytest.raises(SourceError, match="the disk is gone"):
            next(iter(loader))
        source.fails_at = None
        assert [batch.ids for batch in loader] == order[3:]


@pytest.mark.parametrize("taken", [0, 2])
def test_an_iteration_whose_loader_is_closed_says_so(source, taken):
    loader = of_texts(source)
    stream = iter(loader)
    for _ in range(taken):
        next(stream)

    loader.close()

    with pytest.raises(ConfigError, match="the loader was closed"):
        next(stream)
    assert loader.state_dict()["cursor"]["step"] == taken


def test_ctrl_c_waits_for_nobody_who_reads(source):
    def interrupt():
        source.held.wait(10)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    loader = of_texts(source)
    source.holds_from = 1
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt), loader:
        next(iter(loader))

    assert source.inside == 1, "somebody reads still"
    with pytest.raises(ConfigError, match="the loader was closed"):
        iter(loader)


def test_settings_are_refused_before_the_first_pass(source):
    with pytest.raises(ConfigError, match="decoder is 'fast', none of pillow, turbo, device"):
        of_texts(source, decoder="fast")
    assert source.reads == 0


def test_sequences_are_read_by_one_thread_at_a_time(tokens, monkeypatch):
    reading = threading.Lock()
    read = Reader.sequence

    def alone(self, shard, row):
        assert reading.acquire(blocking=False), "two threads read sequences"
        time.sleep(0.0005)  # another thread has its turn
        try:
            return read(self, shard, row)
        finally:
            reading.release()

    with make_loader(tokens, epochs=2) as loader:
        whole = seen(loader)
    monkeypatch.setattr(Reader, "sequence", alone)
    with make_loader(tokens, epochs=2) as loader:
        for _ in range(3):
            stream = iter(loader)
            first, _ = next(stream), next(stream)  # and two more are begun
            loader.load_state_dict(loader.state_after(first))
            assert next(stream).position == (0, 1)
            loader.set_epoch(0)
        found = list(loader)

    assert seen(found) == whole


def test_a_copy_made_by_fork_does_not_wait_for_threads_of_its_parent(tokens, monkeypatch):
    opening, go_on, reader = threading.Event(), threading.Event(), Dataset.reader

    def slow(self, shard, **more):
        opening.set()
        go_on.wait(10)
        return reader(self, shard, **more)

    monkeypatch.setattr(Dataset, "reader", slow)
    with make_loader(tokens) as loader:
        consumer = threading.Thread(target=next, args=(iter(loader),))
        consumer.start()
        opening.wait(10)
        child = multiprocessing.get_context("fork").Process(target=loader.close)
        child.start()
        child.join(5)
        if child.is_alive():
            child.kill()
            child.join()
        go_on.set()
        consumer.join()

    assert child.exitcode == 0
