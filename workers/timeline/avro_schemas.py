"""Avro schemas of timeline files, field order as the format demands (format page 3).

Built from parts, because the same few shapes repeat: nullable field, array, map.
"""

from __future__ import annotations

from typing import Any

AvroSchema = dict[str, Any]
_NAMESPACE = "org.apache.hudi.avro.model"


def _optional(name: str, avro_type: object) -> AvroSchema:
    return {"name": name, "type": ["null", avro_type], "default": None}


def _require_field(name: str, avro_type: object) -> AvroSchema:
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
    "HoodieInstantInfo",
    [_require_field("commitTime", "string"), _require_field("action", "string")],
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
                        _require_field("partitionPath", "string"),
                        *_optionals("string", "fileId", "latestBaseInstant"),
                        {**_require_field("filesToBeDeleted", _array("string")), "default": []},
                        _optional("logBlocksToBeDeleted", _map("long")),
                    ],
                )
            ),
        ),
        _VERSION,
    ],
    is_top=True,
)

_ROLLBACK_METADATA_FIELDS = [
    _require_field("startRollbackTime", "string"),
    _require_field("timeTakenInMillis", "long"),
    _require_field("totalFilesDeleted", "int"),
    _require_field("commitsRollback", _array("string")),
    _require_field(
        "partitionMetadata",
        _map(
            _record(
                "HoodieRollbackPartitionMetadata",
                [
                    _require_field("partitionPath", "string"),
                    _require_field("successDeleteFiles", _array("string")),
                    _require_field("failedDeleteFiles", _array("string")),
                    *_optionals(_map("long"), "rollbackLogFiles", "logFilesFromFailedCommit"),
                ],
            )
        ),
    ),
    _VERSION,
    {**_require_field("instantsRollback", _array(_INSTANT_INFO)), "default": []},
]

ROLLBACK_METADATA = _record("HoodieRollbackMetadata", _ROLLBACK_METADATA_FIELDS, is_top=True)

LSM_INSTANT = _record(
    "HoodieLSMTimelineInstant",
    [
        *_optionals("string", "instantTime", "completionTime", "action"),
        *_optionals("bytes", "metadata", "plan"),
        {"name": "version", "type": "int", "default": 1},
    ],
    is_top=True,
)

CLEANER_PLAN = _record(
    "HoodieCleanerPlan",
    [
        _optional(
            "earliestInstantToRetain",
            _record(
                "HoodieActionInstant",
                [_require_field(name, "string") for name in ("timestamp", "action", "state")],
            ),
        ),
        {**_require_field("lastCompletedCommitTimestamp", "string"), "default": ""},
        _require_field("policy", "string"),
        _optional("filesToBeDeletedPerPartition", _map(_array("string"))),
        _VERSION,
        _optional(
            "filePathsToBeDeletedPerPartition",
            _map(
                _array(
                    _record(
                        "HoodieCleanFileInfo",
                        [
                            _optional("filePath", "string"),
                            _optional("isBootstrapBaseFile", "boolean"),
                        ],
                    )
                )
            ),
        ),
        _optional("partitionsToBeDeleted", _array("string")),
        _optional("extraMetadata", _map("string")),
    ],
    is_top=True,
)

CLEAN_METADATA = _record(
    "HoodieCleanMetadata",
    [
        _require_field("startCleanTime", "string"),
        _require_field("timeTakenInMillis", "long"),
        _require_field("totalFilesDeleted", "int"),
        _require_field("earliestCommitToRetain", "string"),
        {**_require_field("lastCompletedCommitTimestamp", "string"), "default": ""},
        _require_field(
            "partitionMetadata",
            _map(
                _record(
                    "HoodieCleanPartitionMetadata",
                    [
                        _require_field("partitionPath", "string"),
                        _require_field("policy", "string"),
                        _require_field("deletePathPatterns", _array("string")),
                        _require_field("successDeleteFiles", _array("string")),
                        _require_field("failedDeleteFiles", _array("string")),
                        _optional("isPartitionDeleted", "boolean"),
                    ],
                )
            ),
        ),
        _VERSION,
        _optional("bootstrapPartitionMetadata", _map("HoodieCleanPartitionMetadata")),
        _optional("extraMetadata", _map("string")),
    ],
    is_top=True,
)

SAVEPOINT_METADATA = _record(
    "HoodieSavepointMetadata",
    [
        _require_field("savepointedBy", "string"),
        _require_field("savepointedAt", "long"),
        _require_field("comments", "string"),
        _require_field(
            "partitionMetadata",
            _map(
                _record(
                    "HoodieSavepointPartitionMetadata",
                    [
                        _require_field("partitionPath", "string"),
                        _require_field("savepointDataFile", _array("string")),
                    ],
                )
            ),
        ),
        _VERSION,
    ],
    is_top=True,
)

RESTORE_PLAN = _record(
    "HoodieRestorePlan",
    [
        {**_require_field("instantsToRollback", _array(_INSTANT_INFO)), "default": []},
        {"name": "version", "type": ["int", "null"], "default": 2},
        _optional("savepointToRestoreTimestamp", "string"),
    ],
    is_top=True,
)

RESTORE_METADATA = _record(
    "HoodieRestoreMetadata",
    [
        _require_field("startRestoreTime", "string"),
        _require_field("timeTakenInMillis", "long"),
        _require_field("instantsToRollback", _array("string")),
        _require_field(
            "hoodieRestoreMetadata",
            _map(_array(["null", _record("HoodieRollbackMetadata", _ROLLBACK_METADATA_FIELDS)])),
        ),
        _VERSION,
        {**_require_field("restoreInstantInfo", _array("HoodieInstantInfo")), "default": []},
    ],
    is_top=True,
)
