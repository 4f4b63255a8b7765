"""The deleted keys of a delete block: one of them, the Avro schema of their list, and the encoding
of many (format page 5.5).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from workers.errors import InvalidInput, UnsupportedTable
from workers.files.avro_encode import Encoded, content_of, encode_rows, joined, texts, varints

_NAMESPACE = "org.apache.hudi.avro.model"
# In the order of Hudi's union, which is part of the encoding.
_WRAPPERS: dict[str, Any] = {
    "BooleanWrapper": "boolean",
    "IntWrapper": "int",
    "LongWrapper": "long",
    "FloatWrapper": "float",
    "DoubleWrapper": "double",
    "BytesWrapper": "bytes",
    "StringWrapper": "string",
    "DateWrapper": {"type": "int", "logicalType": "date"},
    "DecimalWrapper": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    "TimeMicrosWrapper": {"type": "long", "logicalType": "time-micros"},
    "TimestampMicrosWrapper": {"type": "long", "logicalType": "timestamp-micros"},
}
_ARRAY_WRAPPER = "ArrayWrapper"
_WRAPPER_BY_TYPE: dict[pa.DataType, str] = {
    pa.bool_(): "BooleanWrapper",
    pa.int32(): "IntWrapper",
    pa.int64(): "LongWrapper",
    pa.float32(): "FloatWrapper",
    pa.float64(): "DoubleWrapper",
    pa.binary(): "BytesWrapper",
    pa.string(): "StringWrapper",
    pa.date32(): "DateWrapper",
    pa.timestamp("ms"): "LongWrapper",
    pa.timestamp("us"): "LongWrapper",
}


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """A deleted key, in which partition, and how old the delete is (format page 5.5)."""

    key: str
    partition: str
    ordering: tuple[str, Any] | None
    """Hudi's wrapper and its value; `("IntWrapper", 0)` deletes whatever the row's value is."""

    def to_avro(self) -> dict[str, Any]:
        """The record as fastavro writes it under `DELETE_LIST`."""
        wrapped = None
        if self.ordering is not None:
            wrapper, value = self.ordering
            field = "wrappedValues" if wrapper == _ARRAY_WRAPPER else "value"
            wrapped = (f"{_NAMESPACE}.{wrapper}", {field: value})
        return {"recordKey": self.key, "partitionPath": self.partition, "orderingVal": wrapped}

    @classmethod
    def from_avro(cls, row: Mapping[str, Any]) -> DeleteRecord:
        """From what fastavro reads under `DELETE_LIST` with the names of records returned."""
        ordering = None
        if row["orderingVal"] is not None:
            full_name, fields = row["orderingVal"]
            wrapper = full_name.rpartition(".")[2]
            ordering = (wrapper, fields["wrappedValues" if wrapper == _ARRAY_WRAPPER else "value"])
        return cls(row["recordKey"], row["partitionPath"] or "", ordering)


DELETE_NOW = ("IntWrapper", 0)
MOVED = ("IntWrapper", 1)
"""In a table with column groups, whose logs nobody else merges: the row goes to another partition.

It leaves nothing behind, where other deletes by key keep what deletes by age had said.
"""
ERASES = (None, DELETE_NOW)
"""Ordering values that delete whatever the row's is (format page 5.5)."""


def _record(name: str, *fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _wrapper(name: str, value: Any) -> dict[str, Any]:
    return _record(name, {"name": "value", "type": value})


def _delete_list() -> dict[str, Any]:
    wrappers = [_wrapper(name, value) for name, value in _WRAPPERS.items()]
    local_date = _wrapper("LocalDateWrapper", {"type": "int", "logicalType": "date"})
    items = ["null", *_WRAPPERS, local_date]
    array = _record(
        _ARRAY_WRAPPER, {"name": "wrappedValues", "type": {"type": "array", "items": items}}
    )
    text = ["null", "string"]
    record = _record(
        "HoodieDeleteRecord",
        {"name": "recordKey", "type": text, "default": None},
        {"name": "partitionPath", "type": text, "default": None},
        {"name": "orderingVal", "type": ["null", *wrappers, array], "default": None},
    )
    rows = {"name": "deleteRecordList", "type": {"type": "array", "items": record}}
    return {**_record("HoodieDeleteRecordList", rows), "namespace": _NAMESPACE}


DELETE_LIST = json.dumps(_delete_list())


def encode_delete_list(
    keys: pa.Array[Any] | pa.ChunkedArray[Any],
    partition: str,
    orderings: pa.Array[Any] | pa.ChunkedArray[Any] | None = None,
) -> bytes:
    """`DELETE_LIST` of these keys, without an object per key. `orderings` as for the records.

    Raises InvalidInput for a null among them, UnsupportedTable for a type without a wrapper.
    """
    text = joined(b"\x02", texts(_single(keys)), b"\x02", content_of(texts(pa.array([partition]))))
    ordered = joined(text, b"\x04\x00" if orderings is None else _wrapped(_single(orderings)))
    if len(keys) == 0:
        return b"\x00"
    return content_of(varints([len(keys)])) + content_of(ordered) + b"\x00"


def _wrapped(orderings: pa.Array[Any]) -> Encoded:
    """Each value in the wrapper of its type, with the wrapper's place in the union before it."""
    if orderings.null_count:
        raise InvalidInput(
            "a delete that is ordered by a value needs one", nulls=orderings.null_count
        )
    name = wrapper_of(orderings.type)
    values: Any = orderings
    if name == "DecimalWrapper":
        values = orderings.cast(pa.decimal128(30, 15))
    elif name == "TimestampMicrosWrapper":
        values = orderings.cast(pa.timestamp("us", "UTC"))
    branch = 1 + list(_WRAPPERS).index(name)
    field = {"name": "value", "type": _WRAPPERS[name]}
    return joined(
        bytes([2 * branch]), encode_rows(pa.table({"value": values}), {"fields": [field]})
    )


def wrapper_of(kind: Any) -> str:
    """The wrapper for ordering values of this Arrow type. Raises UnsupportedTable."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return "TimestampMicrosWrapper"
    if pa.types.is_decimal(kind):
        return "DecimalWrapper"
    if kind not in _WRAPPER_BY_TYPE:
        raise UnsupportedTable("deletes are not ordered by values of this type", type=kind)
    return _WRAPPER_BY_TYPE[kind]


def _single(column: pa.Array[Any] | pa.ChunkedArray[Any]) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
