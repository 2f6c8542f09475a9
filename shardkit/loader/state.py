"""The state of a stream, and what may differ when it is restored.

{"version", "plan",
 "cursor":  {"epoch", "step", "block", "pack"},
 "streams": how far each source was drawn before that block, and before that epoch,
 "num_steps": of that epoch,
 "bound":   what must be equal for the same batches to come,
 "recorded": what may differ,
 "shards":  marks of the dataset's shards of sequences, by which an append is known,
 "rests":   plans that this one goes on from, where settings or data were changed within an epoch,
 "quarantine": images that this rank could not read,
 "digest":  of all the rest, so that a state that is damaged or was edited is refused}
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

from shardkit.errors import ConfigError, ResumeError
from shardkit.loader import batch as layout
from shardkit.loader.append import Places, runs_of
from shardkit.loader.batch import Quarantined
from shardkit.sequence.packers import PACKERS
from shardkit.sequence.plan import Cursor, Plan, PlanSettings
from shardkit.sequence.plan import draw as drawing
from shardkit.sequence.plan import order as ordering
from shardkit.sequence.plan.after import expand, state_digest
from shardkit.store.dataset import Dataset
from shardkit.store.sequences import sequence_recipe

VERSION = 3
MAX_RESTS = 8
"""Changes of settings within an epoch that a state remembers, at two KiB each."""
MAX_RESTS_BYTES = 24 * 1024
"""That they may take of a state, where there is room."""
MAX_BYTES = 64 * 1024
"""Of a state."""
QUARANTINE_BYTES = 24 * 1024
"""Kept free for as many pictures as a rank may mask."""
_SOURCE_BYTES = 48
"""That the numbers of a mixed source may still grow by, and a little more for all others."""

State = dict[str, Any]


class Promise(str, Enum):
    """What a restored stream guarantees, from the most to the least."""

    REPLAYABLE = "REPLAYABLE"
    """The global batches that would have come, bit for bit; at equal world size the rank batches too."""
    STATISTICALLY_EQUIVALENT = "STATISTICALLY_EQUIVALENT"
    """Another order of what is left: no sequence of this epoch is repeated or lost."""
    UNRECOVERABLE = "UNRECOVERABLE"
    """Nothing; the state is refused."""


REQUIRE = {"replayable": Promise.REPLAYABLE, "equivalent": Promise.STATISTICALLY_EQUIVALENT}
"""What `require` may be, and the least promise that it accepts."""

PLANNED = (
    "max_tokens",
    "max_images",
    "max_patches",
    "max_attention",
    "global_batch",
    "packer",
    "tail",
    "block",
    "window",
    "mixture",
)
"""Settings of order, pack and mixture: with others, what is left of an epoch can be planned anew."""

_PIXELS = ("decoder",)
"""What makes pixels out of stored pictures: with another one the same batches come, whose pixels differ by a hair."""

OBJECT = "object"
"""Begins the name of a difference that is a file behind a URL: the plan is the same, its bytes may be out of reach."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    name: str
    saved: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.name} is {_text(self.saved)} there, {_text(self.now)} here"


def bound(dataset: Dataset, plan: Plan, decoder: str) -> State:
    """Everything that decides the global batches, by name.

    Args:
        decoder: what makes the pixels, with its version.
    """
    return {
        "dataset": dataset.id,
        "split": plan.identity["split"],
        **_flat("tokenize", sequence_recipe(dataset.recipe)),
        "mixture": plan.mixture.to_json() if plan.mixture else None,
        "draw_version": drawing.VERSION if plan.mixture else None,
        **bound_packs(plan.settings, decoder),
    }


def bound_packs(settings: PlanSettings, decoder: str) -> State:
    """The part of what decides the global batches that loaders of every kind have."""
    return {
        **asdict(settings),
        "order_version": ordering.VERSION,
        "packer_version": PACKERS[settings.packer].version,
        "batch_version": layout.VERSION,
        "decoder": decoder,
    }


def differences(saved: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> list[Difference]:
    """What is not equal, by name; of a setting that has names itself, as a mixture, by these: `mixture.weights.web`."""
    found: list[Difference] = []
    for name in sorted(saved.keys() | now.keys()):
        one, other = saved.get(name), now.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found += differences(one, other, f"{within}{name}.")
        elif one != other:
            found.append(Difference(name=f"{within}{name}", saved=one, now=other))
    return found


def judge(found: Sequence[Difference], saved: Mapping[str, Any], *, appended: bool = False) -> Promise:
    """The promise that can be kept in spite of these differences from what was bound.

    Args:
        appended: the dataset holds every shard of the one that was bound.
    """
    if not found:
        return Promise.REPLAYABLE
    names = {difference.name for difference in found if not difference.name.startswith(OBJECT)}
    names = {"mixture" if name.startswith("mixture.") else name for name in names}
    if appended:
        names.discard("dataset")
    if saved.get("draw_version") in (None, drawing.VERSION):
        names.discard("draw_version")  # nothing was mixed, or nothing is
    packer = PACKERS.get(saved.get("packer", ""))
    if packer is not None and packer.version == saved.get("packer_version"):
        names.discard("packer_version")  # that of another packer: the one of the state is still here
    return Promise.STATISTICALLY_EQUIVALENT if names <= {*PLANNED, *_PIXELS} else Promise.UNRECOVERABLE


def keeps_plan(found: Sequence[Difference]) -> bool:
    """Whether the very same batches come, whatever makes their pixels."""
    return all(difference.name in _PIXELS or difference.name.startswith(OBJECT) for difference in found)


def refuse_less(logger: logging.Logger, promise: Promise, require: str, found: Sequence[Difference]) -> None:
    """Raise where a promise is less than what is required, with both sides of every difference; say so in the log, too.

    Raises:
        ResumeError
    """
    if promise is Promise.REPLAYABLE or promise is REQUIRE[require]:
        return
    what = f"{promise.value}: the state was saved for another stream ({'; '.join(map(str, found))})"
    logger.error("loader state refused: %s", what)
    raise ResumeError(
        what,
        where="loader state",
        hint="load it into a loader of what it was saved with, or begin anew without it"
        if promise is Promise.UNRECOVERABLE
        else 'set these as they were, or accept another order of what is left with require="equivalent"',
    )


def write_cursor(plan: Plan, cursor: Cursor) -> State:
    """The parts of a state that say where a plan is."""
    streams = None
    if plan.mixture is not None:
        streams = {"draw": cursor.draw.to_json(), "origin": cursor.origin.to_json()}
    place = {name: getattr(cursor, name) for name in ("epoch", "step", "block", "pack")}
    return {"cursor": place, "streams": streams}


def room_for_rests(fixed: State, num_sources: int) -> int:
    """Bytes that are left of a state for the plans that it goes on from.

    Args:
        fixed: all other parts but for the quarantine.
        num_sources: of its mixture.

    Raises:
        ConfigError: where not even those have room.
    """
    size = len(json.dumps(fixed)) + _SOURCE_BYTES * (num_sources + 10)
    room = MAX_BYTES - QUARANTINE_BYTES - size
    if room < 0:
        raise ConfigError(
            f"a state of this loader would take {size} bytes beside {QUARANTINE_BYTES} for a quarantine, {MAX_BYTES} is all: "
            f"its mixture has {num_sources} sources",
            hint="mix fewer sources, or make several one (`--source` of ingest)",
        )
    return min(room, MAX_RESTS_BYTES)


def with_rest(saved: State, places: Places | None = None, *, room: int = MAX_RESTS_BYTES) -> list[State]:
    """What another plan goes on from: the place in `saved`, and what that plan went on from itself.

    Args:
        places: where the shards of the dataset that was bound stand in this one's list; None where it is the same.
        room: bytes that they may take.

    Raises:
        ResumeError: where so much was changed within an epoch that a state cannot hold it.
    """
    link = {**{name: saved[name] for name in ("bound", "cursor", "streams")}, "shards": None}
    earlier = saved["rests"]
    if saved["streams"] is None and all(
        rest["cursor"]["epoch"] < saved["cursor"]["epoch"] and rest["streams"] is None and rest["shards"] is None
        for rest in earlier
    ):
        earlier = []  # that epoch is over, and without a mixture or new data the next one owes nothing to it
    links = [*earlier, link]
    if places is not None:
        links = [{**one, "shards": runs_of([places[at] for at in expand(one["shards"], len(places))])} for one in links]
    size = len(json.dumps(links))
    if len(links) > MAX_RESTS or size > room:
        raise ResumeError(
            f"settings or data were changed {len(earlier)} times within an epoch, and a state holds no more "
            f"({MAX_RESTS} times, {room} bytes; with this change it would be {size})",
            where="loader state",
            hint="go on with the settings and the data of the state to the end of the epoch",
        )
    return links


FORM: dict[str, tuple[type, ...]] = {
    "version": (int,),
    "plan": (str,),
    "cursor": (Mapping,),
    "streams": (Mapping, type(None)),
    "num_steps": (int, type(None)),
    "bound": (Mapping,),
    "recorded": (Mapping,),
    "rests": (list,),
    "quarantine": (list,),
    "digest": (str,),
}
"""Part of a state of any loader -> what it is."""


def check_form(state: Any) -> State:
    """`state` itself where it has the form of one.

    Raises:
        ResumeError: where it has not, or another version of shardkit wrote it.
    """
    if isinstance(state, Mapping) and type(state.get("version")) is int:
        check_version(state["version"])
    if not isinstance(state, Mapping):
        raise _no_state(f"it is {type(state).__name__}, no dict")
    for name, kinds in FORM.items():
        if name not in state:
            raise _no_state(f"{name} is missing")
        if not isinstance(state[name], kinds) or isinstance(state[name], bool):
            raise _no_state(f"{name} is {_text(state[name])}")
    return dict(state)


def check_version(version: object) -> None:
    """Refuse what another version of shardkit wrote.

    Raises:
        ResumeError
    """
    if version != VERSION:
        raise ResumeError(
            f"the state has version {version}, this shardkit reads {VERSION}",
            where="loader state",
            hint="use the shardkit that wrote it",
        )


def _no_state(why: str) -> ResumeError:
    return ResumeError(
        f"this is no state of a loader: {why}",
        where="loader state",
        hint="give what state_dict() or state_after(batch) returned",
    )


def sealed(state: State) -> State:
    """The state with the digest of what it says."""
    return {**state, "digest": state_digest(state)}


def check_seal(saved: State, found: Sequence[Difference] = ()) -> None:
    """Compare a state with its digest.

    Args:
        found: how it differs from this loader; told with it, because the change may be among them.

    Raises:
        ResumeError: where it was changed since it was saved.
    """
    try:
        digest = state_digest(saved)
    except (TypeError, ValueError) as error:
        digest = f"none: {error}"
    if digest != saved["digest"]:
        more = f" ({'; '.join(map(str, found))})" if found else ""
        raise ResumeError(
            f"{Promise.UNRECOVERABLE.value}: the state was changed since it was saved: its digest is {saved['digest']}, what it says gives {digest}{more}",
            where="loader state",
            hint="give the state as it was saved, or begin anew without it",
        )


def log(logger: logging.Logger, promise: Promise, found: Sequence[Difference]) -> None:
    """Say what is promised, and everything that is not as it was."""
    text = f"{promise.value}: {'; '.join(map(str, found)) or 'nothing differs'}"
    logger.log(logging.INFO if promise is Promise.REPLAYABLE else logging.WARNING, "loader state taken: %s", text)


def write_quarantine(entries: Sequence[Quarantined]) -> list[State]:
    return [asdict(entry) for entry in entries]


def read_quarantine(entries: Sequence[Mapping[str, Any]], places: Places | None = None) -> list[Quarantined]:
    """The entries of a state; `places` says where the shards of its dataset are now, where it is another one."""
    found = [Quarantined(**entry) for entry in entries]
    return found if places is None else [replace(one, shard=places[one.shard]) for one in found]


def _flat(prefix: str, value: Any) -> State:
    """Nested settings as one level of dotted names, so that a difference is told by name."""
    if not isinstance(value, Mapping):
        return {prefix: value}
    flat: State = {}
    for name, inner in value.items():
        flat |= _flat(f"{prefix}.{name}", inner)
    return flat


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 200 else f"{text[:197]}..."
