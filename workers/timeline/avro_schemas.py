"""Avro schemas of what timeline files contain, field order as the format demands (format page 3).

Built from parts, because the same few shapes repeat: nullable field, array, map.
"""

from __future__ import annotations

from typing import Any

AvroSchema = dict[str, Any]
_NAMESPACE = "org.apache.hudi.avro.model"


def _optional(name: str, avro_type: object) -> AvroSchema:
    return {"name": name, "type": ["null", avro_type], "default": None}


def _required(name: str, avro_type: object) -> AvroSchema:
    return {"name": name, "type": avro_type}


def _optionals(avro_type: object, *names: str) -> list[AvroSchema]:
    return [_optional(name, avro_type) for name in names]


def _array(items: object) -> AvroSchema:
    return {"type": "array", "items": items}


def _map(values: object) -> AvroSchema:
    return {"type": "map", "values": values}


def _record(name: str, fields: list[AvroSchema], *, is_top: bool = False) -> AvroSchema:
    schema: AvroSchema = {"type": "record", "name": name, "fields": fields}
    return {**schema, "namespace": _NAMESPACE} if is_top else schema


_VERSION = {"name": "version", "type": ["int", "null"], "default": 1}

_WRITE_STAT = _record(
    "HoodieWriteStat",
    [
        *_optionals("string", "fileId", "path", "prevCommit"),
        *_optionals(
            "long",
            "numWrites",
            "numDeletes",
            "numUpdateWrites",
            "totalWriteBytes",
            "totalWriteErrors",
        ),
        _optional("partitionPath", "string"),
        *_optionals(
            "long",
            "totalLogRecords",
            "totalLogFiles",
            "totalUpdatedRecordsCompacted",
            "numInserts",
            "totalLogBlocks",
            "totalCorruptLogBlock",
            "totalRollbackBlocks",
            "fileSizeInBytes",
        ),
        _optional("logVersion", "int"),
        _optional("logOffset", "long"),
        _optional("baseFile", "string"),
        _optional("logFiles", _array("string")),
        _optional("cdcStats", _map("long")),
        _optional("prevBaseFile", "string"),
        *_optionals("long", "minEventTime", "maxEventTime"),
        _optional(
            "runtimeStats",
            _record(
                "HoodieRuntimeStats",
                _optionals("long", "totalScanTime", "totalCreateTime", "totalUpsertTime"),
            ),
        ),
        *_optionals(
            "long", "totalLogFilesCompacted", "totalLogReadTimeMs", "totalLogSizeCompacted"
        ),
        _optional("tempPath", "string"),
        _optional("numUpdates", "long"),
    ],
)

_COMMIT_FIELDS = [
    _optional("partitionToWriteStats", _map(_array(_WRITE_STAT))),
    _optional("compacted", "boolean"),
    _optional("extraMetadata", _map("string")),
    _VERSION,
    _optional("operationType", "string"),
]

COMMIT_METADATA = _record("HoodieCommitMetadata", _COMMIT_FIELDS, is_top=True)

REPLACE_COMMIT_METADATA = _record(
    "HoodieReplaceCommitMetadata",
    [*_COMMIT_FIELDS, _optional("partitionToReplaceFileIds", _map(_array("string")))],
    is_top=True,
)

_INSTANT_INFO = _record(
    "HoodieInstantInfo", [_required("commitTime", "string"), _required("action", "string")]
)

ROLLBACK_PLAN = _record(
    "HoodieRollbackPlan",
    [
        _optional("instantToRollback", _INSTANT_INFO),
        _optional(
            "RollbackRequests",
            _array(
                _record(
                    "HoodieRollbackRequest",
                    [
                        _required("partitionPath", "string"),
                        *_optionals("string", "fileId", "latestBaseInstant"),
                        {**_required("filesToBeDeleted", _array("string")), "default": []},
                        _optional("logBlocksToBeDeleted", _map("long")),
                    ],
                )
            ),
        ),
        _VERSION,
    ],
    is_top=True,
)

ROLLBACK_METADATA = _record(
    "HoodieRollbackMetadata",
    [
        _required("startRollbackTime", "string"),
        _required("timeTakenInMillis", "long"),
        _required("totalFilesDeleted", "int"),
        _required("commitsRollback", _array("string")),
        _required(
            "partitionMetadata",
            _map(
                _record(
                    "HoodieRollbackPartitionMetadata",
                    [
                        _required("partitionPath", "string"),
                        _required("successDeleteFiles", _array("string")),
                        _required("failedDeleteFiles", _array("string")),
                        *_optionals(_map("long"), "rollbackLogFiles", "logFilesFromFailedCommit"),
                    ],
                )
            ),
        ),
        _VERSION,
        {**_required("instantsRollback", _array(_INSTANT_INFO)), "default": []},
    ],
    is_top=True,
)

LSM_INSTANT = _record(
    "HoodieLSMTimelineInstant",
    [
        *_optionals("string", "instantTime", "completionTime", "action"),
        *_optionals("bytes", "metadata", "plan"),
        {"name": "version", "type": "int", "default": 1},
    ],
    is_top=True,
)
