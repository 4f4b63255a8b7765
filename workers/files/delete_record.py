"""The deleted keys of a delete block: a record, and the Avro schema of their list (format page
5.5).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from workers.errors import UnsupportedTable

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
    """A deleted key, its partition, and the ordering value of the delete (format page 5.5)."""

    key: str
    partition: str
    ordering: tuple[str, Any] | None
    """Hudi's wrapper and its value; `("IntWrapper", 0)` deletes whatever the row's value is."""

    def to_avro(self) -> dict[str, Any]:
        """Return the record as fastavro writes it under `DELETE_LIST`."""
        wrapped = None
        if self.ordering is not None:
            wrapper, value = self.ordering
            field = "wrappedValues" if wrapper == _ARRAY_WRAPPER else "value"
            wrapped = (f"{_NAMESPACE}.{wrapper}", {field: value})
        return {"recordKey": self.key, "partitionPath": self.partition, "orderingVal": wrapped}

    @classmethod
    def from_avro(cls, row: Mapping[str, Any]) -> DeleteRecord:
        """Build a record from what fastavro reads under `DELETE_LIST` with the names of records
        returned.
        """
        ordering = None
        if row["orderingVal"] is not None:
            full_name, fields = row["orderingVal"]
            wrapper = full_name.rpartition(".")[2]
            ordering = (wrapper, fields["wrappedValues" if wrapper == _ARRAY_WRAPPER else "value"])
        return cls(row["recordKey"], row["partitionPath"] or "", ordering)


DELETE_NOW = ("IntWrapper", 0)
MOVED = ("IntWrapper", 1)
"""The ordering value of a move to another partition, in a table with column groups, whose logs no
other engine merges.

Such a delete keeps no trace, while other deletes by key keep the effect of deletes with an ordering
value.
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


def find_wrapper(kind: Any) -> str:
    """Return the wrapper for ordering values of this Arrow type. Raises UnsupportedTable."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return "TimestampMicrosWrapper"
    if pa.types.is_decimal(kind):
        return "DecimalWrapper"
    if kind not in _WRAPPER_BY_TYPE:
        raise UnsupportedTable("deletes are not ordered by values of this type", type=kind)
    return _WRAPPER_BY_TYPE[kind]
