"""Sequences spelled out for people."""

from __future__ import annotations

import numpy as np

from shardkit.prepare.report.pieces import Piece, pieces
from shardkit.sequence.sequence import Sequence, Slot
from shardkit.text.tokenizer import Tokenizer
from tests.tokenizer_builders import byte_level


def test_every_token_is_in_one_piece_and_each_piece_is_of_one_kind() -> None:
    tokenizer = Tokenizer(byte_level())
    control = tokenizer.controls
    text, patch = tokenizer.encode("a<|im_end|>"), control["<|image_pad|>"]
    ids = [control["<|im_start|>"], patch, patch, *text, control["<|im_end|>"], *tokenizer.encode("b")]
    end = 3 + len(text)
    sequence = Sequence(
        input_ids=np.array(ids, np.uint16),
        objectives=bytes([0, 0, 0, *[2] * len(text), 2, 0]),
        slots=(Slot(start=1, count=2, image=4, height=28, width=56),),
        documents=(0, end + 1),
    )
    assert pieces(sequence, tokenizer) == [
        Piece(kind="control", text="<|im_start|>", objective="none", document=0, start=0, num_tokens=1),
        Piece(kind="slots", text="image 4, 28 x 56", objective="none", document=0, start=1, num_tokens=2),
        Piece(kind="text", text="a<|im_end|>", objective="caption", document=0, start=3, num_tokens=len(text)),
        Piece(kind="control", text="<|im_end|>", objective="caption", document=0, start=end, num_tokens=1),
        Piece(kind="text", text="b", objective="none", document=1, start=end + 1, num_tokens=1),
    ]


def test_a_sequence_of_nothing_has_no_pieces() -> None:
    sequence = Sequence(input_ids=np.zeros(0, np.uint16), objectives=b"")
    assert pieces(sequence, Tokenizer(byte_level())) == []
