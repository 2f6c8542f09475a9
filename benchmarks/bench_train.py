"""Proofs of data by training on it: real sets, the whole road, from raw files to held-back losses.

    python benchmarks/bench_train.py [--quick] [--proof NAME]... [--steps RUN=N]... [--seeds N] [--threads N] [--json]

lm        texts of `chat`: held-back groups cost less than a unigram says that was fitted on the training split
sft       from there: answers of held-back dialogues cost less than before, and than a unigram
dpo       from there: on held-back pairs the chosen answer gains on the rejected one
words     vlm-align on pictures of words that were never trained on: the right picture against another's
pictures  vlm-align on captions, web pages and text lines: the same figure; it is shown, whatever it is
mixture   what each of these sources had of weight x supervised tokens in the batches that were trained on
feeding   the share of the time that lm and vlm-align waited for data, and the loader alone beside them
packing   packed against unpacked logits and gradients of every task, with rotary and with learned positions; and the
          change of other documents' logits when one is changed

The table comes at the end, each proof's figures on stderr as they come. Errors are standard errors over groups
(documents, dialogues, pairs, words); a difference holds when it is twice as large.
All but the times is the same in every run on a machine. The exit code is 1 where something claimed does not hold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from report import about, publish, table
from training.proofs import PROOFS, Line
from training.runs import RECIPES, Runs
from training.sets import Raw

SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


def prove(work: Path, options: argparse.Namespace) -> tuple[list[Line], dict[str, float]]:
    """(lines, seconds of each proof, with the runs that it asked for first)"""
    asked = dict(word.split("=") for word in options.steps)
    steps = {
        name: int(asked.pop(name, recipe.quick if options.quick else recipe.steps)) for name, recipe in RECIPES.items()
    }
    if asked:
        sys.exit(f"--steps {'='.join(asked.popitem())}: there is no such run, only {', '.join(RECIPES)}")
    data = options.shared / "data"
    raw = Raw(data=data, tokenizer=data / "tokenizers" / "minimind")
    runs = Runs(raw=raw, folder=work, steps=steps, seeds=options.seeds, threads=options.threads)
    lines: list[Line] = []
    seconds: dict[str, float] = {}
    for name in options.proof or PROOFS:
        began = time.perf_counter()
        found = PROOFS[name](runs)
        seconds[name] = round(time.perf_counter() - began, 1)
        for line in found:
            print(f"{name}: {line.what}: {line.found} ({line.against})", file=sys.stderr, flush=True)
        lines += found
    return lines, seconds


def row(line: Line) -> dict[str, Any]:
    """Of the table: beside what is compared with an error, the difference and the ratio."""
    compared = {"difference": None, "ratio": None}
    if line.error is not None and line.found is not None and line.against is not None:
        compared = {
            "difference": line.found - line.against,
            "ratio": line.found / line.against if line.against else None,
        }
    found = asdict(line)
    holds = {True: "yes", False: "NO", None: "-"}[found.pop("holds")]
    error = found.pop("error")
    return {**found, **compared, "error": error, "holds": holds}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--proof", action="append", choices=PROOFS, help="repeatable; all of them where none is named")
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument("--steps", action="append", default=[], metavar="RUN=N", help=f"of {', '.join(RECIPES)}")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each kind; losses are pooled by group")
    parser.add_argument("--threads", type=int, default=1, help="the model is small: more of them wait for one another")
    parser.add_argument("--work", type=Path, help="where temporary files go")
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args()
    facts = about("shardkit", "torch", "numpy", "pyarrow", "pillow", "tokenizers")
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        lines, seconds = prove(Path(folder), options)
    rows = list(map(row, lines))
    failed = sum(line.holds is False for line in lines)
    found = {"lines": [asdict(line) for line in lines], "seconds": seconds, "failed": failed}
    times = ", ".join(f"{name} {spent:.0f} s" for name, spent in seconds.items())
    end = f"{failed} claims do not hold" if failed else "everything claimed holds"
    publish(facts, found, [*table(rows), times, end], as_json=options.as_json)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
