"""Record batches as rows of Python values. What Python has no value for is kept in Arrow's words, or costs its row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from shardkit.prepare.ingest.reasons import Bad, plain

Row = dict[str, Any]

_NO_VALUE = (pa.ArrowException, ValueError, OverflowError, TypeError, KeyError, NotImplementedError)
"""What pyarrow raises where Python has no such value: nanoseconds, years over 9999, zones and bytes that it does not know."""
_DATED = len("2024-01-31T00:00:00.123456")


def rows(batch: pa.RecordBatch) -> list[Row | Bad]:
    """The rows of a batch, in order; a finding in the place of one that cannot be read."""
    try:
        found: list[Row | Bad] = batch.to_pylist()
    except _NO_VALUE:
        found = [_row(batch, index) for index in range(batch.num_rows)]
    return found


def _row(batch: pa.RecordBatch, index: int) -> Row | Bad:
    row: Row = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            row[name] = _value(column[index])
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            return Bad("invalid_utf8", f"byte {error.start} of a value, 0x{byte:02x}, is no UTF-8")
        except _NO_VALUE as error:
            return Bad("wrong_type", f"column {plain(name, 40)}: {plain(str(error), 100)}")
    return row


def _value(scalar: Any) -> Any:
    """The value of a scalar; a time that Python has none for as text.

    Raises:
        ValueError, TypeError, ...: where there is neither.
    """
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.StructScalar):
        if len({field.name for field in scalar.type}) < len(scalar.type):
            raise ValueError("a struct names a field twice")
        return {field.name: _value(scalar[k]) for k, field in enumerate(scalar.type)}
    if isinstance(scalar, pa.MapScalar):
        return [tuple(_value(entry[k]) for k in range(2)) for entry in scalar.values]
    if isinstance(scalar, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar):
        return [_value(one) for one in scalar.values]
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        raise
    except _NO_VALUE:
        if not pa.types.is_temporal(scalar.type):
            raise
        return _worded(scalar)


def _worded(scalar: Any) -> str:
    """A time as text: of a moment in nanoseconds all nine digits, of any other what Arrow writes."""
    if pa.types.is_timestamp(scalar.type) and scalar.type.unit == "ns":
        whole, rest = divmod(scalar.value, 1000)
        text: str = pa.scalar(whole, pa.timestamp("us", scalar.type.tz)).as_py().isoformat(timespec="microseconds")
        return f"{text[:_DATED]}{rest:03}{text[_DATED:]}"
    return str(scalar.cast(pa.string()))
