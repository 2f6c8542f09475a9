"""Sequences and packs, generated."""

import numpy as np

from shardkit.digest import xxh3
from shardkit.errors import ShardkitError
from shardkit.loader import StreamingLoader, unpack
from shardkit.loader.batch import BatchInfo, HostBatch, PixelForm, lay_out
from shardkit.sequence.plan import Cursor, Draw
from shardkit.sequence.sequence import Sequence, Slot

NOWHERE = Cursor(
    epoch=0,
    step=1,
    block=0,
    pack=1,
    draw=Draw(passes=(0,), offsets=(0,), amounts=(0,)),
    origin=Draw(passes=(0,), offsets=(0,), amounts=(0,)),
)


def make_loader(path, **more):
    """Some batches an epoch of the fixture `tokens`, each of two packs."""
    return StreamingLoader(path, **{"max_tokens": 256, "global_batch": 2, **more})


def random_sequence(random, *, longest=40, images=2, largest_side=70):
    """A sequence with some slots; any number of its tokens are targets, the first never."""
    parts, slots, start = [], [], 0
    for image in range(int(random.integers(0, images + 1))):
        text = random.integers(0, 60000, int(random.integers(0, 5)))
        height, width = (int(side) for side in random.integers(1, largest_side + 1, 2))
        count = int(random.integers(1, 6))
        slots.append(
            Slot(
                start=start + len(text),
                count=count,
                image=image,
                height=height,
                width=width,
                used_height=int(random.integers(1, height + 1)),
                used_width=int(random.integers(1, width + 1)),
            )
        )
        parts += [text, np.full(count, 4)]
        start += len(text) + count
    parts.append(random.integers(0, 60000, int(random.integers(1, longest))))
    ids = np.concatenate(parts).astype(np.uint16)
    documents = (0,)
    if len(ids) > 2 and random.integers(0, 4) == 0:
        documents = (0, int(random.integers(1, len(ids))))
    objectives = random.integers(0, 7, len(ids)).astype(np.uint8)
    objectives[list(documents)] = 0
    return Sequence(
        input_ids=ids,
        objectives=objectives.tobytes(),
        slots=tuple(slots),
        window=int(random.integers(0, 3)),
        documents=documents,
    )


def random_packs(random, **more):
    """Packs as a rank may get them: several, some empty, some of one-token sequences, some without images."""
    packs = []
    for _ in range(int(random.integers(0, 4))):
        kind = random.integers(0, 5)
        number = int(random.integers(0 if kind == 0 else 1, 6))
        if kind == 1:
            packs.append([random_sequence(random, longest=2, images=0) for _ in range(number)])
        else:
            packs.append([random_sequence(random, images=0 if kind == 2 else 2, **more) for _ in range(number)])
    return packs


def make_host_batch(packs, random, *, denominators=None, form=None):
    """A host batch of `packs` with random pixels, and these pixels in order."""
    counts = np.arange(7) * 3_000_000_000 if denominators is None else np.asarray(denominators)
    buffers = lay_out(packs, counts, form=form or PixelForm())
    pixels = []
    for place in buffers.places:
        place[...] = random.integers(0, 256, place.shape)
        pixels.append(place.copy())
    sequences = [sequence for pack in packs for sequence in pack]
    info = BatchInfo(
        batch_id="0/0/0/0of1",
        epoch=0,
        step=0,
        example_ids=tuple(f"example {number}" for number in range(len(sequences))),
        sources=tuple("made" for _ in sequences),
        rows=tuple((0, number) for number in range(len(sequences))),
        quarantined=(),
        after=NOWHERE,
    )
    return HostBatch(meta=buffers.meta, pixels=buffers.pixels, info=info), pixels


def pack_digests(batch):
    """One digest for each pack of a batch: ids, objectives, slots and pixels of its sequences."""
    return [
        xxh3(
            b"".join(
                part
                for one in pack
                for part in (
                    repr(one.sequence.slots).encode(),
                    one.sequence.input_ids.tobytes(),
                    one.sequence.objectives,
                    *(pixels.tobytes() for pixels in one.pixels),
                )
            )
        )
        for pack in unpack(batch.to_device("cpu"))
    ]


def seen(batches):
    """(position, digests, examples, denominators) of each batch: all that must come again."""
    return [
        (batch.position, pack_digests(batch), batch.info.example_ids, batch.to_device("cpu").denominators.tolist())
        for batch in batches
    ]


def failure(hosted):
    """The error with which a DataLoader ends, without its traceback.

    A traceback keeps the DataLoader's iterator alive. Collected some time later, maybe in a worker of another one, it
    waits there for processes that are not its own.
    """
    try:
        for _ in hosted:
            pass
    except ShardkitError as error:
        return error.with_traceback(None)
    raise AssertionError("the DataLoader ended well")
