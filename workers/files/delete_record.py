"""One deleted key in a delete block, and the Avro schema of their list (format page 5.5)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    key: str
    partition: str
    ordering: tuple[str, Any] | None
    """Hudi's wrapper and its value; `("IntWrapper", 0)` deletes whatever the row's value is."""

    def to_avro(self) -> dict[str, Any]:
        wrapped = None
        if self.ordering is not None:
            wrapper, value = self.ordering
            field = "wrappedValues" if wrapper == _ARRAY_WRAPPER else "value"
            wrapped = (f"{_NAMESPACE}.{wrapper}", {field: value})
        return {"recordKey": self.key, "partitionPath": self.partition, "orderingVal": wrapped}

    @classmethod
    def from_avro(cls, row: Mapping[str, Any]) -> DeleteRecord:
        ordering = None
        if row["orderingVal"] is not None:
            full_name, fields = row["orderingVal"]
            wrapper = full_name.rpartition(".")[2]
            ordering = (wrapper, fields["wrappedValues" if wrapper == _ARRAY_WRAPPER else "value"])
        return cls(row["recordKey"], row["partitionPath"] or "", ordering)


DELETE_NOW = ("IntWrapper", 0)
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
