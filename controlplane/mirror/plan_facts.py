"""What the files of table services say, in short: pending plans, cleans, savepoints, restores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.files.avro_container import decode_record
from workers.table.table import Table
from workers.timeline.instant import Action, Instant
from workers.timeline.pending_plans import parse_planned_slices, plan_content
from workers.timeline.service_plans import PlannedSlice

ENTRIES_KEPT = 100
TEXT_CHARS_MAX = 500
_REWRITING = (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING, Action.REPLACECOMMIT)
_Small = dict[str, Any]


def pending_plan(table: Table, instant: Instant) -> _Small:
    """How much a plan on the timeline will touch; empty for what is no plan.

    Raises MalformedTable, UnsupportedTable.
    """
    if instant.is_completed or table.layout.version == 1:
        return {}
    if instant.action in _REWRITING:
        content = plan_content(table.storage, instant)
        return _rewriting(parse_planned_slices(instant.action, content))
    if instant.action is Action.CLEAN:
        content = plan_content(table.storage, instant)
        return _cleaning(decode_record(content)) if content else {}
    if instant.action is Action.RESTORE:
        content = plan_content(table.storage, instant)
        return _restoring(decode_record(content)) if content else {}
    return {}


def completed_clean(content: bytes) -> _Small:
    record = decode_record(content)
    partitions = record.get("partitionMetadata") or {}
    return {
        "files": int(record.get("totalFilesDeleted") or 0),
        "partitions": len(partitions),
        "earliest_to_retain": _text(record.get("earliestCommitToRetain")),
        "failed": sum(len(one.get("failedDeleteFiles") or []) for one in partitions.values()),
    }


def completed_savepoint(content: bytes) -> _Small:
    record = decode_record(content)
    partitions = record.get("partitionMetadata") or {}
    return {
        "by": _text(record.get("savepointedBy")),
        "comment": _text(record.get("comments")),
        "at_ms": int(record.get("savepointedAt") or 0),
        "files": sum(len(one.get("savepointDataFile") or []) for one in partitions.values()),
        "partitions": len(partitions),
    }


def completed_restore(content: bytes) -> _Small:
    record = decode_record(content)
    undone = [_text(one) for one in record.get("instantsToRollback") or []]
    rollbacks = [
        rollback
        for each in (record.get("hoodieRestoreMetadata") or {}).values()
        for rollback in each or []
        if rollback
    ]
    return {
        "rolled_back": undone[:ENTRIES_KEPT],
        "rolled_back_actions": {
            _text(one.get("commitTime")): _text(one.get("action"))
            for one in (record.get("restoreInstantInfo") or [])[:ENTRIES_KEPT]
        },
        "undone": len(undone),
        "files": sum(int(one.get("totalFilesDeleted") or 0) for one in rollbacks),
    }


def _rewriting(slices: tuple[PlannedSlice, ...]) -> _Small:
    if not slices:
        return {}
    return {
        "file_groups": len(slices),
        "files": sum(len(one.files) for one in slices),
        "partitions": len({one.partition for one in slices}),
    }


def _cleaning(record: Mapping[str, Any]) -> _Small:
    by_partition = record.get("filePathsToBeDeletedPerPartition") or {}
    return {
        "files": sum(len(files or []) for files in by_partition.values()),
        "partitions": len(by_partition),
        "strategy": _text(record.get("policy")),
    }


def _restoring(record: Mapping[str, Any]) -> _Small:
    undone = record.get("instantsToRollback") or []
    return {
        "undone": len(undone),
        "savepoint": _text(record.get("savepointToRestoreTimestamp")),
    }


def _text(value: object) -> str:
    return "" if value is None else str(value)[:TEXT_CHARS_MAX].replace("\x00", "")
