"""Parts of sequences."""

import pickle

import numpy as np

from shardkit.sequence.part import Part, part_of
from shardkit.sequence.sequence import Sequence


def test_a_part_is_the_index_of_its_sequence_and_knows_where_it_lies():
    part = Part(7, 3, 9)

    assert int(part) == 7
    assert np.arange(10)[part] == 7
    assert part.num_tokens == 6
    assert part == Part(7, 3, 9) != Part(7, 3, 8)
    assert part != 7
    assert pickle.loads(pickle.dumps(part)) == part
    assert repr(part) == "Part(7, 3, 9)"


def test_the_first_token_of_a_part_is_context_only():
    sequence = Sequence(input_ids=np.arange(7, dtype=np.uint16), objectives=bytes([0, 1, 1, 1, 1, 1, 1]))

    first, second = part_of(sequence, Part(0, 0, 4)), part_of(sequence, Part(0, 3, 7))

    assert first.input_ids.tolist() == [0, 1, 2, 3]
    assert second.input_ids.tolist() == [3, 4, 5, 6]
    assert [list(part.objectives) for part in (first, second)] == [[0, 1, 1, 1], [0, 1, 1, 1]]
    assert part_of(sequence, 0) is sequence
