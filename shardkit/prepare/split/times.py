"""--split-by-time: the time that a row's metadata gives, and the cutoffs that part the splits.

2021-06-30   2021-06   2021                      a day, month or year stands for its first moment
2021-06-30T12:00:00.5+02:00   2021-06-30 12:00Z  ISO 8601; without an offset it is UTC
Wed, 30 Jun 2021 12:00:00 GMT                    RFC 2822, as servers write it
1625054400   1625054400000                       seconds, or from 10^11 on milliseconds, since 1970
2021                                             a number of four digits is a year
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from shardkit.errors import ConfigError
from shardkit.prepare.ingest.group import field_of

MISSING, BAD = -(1 << 63), -(1 << 63) + 1
"""In the place of a time: the row has none, or one that cannot be read."""
UNKNOWN = (MISSING, BAD)

Cutoffs = tuple[tuple[str, str], ...]
"""(split, moment from which it begins, as written), ascending in time."""

_ISO = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s?(Z|[+-]\d\d:?\d\d)?)?)?)?"
)
_NUMBER = re.compile(r"-?\d{5,}(?:\.\d+)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_YEARS = range(1000, 10_000)
_MILLISECONDS = 10**11


def parse_time(value: Any) -> int | None:
    """Microseconds since 1970, in UTC; None where the value is no time."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int) and value in _YEARS:
        return parse_time(str(value))
    if isinstance(value, int | float):
        seconds = value / 1000 if abs(value) >= _MILLISECONDS else value
        return round(seconds * 1_000_000) if abs(seconds) < _MILLISECONDS else None
    if not isinstance(value, str):
        return None
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return parse_time(float(text) if "." in text else int(text))
    moment = _iso(text) if _ISO.fullmatch(text) else _mail(text)
    return None if moment is None else (moment - _EPOCH) // _MICROSECOND


def _iso(text: str) -> datetime | None:
    found = _ISO.fullmatch(text)
    assert found is not None
    year, month, day, hour, minute, second, fraction, offset = found.groups()
    micros = int((fraction or "0").ljust(6, "0")[:6])
    try:
        moment = datetime(int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0),
                          micros, tzinfo=timezone.utc)  # fmt: skip
        if offset and offset != "Z":
            shift = timedelta(hours=int(offset[1:3]), minutes=int(offset[-2:]))
            moment = moment - shift if offset[0] == "+" else moment + shift
    except (ValueError, OverflowError):
        return None
    return moment


def _mail(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def time_of(metadata: str, field: str) -> int:
    """The time that a row gives, else MISSING or BAD.

    Args:
        metadata: canonical JSON object.
        field: with dots for nested ones, as in --group-by.
    """
    value = field_of(orjson.loads(metadata), field)
    if value is None or (isinstance(value, str) and not value.strip()):
        return MISSING
    found = parse_time(value)
    return BAD if found is None else found


def parse_cutoffs(values: Sequence[str]) -> Cutoffs:
    """`DATE` alone, which begins `test`; or `NAME=DATE` once for each split but the first, in any order.

    Raises:
        ConfigError: where one is no time, or a name or time comes twice.
    """
    found = []
    for value in values:
        name, equals, moment = (part.strip() for part in value.partition("="))
        if not equals:
            name, moment = "test", name
        if parse_time(moment) is None:
            raise ConfigError(
                f"--cutoff {value!r} is no time", hint="write --cutoff 2021-06-30, or --cutoff test=2021-06-30"
            )
        found.append((name, moment))
    cutoffs = tuple(sorted(found, key=lambda pair: moment_of(pair[1])))
    moments = {moment_of(moment) for _, moment in cutoffs}
    if len({name for name, _ in cutoffs}) < len(cutoffs) or len(moments) < len(cutoffs):
        raise ConfigError(
            "--cutoff names a split or a time twice", hint="write --cutoff val=2021-01-01 --cutoff test=2021-07-01"
        )
    return cutoffs


def moment_of(text: str) -> int:
    """A moment of a cutoff in microseconds since 1970."""
    found = parse_time(text)
    assert found is not None, "cutoffs are parsed before"
    return found


def places(times: npt.NDArray[np.int64], cutoffs: Cutoffs) -> npt.NDArray[np.int64]:
    """[n] place of the split of each time; a cutoff's own moment belongs to the split that it begins."""
    borders = np.array([moment_of(moment) for _, moment in cutoffs], np.int64)
    found: npt.NDArray[np.int64] = np.searchsorted(borders, times, side="right").astype(np.int64)
    return found
