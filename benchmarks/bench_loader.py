"""The loader beside its peers and bare loops: the same pictures and texts, each in its own format.

    python benchmarks/bench_loader.py [--peers VENV] [--ours-only] [--images N] [--docs N] [--rounds N] [--json]

The samples are what ingest keeps of make_corpus.py's caption pairs and documents. First it is asserted that every
contender delivers them, each key once with equal text and bytes; that the ids the peers make of the texts are those that
are stored; and that pictures which ours decodes at a smaller scale keep a PSNR over 35 dB beside Pillow's. Then each
contender is measured in a process of its own (loader_ours.py, loader_peers.py), round after round, and medians are given.

    raw      samples/s handed over in lists of 16, shuffled, nothing decoded
    rgb      pictures/s decoded at full size
    packed   pictures/s in packs of 4,096 tokens at sides 224 and 448: ours with its stored sequences and planned packs;
             peers as their users do it (ids made on the way, first fit into 8 open packs, float pixels, int64 labels)
    same     likewise, peers with the decoder of ours instead of Pillow
    first    seconds to the first batch of a new loader
    MB       private memory of the process and its workers while it packs at side 224
    resume   seconds from a new loader and a state at 10, 50 and 90% of an epoch to the next batch; what came after it

Peers are measured in the process and with two workers (grain: two threads); the better one counts. By `wall` ratios are
of the clock; by `cpu` of processor seconds, which others on the machine do not change. Peers that are not installed are
named. `make bench-peers` makes their environment.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from corpora import ROOT, SHARED
from loader_samples import SHARES, Samples
from peers import PACKAGES, PEERS
from report import about, publish, table

HERE = Path(__file__).resolve().parent
SIDES = ("224", "448")
CLOCKS = ("wall", "cpu")
OURS = ("numpy", "pillow", "pyarrow", "simplejpeg", "torch")


class Failed(Exception):
    """A contender did not end well; says why."""


def call(python: Path, script: str, *arguments: object) -> Any:
    """The JSON that a script prints last."""
    command = [str(python), str(HERE / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    lines = done.stdout.strip().splitlines()
    return json.loads(lines[-1]) if lines else None


def versions_of(python: Path) -> dict[str, str | None]:
    """Peer -> version of its package in the environment; None where it is absent."""
    code = (
        "import json, sys\nfrom importlib import metadata\nfound = {}\n"
        "for peer, package in json.loads(sys.argv[1]).items():\n"
        "    try: found[peer] = metadata.version(package)\n"
        "    except metadata.PackageNotFoundError: found[peer] = None\n"
        "print(json.dumps(found))"
    )
    if not python.exists():
        return dict.fromkeys(PACKAGES)
    done = subprocess.run([str(python), "-c", code, json.dumps(PACKAGES)], capture_output=True, text=True, check=True)
    found: dict[str, str | None] = json.loads(done.stdout)
    return found


# ---------------------------------------------------------------------- equality
def digests(work: Path) -> dict[str, str]:
    """Key -> digest of text and pictures."""
    found = {}
    for key, text, images in Samples(work / "samples"):
        digest = hashlib.blake2b(text.encode(), digest_size=16)
        for image in images:
            digest.update(len(image).to_bytes(8, "little") + image)
        found[key] = digest.hexdigest()
    return found


def assert_equal(work: Path, python: Path, peers: list[str]) -> dict[str, Any]:
    """Stop where a contender delivers anything else; returns what was compared."""
    expected = digests(work)
    for name in peers:
        found = call(python, "loader_peers.py", "contents", name, "--work", work)
        if found != expected:
            missing, more = expected.keys() - found.keys(), found.keys() - expected.keys()
            other = sum(found[key] != expected[key] for key in expected.keys() & found.keys())
            sys.exit(f"{name}: {len(missing)} samples missing, {len(more)} not ours, {other} with other content")
    checked: dict[str, Any] = call(Path(sys.executable), "loader_ours.py", "check", "--work", work)
    if checked["least_psnr"] <= 35:
        sys.exit(f"turbo shows a picture with a PSNR of {checked['least_psnr']:.1f} dB beside Pillow's")
    return {"samples": len(expected), "contenders": ["ours", "floor", *peers], **checked}


# ---------------------------------------------------------------------- measuring
def measured(
    work: Path, python: Path, peers: list[str], options: argparse.Namespace
) -> dict[str, list[dict[str, Any]]]:
    """Contender -> its figures of each round."""
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in ("ours", "floor", *peers)}
    for number in range(options.rounds):
        # The other way round every second time: what a contender leaves behind burdens no other one alone.
        for name in list(rounds)[:: 1 if number % 2 == 0 else -1]:
            own = name in ("ours", "floor")
            rounds[name].append(
                call(
                    Path(sys.executable) if own else python, "loader_ours.py" if own else "loader_peers.py",
                    "measure", name, "--work", work, "--seconds", options.seconds,
                    "--resume", 0 if number else options.restores,
                )
            )  # fmt: skip
            print(f"round {number + 1} of {options.rounds}: {name}", file=sys.stderr)
    return rounds


class Figures:
    """Medians over the rounds."""

    def __init__(self, rounds: dict[str, list[dict[str, Any]]]) -> None:
        self.rounds = rounds

    def get(self, name: str, what: str, clock: str = "wall") -> float:
        return median(one[what][clock] for one in self.rounds[name])

    def plain(self, name: str, what: str) -> float:
        return median(one[what] for one in self.rounds[name])

    def best(self, name: str, what: str, clock: str = "wall") -> float:
        """Of a peer, in the process or with two workers."""
        return max(self.get(name, f"{what}_{workers}", clock) for workers in (0, 2))

    def resume(self, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.rounds[name][0].get("resume")
        return found


def rows(figures: Figures) -> list[dict[str, Any]]:
    found = []
    for name in figures.rounds:
        row: dict[str, Any] = {"loader": name}
        if name == "ours":
            row |= {"raw": figures.get("floor", "raw_ours"), "rgb": figures.get("floor", "rgb_ours_2")}
            row |= {f"packed {side}": figures.get(name, f"packed_{side}_pillow") for side in SIDES}
            row |= {f"same {side}": figures.get(name, f"packed_{side}_turbo") for side in SIDES}
        elif name == "floor":
            row |= {"raw": figures.get(name, "raw"), "rgb": figures.get(name, "rgb_fast_2")}
            row |= {f"packed {side}": figures.get(name, f"packed_{side}_pillow") for side in SIDES}
            row |= {f"same {side}": figures.get(name, f"packed_{side}_turbo") for side in SIDES}
        else:
            row |= {"raw": figures.best(name, "raw"), "rgb": figures.best(name, "rgb")}
            row |= {f"packed {side}": figures.best(name, f"packed_{side}_pillow") for side in SIDES}
            row |= {f"same {side}": figures.best(name, f"packed_{side}_turbo") for side in SIDES}
        row |= {"first": figures.plain(name, "first_batch_seconds"), "MB": figures.plain(name, "private_mb")}
        resume = figures.resume(name)
        if resume:
            row |= {f"resume {share}": seconds for share, seconds in resume["seconds"].items()}
            row["after it"] = "; ".join(dict.fromkeys(f"{text}" for text in resume["exact"].values()))
        found.append(row)
    return found


def ratios(figures: Figures, peers: list[str], clock: str) -> dict[str, Any]:
    raw = [figures.get("floor", "raw", clock), *(figures.best(name, "raw", clock) for name in peers)]
    bare = max(figures.get("floor", f"rgb_{kind}_1", "cpu") for kind in ("exact", "fast", "pillow"))
    found: dict[str, Any] = {
        "raw_over_floor": figures.get("floor", "raw_ours", clock) / max(raw),
        "raw_checked_over_floor": figures.get("floor", "raw_ours_read", clock) / max(raw),
        # A core's share of the work is a question of processor seconds on any clock.
        "decoded_over_floor": figures.get("floor", "rgb_ours_1", "cpu") / bare,
        "decoded_over_same_pixels": figures.get("floor", "rgb_ours_1", "cpu")
        / figures.get("floor", "rgb_exact_1", "cpu"),
    }
    for side in SIDES:
        turbo = figures.get("ours", f"packed_{side}_turbo", clock)
        default = figures.get("ours", f"packed_{side}_pillow", clock)
        found[f"packed_over_bare_{side}"] = turbo / figures.get("floor", f"packed_{side}_turbo", clock)
        found[f"packed_checked_{side}"] = figures.get("ours", f"packed_{side}_turbo_read", clock) / turbo
        if peers:
            best = max(figures.best(name, f"packed_{side}_pillow", clock) for name in peers)
            same = max(figures.best(name, f"packed_{side}_turbo", clock) for name in peers)
            found[f"packed_over_best_peer_{side}"] = turbo / best
            found[f"packed_pillow_over_best_peer_{side}"] = default / best
            found[f"packed_over_best_peer_same_decoder_{side}"] = turbo / same
    return found


def summary(figures: Figures, peers: list[str]) -> dict[str, Any]:
    resume = figures.resume("ours")
    by_clock = {clock: ratios(figures, peers, clock) for clock in CLOCKS}
    wall = by_clock["wall"]
    found = {
        "raw_over_floor": wall["raw_over_floor"],
        "decoded_over_floor": wall["decoded_over_floor"],
        "packed_over_best_peer": min(wall[f"packed_over_best_peer_{side}"] for side in SIDES) if peers else None,
        "packed_over_best_peer_same_decoder": (
            min(wall[f"packed_over_best_peer_same_decoder_{side}"] for side in SIDES) if peers else None
        ),
        "packed_over_bare": min(wall[f"packed_over_bare_{side}"] for side in SIDES),
        "resume_seconds": None,
        "resume_exact": None,
        "resume_behind_fastest_peer": None,
        "by_clock": by_clock,
    }
    if resume:
        shares = [f"{share:.0%}" for share in SHARES]
        others = [other for name in peers if (other := figures.resume(name))]
        fastest = {share: min((other["seconds"][share] for other in others), default=None) for share in shares}
        behind = [resume["seconds"][share] - fastest[share] for share in shares if fastest[share] is not None]
        found["resume_seconds"] = resume["seconds"]
        found["resume_exact"] = all(text == "exact" for text in resume["exact"].values())
        found["resume_behind_fastest_peer"] = max(behind, default=None)
    return found


# ---------------------------------------------------------------------- printing
def lines(found: dict[str, Any]) -> list[str]:
    said = table(found["table"])
    for clock in CLOCKS:
        said += ["", f"ours over others, by {clock}:"]
        said += [f"  {name:44} {value:.2f}" for name, value in found["by_clock"][clock].items()]
    said += [f"{name}: {found[name]}" for name in ("resume_seconds", "resume_exact", "resume_behind_fastest_peer")]
    return [*said, *(f"absent: {name}: {why}" for name, why in found["absent"].items())]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shared", type=Path, default=SHARED, help="where make_corpus.py lies")
    parser.add_argument("--images", type=int, default=8000, help="caption pairs")
    parser.add_argument("--docs", type=int, default=1500, help="documents of texts and pictures in turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement")
    parser.add_argument("--restores", type=int, default=3, help="times that each restore is clocked; 0 leaves them out")
    parser.add_argument("--peers", type=Path, default=ROOT / ".venv-peers", help="environment of the peers")
    parser.add_argument("--only", action="append", choices=list(PEERS), help="this peer; repeatable (default: all)")
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--work", type=Path, help="folder of what is made, used again (default: a temporary one)")
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args()
    python = options.peers / "bin" / "python"
    versions = {} if options.ours_only else versions_of(python)
    absent = {
        name: f"{PACKAGES[name]} is not installed in {options.peers}" for name, one in versions.items() if not one
    }
    peers = [name for name, version in versions.items() if version and name in (options.only or PEERS)]
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        if not (work / "tokens.json").exists():
            sizes = ("--images", options.images, "--docs", options.docs, "--shared", options.shared)
            call(Path(sys.executable), "loader_ours.py", "prepare", "--work", work, *sizes)
        for name in list(peers):
            if (work / name / "written").exists():
                continue
            try:
                call(python, "loader_peers.py", "write", name, "--work", work)
            except Failed as error:
                absent[name] = f"cannot write: {error}"
                peers.remove(name)
                continue
            (work / name / "written").touch()
        equal = assert_equal(work, python, peers)
        figures = Figures(measured(work, python, peers, options))
        facts = about(*OURS)
        facts["versions"] |= {name: versions[name] for name in peers}
        found = {
            **summary(figures, peers),
            "table": rows(figures),
            "absent": absent,
            "equal": equal,
            "peculiar": {name: PEERS[name].peculiar for name in peers},
            "rounds": options.rounds,
        }
    publish(facts, found, lines(found), as_json=options.as_json)


if __name__ == "__main__":
    main()
