"""Plans: fill, delay and rates of the packers, rate of the whole plan, seconds to go on from any place.

    python benchmarks/bench_plan.py [--sequences N] [--rounds N] [--dataset DIR] [--json]

Documents, by two limits a pack (tokens; patches of 14 pixels, four of which are a token):

    web        tokens log-normal, median 545, sigma 1.1, at most 4,096;  four of ten without images, of the others 20 to
               80 % of the tokens are of images
    ocr        tokens log-normal, median 1,100, sigma 0.6, at most 4,096;  30 to 90 % of them are of its page
    ocr-apart  the same tokens, and patches that have nothing to do with them: normal(2,000, 500), 256 to 4,096. No data of
               ours is so, for slots are tokens; it shows what a packer does where three or four fit and two limits bind

A pack has 4,096 tokens, and patches for what its documents have on average, and 15 % more; never less than the largest
document. Fill is the least number of packs that the limits allow (the largest over the limits of ceil(sum / capacity))
over the number of packs. Delay is in packs: how much later a sequence comes than in the order of the draw.

Checked first: every packer packs each sequence once and keeps the limits, and the plan that goes on from a place gives
the very steps of the whole one. Rates are of processor seconds, the median of the rounds: sequences a second on one core.
`plan` is the road of a loader: order, packs, shares of 8 ranks, denominators. `restore` makes a plan from lengths, reads
a state and gives the first step, at 10, 50 and 99 % of an epoch. With --dataset (a tokenized dataset) the same is done by
a loader: from load_state_dict to its first batch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from report import about, publish, table

from shardkit.loader import state as states
from shardkit.sequence.packers import PACKERS
from shardkit.sequence.part import Part
from shardkit.sequence.plan import Lengths, Mixture, Plan, PlanSettings, shares
from shardkit.sequence.plan.after import read_cursor
from shardkit.sequence.plan.report import describe

TOKENS = 4096
ROOM = 1.15
SHARD_ROWS = 2000
GLOBAL_BATCH = 64
RANKS = 8
PLACES = (0.10, 0.50, 0.99)
REACH = {"fill": 0.985, "autocorrelation": 0.25, "packer": 500_000, "plan": 250_000, "restore": 1.0}
MIXED = Mixture.of({"by": "token", "weights": {"a": 3, "b": 2, "c": 1}, "epoch": {"source": "a"}})


# ---------------------------------------------------------------- documents
def documents(kind: str, number: int, seed: int = 0) -> Lengths:
    random = np.random.default_rng([seed, len(kind)])
    median, sigma = {"web": (545, 1.1)}.get(kind, (1100, 0.6))
    tokens = np.clip(random.lognormal(np.log(median), sigma, number), 2, TOKENS).astype(np.int64)
    if kind == "web":
        part = np.where(random.random(number) < 0.4, 0, random.uniform(0.2, 0.8, number))
    else:
        part = random.uniform(0.3, 0.9, number)
    patches = (tokens * part).astype(np.int64) * 4
    if kind == "ocr-apart":
        patches = np.clip(random.normal(2000, 500, number), 256, 4096).astype(np.int64)
    images = np.minimum(patches, 1)
    supervised = np.zeros((7, number), np.int64)
    supervised[1] = tokens - 1
    return Lengths(
        key=random.integers(0, 2**63, number, dtype=np.uint64),
        shard=(np.arange(number) // SHARD_ROWS).astype(np.int32),
        row=(np.arange(number) % SHARD_ROWS).astype(np.int32),
        tokens=tokens,
        images=images.astype(np.int64),
        patches=patches,
        supervised=supervised,
        source=random.integers(0, 3, number).astype(np.int32),
        sources=("a", "b", "c"),
    )


def capacities(lengths: Lengths) -> dict[str, int]:
    patches = int(lengths.patches.sum() / lengths.tokens.sum() * TOKENS * ROOM)
    return {"max_tokens": TOKENS, "max_patches": max(patches, int(lengths.patches.max()))}


def plan_of(lengths: Lengths, mixture: Mixture | None = None, **settings: Any) -> Plan:
    stated = {"max_tokens": TOKENS, "global_batch": GLOBAL_BATCH, **settings}
    return Plan(lengths, PlanSettings(**stated), mixture=mixture, identity={"of": "bench"})


# ---------------------------------------------------------------- checks
def check_packer(name: str, lengths: Lengths, limits: dict[str, int]) -> None:
    plan = plan_of(lengths, packer=name, global_batch=1, **limits)
    got = np.zeros(len(lengths), np.int64)
    for step in plan.steps(plan.start(0)):
        for pack in step.packs:
            targets = [m.num_tokens - 1 if isinstance(m, Part) else int(lengths.tokens[m]) - 1 for m in pack]
            np.add.at(got, [int(member) for member in pack], targets)
            if name != "none":
                assert sum(targets) + len(pack) <= limits["max_tokens"]
                whole = [member for member in pack if not isinstance(member, Part)]
                assert int(lengths.patches[whole].sum()) <= limits["max_patches"]
    assert (got == lengths.tokens - 1).all(), f"{name}: a target was lost or repeated"


def check_places(lengths: Lengths, mixture: Mixture | None) -> None:
    plan = plan_of(lengths, mixture, tail="pad")
    steps = list(plan.steps(plan.start(0)))
    for number in range(0, len(steps) - 1, max(len(steps) // 7, 1)):
        state = json.loads(json.dumps(states.write_cursor(plan, steps[number].after)))
        fresh = plan_of(lengths, mixture, tail="pad")
        cursor = read_cursor(fresh, state)
        fresh.remember(cursor)
        assert next(fresh.steps(cursor)) == steps[number + 1]


# ---------------------------------------------------------------- measurements
def cpu(work: Any) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def packers(lengths: dict[str, Lengths]) -> list[dict[str, Any]]:
    rows = []
    for kind, documents_of in lengths.items():
        limits = capacities(documents_of)
        for name in PACKERS:
            check_packer(name, documents_of, limits)
            figures = describe(plan_of(documents_of, packer=name, global_batch=1, **limits), 0)
            one = describe(plan_of(documents_of, packer=name, global_batch=1), 0)
            rows.append(
                {
                    "kind": kind,
                    "packer": name,
                    "max_patches": limits["max_patches"],
                    "fill": figures["fill"],
                    "fill_tokens_only": one["fill"],
                    "delay_p99": figures["delay"]["p99"],
                    "delay_max": figures["delay"]["max"],
                    "delay_bound": figures["delay"]["bound"],
                    "autocorrelation": figures["autocorrelation"],
                }
            )
    return rows


def packer_rates(lengths: Lengths, rounds: int) -> dict[str, dict[str, float]]:
    """Sequences a second of each packer, in blocks of 4,096, by one limit and by two; interleaved."""
    limits = tuple(capacities(lengths).values())
    sizes = np.stack([lengths.tokens, lengths.patches], axis=1)
    whole = ~lengths.plain
    spent: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for name, packer in PACKERS.items():
            for number in (1, 2):

                def work(packer: Any = packer, number: int = number) -> None:
                    for start in range(0, len(lengths), 4096):
                        block = sizes[start : start + 4096, :number]
                        more = (whole[start : start + 4096],) if packer.cuts else ()
                        packer.pack(block, limits[:number], *more)

                spent.setdefault((name, number), []).append(cpu(work))
    return {
        name: {f"limits_{number}": len(lengths) / statistics.median(spent[name, number]) for number in (1, 2)}
        for name in PACKERS
    }


def plan_rates(lengths: Lengths, rounds: int) -> dict[str, float]:
    """Sequences a second of order, packs, shares of ranks and denominators."""
    spent: dict[str, list[float]] = {}
    delivered: dict[str, int] = {}

    def go_through(name: str, mixture: Mixture | None, limits: dict[str, int]) -> None:
        plan = plan_of(lengths, mixture, **limits)
        number = 0
        for step in plan.steps(plan.start(0)):
            shares(plan.costs(step.packs), RANKS)
            plan.denominators(step.packs)
            number += sum(map(len, step.packs))
        delivered[name] = number

    for _ in range(rounds):
        for name, mixture, limits in (
            ("one source, one limit", None, {"max_tokens": TOKENS}),
            ("one source, two limits", None, capacities(lengths)),
            ("three sources by tokens, one limit", MIXED, {"max_tokens": TOKENS}),
        ):
            work = lambda name=name, mixture=mixture, limits=limits: go_through(name, mixture, limits)  # noqa: E731
            spent.setdefault(name, []).append(cpu(work))
    return {name: delivered[name] / statistics.median(seconds) for name, seconds in spent.items()}


def restores(lengths: Lengths, rounds: int) -> dict[str, dict[str, float]]:
    """Wall seconds from lengths and a state to the first step, and processor milliseconds to plan one block again."""
    found: dict[str, dict[str, float]] = {}
    for name, mixture in (("one source", None), ("mixed", MIXED)):
        plan = plan_of(lengths, mixture)
        for share in PLACES:
            cursor = plan.place(0, int(plan.num_steps(0) * share))
            state = json.loads(json.dumps(states.write_cursor(plan, cursor)))
            seconds, blocks = [], []
            for _ in range(rounds):
                started = time.perf_counter()
                fresh = plan_of(lengths, mixture)
                place = read_cursor(fresh, state)
                fresh.remember(place, plan.num_steps(0))
                next(fresh.steps(place))
                seconds.append(time.perf_counter() - started)
                blocks.append(1000 * cpu(lambda f=fresh, p=place: f.block(0, p.block, p.draw, p.origin)))
            found[f"{name} at {share:.0%}"] = {
                "seconds": statistics.median(seconds),
                "block_ms": statistics.median(blocks),
            }
    return found


def loader_restores(path: Path, rounds: int) -> dict[str, float]:
    """Wall seconds from load_state_dict to the first batch of a loader, which is compared with the whole run's."""
    from shardkit.loader import StreamingLoader
    from shardkit.sequence.plan.source import choose_split, identity, read_lengths
    from shardkit.store.dataset import Dataset

    dataset = Dataset.open(path)
    split = choose_split(dataset, None)
    max_tokens = dataset.recipe["max_tokens"]
    plan = Plan(
        read_lengths(dataset, split),
        PlanSettings(max_tokens=max_tokens, global_batch=8),
        identity=identity(dataset, split),
    )
    found = {"sequences": float(len(plan.lengths))}
    for share in PLACES:
        step = int(plan.num_steps(0) * share)
        cursor = plan.place(0, step)
        expected = plan.global_batch(0, step)
        seconds = []
        for _ in range(rounds):
            with StreamingLoader(dataset, max_tokens=max_tokens, global_batch=8) as loader:
                place = {**states.write_cursor(plan, cursor), "num_steps": plan.num_steps(0)}
                state = states.sealed({**loader.state_dict(), **place})
                started = time.perf_counter()
                loader.load_state_dict(json.loads(json.dumps(state)))
                batch = next(iter(loader))
                seconds.append(time.perf_counter() - started)
                rows = [(int(plan.lengths.shard[at]), int(plan.lengths.row[at])) for pack in expected for at in pack]
                assert list(batch.info.rows) == rows
        found[f"at {share:.0%}"] = statistics.median(seconds)
    return found


# ---------------------------------------------------------------- the report
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=1_000_000, help="of the restores; rates take a fifth")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dataset", type=Path, help="a tokenized dataset, to restore a loader of")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    small = {kind: documents(kind, 40_960) for kind in ("web", "ocr", "ocr-apart")}
    for mixture in (None, MIXED):
        check_places(small["web"], mixture)
    many = documents("web", max(options.sequences // 5, 8192))
    figures = {
        "packers": packers(small),
        "packer_rates": packer_rates(many, options.rounds),
        "plan_rates": plan_rates(many, options.rounds),
        "sequences": options.sequences,
        "restores": restores(documents("web", options.sequences), options.rounds),
    }
    if options.dataset:
        figures["loader_restores"] = loader_restores(options.dataset, options.rounds)
    figures["reached"] = reached(figures)
    publish(about("shardkit", "numpy"), figures, lines(figures), as_json=options.json)


def reached(figures: dict[str, Any]) -> dict[str, bool]:
    best = [row for row in figures["packers"] if row["packer"] == "best-fit" and row["kind"] in ("web", "ocr")]
    seconds = [one["seconds"] for one in figures["restores"].values()]
    seconds += [value for name, value in figures.get("loader_restores", {}).items() if name.startswith("at")]
    return {
        "fill of best-fit by two limits": min(row["fill"] for row in best) >= REACH["fill"],
        "delay within its bound": all(row["delay_max"] <= row["delay_bound"] for row in figures["packers"]),
        "autocorrelation": max(abs(row["autocorrelation"]) for row in best) < REACH["autocorrelation"],
        "packer rate": figures["packer_rates"]["best-fit"]["limits_1"] >= REACH["packer"],
        "plan rate": min(figures["plan_rates"].values()) >= REACH["plan"],
        "restore": max(seconds) < REACH["restore"],
    }


def lines(figures: dict[str, Any]) -> list[str]:
    rows = [
        {
            "documents": row["kind"],
            "packer": row["packer"],
            "patches": row["max_patches"],
            "fill": row["fill"],
            "1 limit": row["fill_tokens_only"],
            "delay p99": row["delay_p99"],
            "max": row["delay_max"],
            "bound": row["delay_bound"],
            "autocorr": row["autocorrelation"],
            "1 limit/s": figures["packer_rates"][row["packer"]]["limits_1"],
            "2 limits/s": figures["packer_rates"][row["packer"]]["limits_2"],
        }
        for row in figures["packers"]
    ]
    return [
        *table(rows),
        *(f"plan, {name}: {rate:,.0f} sequences/s" for name, rate in figures["plan_rates"].items()),
        *(
            f"{figures['sequences']:,} sequences, {name}: {one['seconds']:.3f} s to the first step, "
            f"a block in {one['block_ms']:.1f} ms"
            for name, one in figures["restores"].items()
        ),
        *(
            f"loader of {figures['loader_restores']['sequences']:,.0f} sequences {name}: {seconds:.3f} s to the first batch"
            for name, seconds in figures.get("loader_restores", {}).items()
            if name.startswith("at")
        ),
        *(f"{'reached' if whether else 'MISSED'}: {name}" for name, whether in figures["reached"].items()),
    ]


if __name__ == "__main__":
    main()
