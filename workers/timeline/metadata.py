"""Contents of timeline files as values: commit metadata, rollback plan, rollback result.

Reading accepts Avro containers (table versions 8, 9) and the JSON of version 6; writing is Avro
(format page 3).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from workers.clock import InstantTime, parse_instant
from workers.errors import InvalidInput, MalformedTable
from workers.files.avro_container import decode_record, encode_record
from workers.files.names import parse_log_file, parse_name_instant
from workers.json_text import read_json
from workers.storage.base import validate_path
from workers.timeline.avro_schemas import (
    COMMIT_METADATA,
    REPLACE_COMMIT_METADATA,
    ROLLBACK_METADATA,
    ROLLBACK_PLAN,
)
from workers.timeline.group_facts import FactsByGroup, add_facts, encode_facts
from workers.timeline.instant import Action

_log = logging.getLogger(__name__)
_REMEMBERED_BYTES_MAX = 16 << 10
SCHEMA_KEY = "schema"
WRITER_KEY = "sluice.writer.name"
PROCESS_KEY = "sluice.writer.process"
"""JSON of host, pid and mode, for the description of a conflict with this commit."""
OPERATION_KEY = "sluice.operation.id"
STREAM_KEY = "sluice.stream"
STREAM_COLUMNS_KEY = "sluice.stream.columns"
STREAM_MAX_ORDERING_KEY = "sluice.stream.max_ordering"
ROWS_KEY = "sluice.rows"
MOVED_ROWS_KEY = "sluice.moved.rows"
"""How many rows of column groups went to another partition; absent where none did."""
ATTEMPTS_KEY = "sluice.attempts"
"""Writes that a commit took; absent where the first one did."""
DEAD_LETTER_ROWS_KEY = "sluice.dead_letter.rows"
DEAD_LETTER_FILES_KEY = "sluice.dead_letter.files"
LOCK_KEY = "sluice.lock"
"""JSON of provider, epoch and waited_ms: under which holding of the table lock this was decided;
and `skew`, if the clock of a former holder differed from this host's.
"""
SCHEMA_RESOLUTION_KEY = "hoodie.schema.resolution"
RESTATES_KEY = "sluice.restates"
"""The commit that this one states again, for readers that go by the time of request."""
RESTATED_KEYS_KEY = "sluice.restated.keys"
"""How many keys of that commit are written again by this one."""


@dataclass(frozen=True, slots=True)
class WriteStat:
    """The files that a task wrote into a file group."""

    file_id: str
    path: str
    """Relative to the table."""
    partition_path: str
    prev_commit: str = "null"
    num_writes: int = 0
    num_inserts: int = 0
    num_updates: int = 0
    num_deletes: int = 0
    bytes: int = 0
    prev_base_file: str | None = None
    is_log: bool = False
    groups: FactsByGroup = field(default_factory=dict, compare=False)
    """The facts by column group. The stored stat lacks them: the commit has their sum."""

    @property
    def file_name(self) -> str:
        """The path without its directories."""
        return self.path.rpartition("/")[2]

    def to_avro(self) -> dict[str, Any]:
        """Return the fields of Hudi's `HoodieWriteStat` that readers use."""
        record: dict[str, Any] = {
            "fileId": self.file_id,
            "path": self.path,
            "partitionPath": self.partition_path,
            "prevCommit": self.prev_commit,
            "numWrites": self.num_writes,
            "numInserts": self.num_inserts,
            "numUpdateWrites": self.num_updates,
            "numDeletes": self.num_deletes,
            "totalWriteBytes": self.bytes,
            "fileSizeInBytes": self.bytes,
            "totalWriteErrors": 0,
            "prevBaseFile": self.prev_base_file,
        }
        if self.is_log:
            name = parse_log_file(self.file_name)
            record |= {
                "baseFile": "",
                "logFiles": [self.file_name],
                "logVersion": name.version if name else 1,
                "logOffset": 0,
            }
        return record

    @classmethod
    def from_avro(cls, record: dict[str, Any]) -> WriteStat:
        """Build the stat from a decoded record, ours or a foreign writer's. Raises KeyError without
        a file id.
        """
        return cls(
            file_id=record["fileId"],
            path=record.get("path") or "",
            partition_path=record.get("partitionPath") or "",
            prev_commit=record.get("prevCommit") or "null",
            num_writes=record.get("numWrites") or 0,
            num_inserts=record.get("numInserts") or 0,
            num_updates=record.get("numUpdateWrites") or 0,
            num_deletes=record.get("numDeletes") or 0,
            bytes=record.get("fileSizeInBytes") or record.get("totalWriteBytes") or 0,
            prev_base_file=record.get("prevBaseFile"),
            is_log=record.get("logFiles") is not None,
        )


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """The content of a write's completed file (format page 3.2)."""

    partition_to_write_stats: dict[str, list[WriteStat]] = field(default_factory=dict)
    extra_metadata: dict[str, str] = field(default_factory=dict)
    operation_type: str = "UPSERT"
    compacted: bool = False
    partition_to_replace_file_ids: dict[str, list[str]] = field(default_factory=dict)

    @property
    def stats(self) -> list[WriteStat]:
        """The stats of all partitions, in their order in the file."""
        return [stat for stats in self.partition_to_write_stats.values() for stat in stats]

    @property
    def paths(self) -> list[str]:
        """The files that were written, relative to the table."""
        return [stat.path for stat in self.stats]

    @property
    def file_groups(self) -> frozenset[tuple[str, str]]:
        """(partition, file id) of everything written or replaced, for the search for conflicts."""
        written = {(stat.partition_path, stat.file_id) for stat in self.stats}
        return self.replaced_groups | written

    @property
    def replaced_groups(self) -> frozenset[tuple[str, str]]:
        """(partition, file id) of the groups that this replaced."""
        return frozenset(
            (partition, file_id)
            for partition, file_ids in self.partition_to_replace_file_ids.items()
            for file_id in file_ids
        )

    @property
    def schema_json(self) -> str | None:
        """The table's Avro schema after this write, or None if the metadata lacks it."""
        return self.extra_metadata.get(SCHEMA_KEY) or None

    @property
    def restates(self) -> InstantTime | None:
        """The commit whose rows and schema this one publishes again, changing nothing; None for all
        other commits.
        """
        return self.extra_metadata.get(RESTATES_KEY)

    def with_extra(self, **extra: str) -> CommitMetadata:
        """Return a copy with these entries over its own extra metadata."""
        return replace(self, extra_metadata=self.extra_metadata | extra)

    def encode(self, action: Action) -> bytes:
        """Return the content of the completed file of `action`."""
        record: dict[str, Any] = {
            "partitionToWriteStats": {
                partition: [stat.to_avro() for stat in stats]
                for partition, stats in self.partition_to_write_stats.items()
            },
            "compacted": self.compacted,
            "extraMetadata": self.extra_metadata,
            "operationType": self.operation_type,
        }
        if action.completes_as is not Action.REPLACECOMMIT:
            assert not self.partition_to_replace_file_ids, action
            return encode_record(COMMIT_METADATA, record)
        record["partitionToReplaceFileIds"] = self.partition_to_replace_file_ids
        return encode_record(REPLACE_COMMIT_METADATA, record)


def commit_metadata(
    stats: list[WriteStat],
    *,
    extra: dict[str, str],
    operation_type: str,
    compacted: bool = False,
    replaced: Mapping[str, Iterable[str]] | None = None,
) -> CommitMetadata:
    """Build the metadata of a commit; `replaced` has the ids of replaced file groups by
    partition.
    """
    by_partition: dict[str, list[WriteStat]] = {}
    for stat in stats:
        by_partition.setdefault(stat.partition_path, []).append(stat)
    replaced_ids = {partition: sorted(ids) for partition, ids in sorted((replaced or {}).items())}
    group_facts = encode_facts(add_facts(stat.groups for stat in stats))
    return CommitMetadata(
        by_partition, {**extra, **group_facts}, operation_type, compacted, replaced_ids
    )


def read_commit_metadata(content: bytes) -> CommitMetadata:
    """Read a completed commit's file, of either layout. Raises MalformedTable."""
    if len(content) > _REMEMBERED_BYTES_MAX:
        return _commit_metadata(content)
    return _parse_cached(content)


@lru_cache(maxsize=512)
def _parse_cached(content: bytes) -> CommitMetadata:
    """Parse and remember: many writers of a process read the same small commits to validate their
    own.
    """
    return _commit_metadata(content)


def _commit_metadata(content: bytes) -> CommitMetadata:
    record = _decode(content)
    try:
        return CommitMetadata(
            partition_to_write_stats={
                partition: [WriteStat.from_avro(stat) for stat in stats]
                for partition, stats in (record.get("partitionToWriteStats") or {}).items()
            },
            extra_metadata=dict(record.get("extraMetadata") or {}),
            operation_type=record.get("operationType") or "UNKNOWN",
            compacted=bool(record.get("compacted")),
            partition_to_replace_file_ids=dict(record.get("partitionToReplaceFileIds") or {}),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise MalformedTable("commit metadata lacks a field", fields=sorted(record)) from error


def _decode(content: bytes) -> dict[str, Any]:
    if content[:1] != b"{":
        return decode_record(content)
    try:
        return dict(read_json(content))
    except ValueError as error:
        raise MalformedTable("commit metadata is neither Avro nor JSON") from error


@dataclass(frozen=True, slots=True)
class RollbackPlanFile:
    """The durable plan of a rollback. Files are relative to the table."""

    target: InstantTime
    target_action: str
    files_by_partition: dict[str, tuple[str, ...]]

    def encode(self, location: str) -> bytes:
        """Encode as Avro; paths become absolute below `location`."""
        requests = [
            {
                "partitionPath": partition,
                "filesToBeDeleted": [f"{location}/{path}" for path in paths],
            }
            for partition, paths in sorted(self.files_by_partition.items())
        ]
        target = {"commitTime": self.target, "action": self.target_action}
        return encode_record(
            ROLLBACK_PLAN, {"instantToRollback": target, "RollbackRequests": requests}
        )


def read_rollback_plan(content: bytes, location: str) -> RollbackPlanFile | None:
    """Read the plan in a requested rollback's file; None for an empty or foreign-shaped one: the
    caller makes a new one (bug A8).

    Paths that leave `location` or name another instant are dropped: a planted plan must not reach
    other files (threat T3).
    """
    try:
        record = decode_record(content)
        target = record["instantToRollback"]
        requests = record.get("RollbackRequests") or []
        instant = str(target["commitTime"])
        parse_instant(instant)
        files = {
            str(request["partitionPath"]): tuple(
                path.removeprefix(location + "/")
                for path in request.get("filesToBeDeleted") or []
                if _belongs(path, location, instant)
            )
            for request in requests
        }
        action = Action(target["action"]).value
        named = sum(len(request.get("filesToBeDeleted") or []) for request in requests)
        if dropped := named - sum(map(len, files.values())):
            _log.warning(
                "plan names files of others, left alone: target=%s files=%s", instant, dropped
            )
        return RollbackPlanFile(instant, action, files)
    except (MalformedTable, KeyError, TypeError, ValueError):
        return None


def _belongs(path: str, location: str, instant: InstantTime) -> bool:
    """Return True for a path inside the table, without detours, and named after the instant."""
    if not path.startswith(location + "/"):
        return False
    try:
        relative = validate_path(path.removeprefix(location + "/"))
    except InvalidInput:
        return False
    return parse_name_instant(relative.rpartition("/")[2]) == instant


def encode_rollback_metadata(
    plan: RollbackPlanFile,
    *,
    rollback_instant: InstantTime,
    deleted_by_partition: dict[str, list[str]],
    took_ms: int,
    location: str,
) -> bytes:
    """Encode the content of a completed rollback's file: the deleted files, and the duration
    in ms.
    """
    partitions = {
        partition: {
            "partitionPath": partition,
            "successDeleteFiles": [f"{location}/{path}" for path in paths],
            "failedDeleteFiles": [],
        }
        for partition, paths in deleted_by_partition.items()
    }
    record = {
        "startRollbackTime": rollback_instant,
        "timeTakenInMillis": took_ms,
        "totalFilesDeleted": sum(len(paths) for paths in deleted_by_partition.values()),
        "commitsRollback": [plan.target],
        "partitionMetadata": partitions,
        "instantsRollback": [{"commitTime": plan.target, "action": plan.target_action}],
    }
    return encode_record(ROLLBACK_METADATA, record)


def read_rollback_targets(content: bytes) -> list[InstantTime]:
    """Return the instants that a completed rollback undid."""
    return [str(instant) for instant in decode_record(content).get("commitsRollback") or []]


def read_rolled_back(content: bytes) -> dict[InstantTime, str]:
    """Return the instants that a completed rollback undid, each with its action."""
    listed = decode_record(content).get("instantsRollback") or []
    return {str(rolled_back["commitTime"]): str(rolled_back["action"]) for rolled_back in listed}
