"""The contents of a clean's files: the plan before the first delete, and the result (format page
3.6).

The plan names files by full path, the result by name. A planted plan must not reach what no clean
would ever delete: only data files below the table are accepted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workers.clock import InstantTime
from workers.errors import InvalidInput, MalformedTable
from workers.files.avro_container import decode_record, encode_record
from workers.files.names import check_partition_path, parse_name_instant
from workers.storage.base import join
from workers.timeline.avro_schemas import CLEAN_METADATA, CLEANER_PLAN
from workers.timeline.instant import Instant

_VERSION = 2
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CleanPlanFile:
    """The content of a clean's requested file (format page 3.6): the files to delete, and the
    reason to delete no others.
    """

    policy: str
    paths_by_partition: Mapping[str, tuple[str, ...]]
    """Relative to the table."""
    earliest_to_retain: Instant | None = None
    """Snapshots from this commit's completion on stay readable; None when no policy by time."""
    last_completed: InstantTime = ""
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """The files of all partitions, sorted, relative to the table."""
        return sorted(path for paths in self.paths_by_partition.values() for path in paths)

    def encode(self, location: str) -> bytes:
        """Encode as Avro; paths become absolute below `location`, as Hudi's cleaner expects
        them.
        """
        earliest = self.earliest_to_retain
        record = {
            "earliestInstantToRetain": earliest
            and {
                "timestamp": earliest.requested_at,
                "action": earliest.action.value,
                "state": earliest.state.value.upper(),
            },
            "lastCompletedCommitTimestamp": self.last_completed,
            "policy": self.policy,
            "version": _VERSION,
            "filePathsToBeDeletedPerPartition": {
                partition: [
                    {"filePath": f"{location}/{path}", "isBootstrapBaseFile": False}
                    for path in paths
                ]
                for partition, paths in sorted(self.paths_by_partition.items())
            },
            "extraMetadata": dict(self.extra),
        }
        return encode_record(CLEANER_PLAN, record)


@dataclass(frozen=True, slots=True)
class StoredCleanPlan:
    """The parts of a plan that its execution needs, ours or a foreign writer's."""

    policy: str
    paths_by_partition: Mapping[str, tuple[str, ...]]
    earliest_to_retain: InstantTime
    """Empty when the plan names none."""
    last_completed: InstantTime

    @property
    def paths(self) -> list[str]:
        """The files of all partitions, sorted, relative to the table."""
        return sorted(path for paths in self.paths_by_partition.values() for path in paths)


def read_clean_plan(content: bytes) -> StoredCleanPlan | None:
    """Return the plan in a requested clean's file; None for an empty or a torn one, which is not a
    plan at all (bug A8).
    """
    try:
        record = decode_record(content)
        return StoredCleanPlan(
            policy=str(record["policy"]),
            paths_by_partition={
                partition: _data_paths(partition, files)
                for partition, files in (record["filePathsToBeDeletedPerPartition"] or {}).items()
            },
            earliest_to_retain=str((record["earliestInstantToRetain"] or {}).get("timestamp", "")),
            last_completed=str(record.get("lastCompletedCommitTimestamp") or ""),
        )
    except (MalformedTable, KeyError, TypeError, AttributeError):
        return None


def _data_paths(partition: str, files: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the data files in the plan, below their partition in any case."""
    names = [str(file["filePath"]).rpartition("/")[2] for file in files]
    try:
        directory = check_partition_path(partition, url_encode=True)
    except InvalidInput:
        _log.warning("clean plan names a strange partition, left alone: partition=%a", partition)
        return ()
    return tuple(join(directory, name) for name in names if parse_name_instant(name) is not None)


def encode_clean_metadata(
    plan: StoredCleanPlan,
    *,
    started_at: InstantTime,
    took_ms: int,
    extra: Mapping[str, str] | None = None,
) -> bytes:
    """Encode the result of a clean. Every planned file is deleted now, even if another process
    deleted it (bug B12).
    """
    partitions = {
        partition: {
            "partitionPath": partition,
            "policy": plan.policy,
            "deletePathPatterns": [path.rpartition("/")[2] for path in paths],
            "successDeleteFiles": [path.rpartition("/")[2] for path in paths],
            "failedDeleteFiles": [],
            "isPartitionDeleted": False,
        }
        for partition, paths in sorted(plan.paths_by_partition.items())
    }
    record = {
        "startCleanTime": started_at,
        "timeTakenInMillis": took_ms,
        "totalFilesDeleted": len(plan.paths),
        "earliestCommitToRetain": plan.earliest_to_retain,
        "lastCompletedCommitTimestamp": plan.last_completed,
        "partitionMetadata": partitions,
        "version": _VERSION,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": dict(extra or {}),
    }
    return encode_record(CLEAN_METADATA, record)


@dataclass(frozen=True, slots=True)
class CleanResult:
    """The result of a completed clean."""

    earliest_to_retain: InstantTime
    deleted_by_partition: Mapping[str, tuple[str, ...]]
    """File names."""


def read_clean_metadata(content: bytes) -> CleanResult:
    """Read the result of a completed clean. Raises MalformedTable."""
    record = decode_record(content)
    try:
        return CleanResult(
            str(record.get("earliestCommitToRetain") or ""),
            {
                partition: tuple(files["successDeleteFiles"])
                for partition, files in (record.get("partitionMetadata") or {}).items()
            },
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise MalformedTable("clean metadata lacks a field", fields=sorted(record)) from error
