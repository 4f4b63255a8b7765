"""The text of record keys, a column at a time, spelled as Hudi spells it (format page 4.3).

One plain key field is its value's text. Several fields, or one under the COMPLEX key generator,
are `field:value,field:value`, with `__null__` and `__empty__` for what has no text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput

NULL_VALUE = "__null__"
EMPTY_VALUE = "__empty__"
_SEPARATOR = ","


def check_key_type(field: str, kind: pa.DataType) -> None:
    """Check that a record key of this type is the same text for every engine.

    Raises InvalidInput for a type whose text differs between engines or their write paths.
    """
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind)
    is_exact = types.is_integer(kind) or types.is_decimal(kind) or types.is_boolean(kind)
    if not (is_text or is_exact or types.is_date32(kind) or _is_time(kind)):
        raise InvalidInput(
            "a record key is text, a whole number, a date, a decimal, a boolean or a time in "
            "microseconds: of other types the write paths of Hudi make different texts",
            column=field,
            type=kind,
        )


def _is_time(kind: Any) -> bool:
    """Return True for timestamps in microseconds, with a zone too: Hudi's upsert formats them as
    the number since 1970 in UTC.
    """
    return bool(pa.types.is_timestamp(kind) and kind.unit == "us")


def key_value_texts(field: str, column: pa.Array[Any]) -> pa.Array[Any]:
    """Return the column's values as text, null where they are null. Raises InvalidInput."""
    check_key_type(field, column.type)
    if _is_time(column.type):  # Hudi spells the number of microseconds since 1970.
        column = column.cast(pa.int64())
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def composite_keys(fields: Sequence[str], texts: Sequence[pa.Array[Any]]) -> pa.Array[Any]:
    """Return the keys of these fields' values, in the texts of `key_value_texts`."""
    parts = [_part(field, text) for field, text in zip(fields, texts, strict=True)]
    if len(parts) == 1:
        return parts[0]
    pieces: list[Any] = [*parts, _SEPARATOR]
    joined: pa.Array[Any] = pc.binary_join_element_wise(*pieces)
    return joined


def _part(field: str, texts: pa.Array[Any]) -> pa.Array[Any]:
    values: Any = texts
    named: Any = pc.if_else(pc.equal(values, pa.scalar("")), EMPTY_VALUE, values)
    pieces: list[Any] = [f"{field}:", pc.fill_null(named, NULL_VALUE), ""]
    part: pa.Array[Any] = pc.binary_join_element_wise(*pieces)
    return part
