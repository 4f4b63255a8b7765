"""Avro schemas of the plans of compaction and clustering, field order as in Hudi 1.2 (format pages
3.4, 3.5).
"""

from __future__ import annotations

from typing import Any

AvroSchema = dict[str, Any]
_NAMESPACE = "org.apache.hudi.avro.model"
_STRINGS = {"type": "array", "items": "string"}
_TEXT_BY_NAME = {"type": "map", "values": "string"}
_NUMBER_BY_NAME = {"type": "map", "values": "double"}


def _nullable(name: str, avro_type: object) -> AvroSchema:
    return {"name": name, "type": ["null", avro_type], "default": None}


def _version() -> AvroSchema:
    return {"name": "version", "type": ["int", "null"], "default": 1}


def _record(name: str, *fields: AvroSchema) -> AvroSchema:
    return {"type": "record", "name": name, "fields": list(fields)}


def _build_array_type(record: AvroSchema) -> AvroSchema:
    return {"type": "array", "items": record}


def _strategy(record: str, class_field: str) -> AvroSchema:
    return _record(
        record,
        _nullable(class_field, "string"),
        _nullable("strategyParams", _TEXT_BY_NAME),
        _version(),
    )


_FILE_ID = {"name": "fileId", "type": ["null", "string"]}

_COMPACTION_OPERATION = _record(
    "HoodieCompactionOperation",
    {"name": "baseInstantTime", "type": ["null", "string"]},
    _nullable("deltaFilePaths", _STRINGS),
    _nullable("dataFilePath", "string"),
    _FILE_ID,
    _nullable("partitionPath", "string"),
    _nullable("metrics", _NUMBER_BY_NAME),
    _nullable("bootstrapFilePath", "string"),
)

COMPACTION_PLAN: AvroSchema = {
    **_record(
        "HoodieCompactionPlan",
        _nullable("operations", _build_array_type(_COMPACTION_OPERATION)),
        _nullable("extraMetadata", _TEXT_BY_NAME),
        _version(),
        _nullable("strategy", _strategy("HoodieCompactionStrategy", "compactorClassName")),
        {"name": "preserveHoodieMetadata", "type": ["boolean", "null"], "default": False},
        _nullable("missingSchedulePartitions", _STRINGS),
    ),
    "namespace": _NAMESPACE,
}

_SLICE = _record(
    "HoodieSliceInfo",
    _nullable("dataFilePath", "string"),
    _nullable("deltaFilePaths", _STRINGS),
    _FILE_ID,
    _nullable("partitionPath", "string"),
    _nullable("bootstrapFilePath", "string"),
    _version(),
)

_CLUSTERING_GROUP = _record(
    "HoodieClusteringGroup",
    _nullable("slices", _build_array_type(_SLICE)),
    _nullable("metrics", _NUMBER_BY_NAME),
    {"name": "numOutputFileGroups", "type": ["int", "null"], "default": 1},
    _nullable("extraMetadata", _TEXT_BY_NAME),
    _version(),
)

_CLUSTERING_PLAN = _record(
    "HoodieClusteringPlan",
    _nullable("inputGroups", _build_array_type(_CLUSTERING_GROUP)),
    _nullable("strategy", _strategy("HoodieClusteringStrategy", "strategyClassName")),
    _nullable("extraMetadata", _TEXT_BY_NAME),
    _version(),
    _nullable("preserveHoodieMetadata", "boolean"),
    _nullable("missingSchedulePartitions", _STRINGS),
)

REQUESTED_REPLACE: AvroSchema = {
    **_record(
        "HoodieRequestedReplaceMetadata",
        _nullable("operationType", "string"),
        _nullable("clusteringPlan", _CLUSTERING_PLAN),
        _nullable("extraMetadata", _TEXT_BY_NAME),
        _version(),
    ),
    "namespace": _NAMESPACE,
}
