"""`shardkit tokenize --show N`: the first sequences that a recipe would make, spelled out; nothing is written."""

from __future__ import annotations

from typing import Any

from shardkit.prepare.report.pieces import pieces, to_json
from shardkit.prepare.tokenize.chunk import read_examples
from shardkit.prepare.tokenize.config import TokenizeConfig
from shardkit.prepare.tokenize.run import planned
from shardkit.sequence.sequence import sequence_id


def show(config: TokenizeConfig, number: int) -> list[dict[str, Any]]:
    """The sequences of the first `number` examples, in the order in which they would be written.

    Returns:
        a dict an example: example_id, source, reason and detail ("" where it gives sequences), changes, sequences. Each of
        these has sequence_id, window, alternative, alternatives, num_tokens, num_supervised, prompt and pieces.

    Raises:
        ConfigError: for an impossible setting or a missing control token.
        SourceError: with overlong="error", where an example is too long.
        IntegrityError: where an input is damaged.
    """
    plan = planned(config)
    job, processor = plan.job, plan.job.recipe.image_processor()
    shown: list[dict[str, Any]] = []
    for unit in plan.view.units:
        rows = unit.rows[: number - len(shown)]
        if not rows:
            continue
        for example in read_examples(unit.dataset, unit.shard, rows):
            built = job.recipe.build(example, plan.tokenizer, processor, job.max_tokens, job.overlong)
            shown.append(
                {
                    "example_id": example.example_id,
                    "source": example.source,
                    "reason": built.reason,
                    "detail": built.detail,
                    "changes": dict(built.changes),
                    "sequences": [
                        {
                            "sequence_id": sequence_id(example.example_id, job.fingerprint, sequence.window),
                            "window": sequence.window,
                            "alternative": sequence.alternative,
                            "alternatives": sequence.alternatives,
                            "num_tokens": sequence.num_tokens,
                            "num_supervised": sequence.num_supervised,
                            "prompt": sequence.prompt,
                            "pieces": [to_json(piece) for piece in pieces(sequence, plan.tokenizer)],
                        }
                        for sequence in built.sequences
                    ],
                }
            )
    return shown
