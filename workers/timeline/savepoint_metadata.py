"""The contents of a savepoint and a restore: the files that must stay, the instants that are undone
(format page 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.errors import MalformedTable
from workers.files.avro_container import decode_record, encode_record
from workers.storage.base import join
from workers.timeline.avro_schemas import RESTORE_METADATA, RESTORE_PLAN, SAVEPOINT_METADATA
from workers.timeline.instant import Action

_RESTORE_VERSION = 2


@dataclass(frozen=True, slots=True)
class SavepointMetadata:
    """The author, time and reason of a savepoint, and the files that it protects (format page
    3.8).
    """

    by: str
    at_ms: int
    comment: str
    names_by_partition: Mapping[str, tuple[str, ...]]
    """File names of every slice that the savepointed commit showed, logs included."""

    @property
    def paths(self) -> frozenset[str]:
        """The protected files, relative to the table."""
        return frozenset(
            join(partition, name)
            for partition, names in self.names_by_partition.items()
            for name in names
        )

    def encode(self) -> bytes:
        """Return the content of the savepoint's completed file."""
        partitions = {
            partition: {"partitionPath": partition, "savepointDataFile": list(names)}
            for partition, names in sorted(self.names_by_partition.items())
        }
        record = {
            "savepointedBy": self.by,
            "savepointedAt": self.at_ms,
            "comments": self.comment,
            "partitionMetadata": partitions,
        }
        return encode_record(SAVEPOINT_METADATA, record)


def read_savepoint_metadata(content: bytes) -> SavepointMetadata:
    """Read a savepoint, with its author and its files. Raises MalformedTable: the files that it
    protects must never be guessed.
    """
    record = decode_record(content)
    try:
        return SavepointMetadata(
            by=str(record["savepointedBy"]),
            at_ms=int(record["savepointedAt"]),
            comment=str(record["comments"]),
            names_by_partition={
                partition: tuple(files["savepointDataFile"])
                for partition, files in record["partitionMetadata"].items()
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedTable("savepoint metadata lacks a field", fields=sorted(record)) from error


@dataclass(frozen=True, slots=True)
class RestorePlanFile:
    """The content of a restore's requested file: its target, and what it undoes."""

    target: InstantTime
    """Request time of the commit that is newest afterwards."""
    instants: tuple[tuple[InstantTime, str], ...]
    """(instant, action) to undo when the plan was made, newest first."""

    def encode(self) -> bytes:
        """Encode as Avro, as `read_restore_plan` and Hudi read it."""
        record = {
            "instantsToRollback": [
                {"commitTime": instant, "action": action} for instant, action in self.instants
            ],
            "version": _RESTORE_VERSION,
            "savepointToRestoreTimestamp": self.target,
        }
        return encode_record(RESTORE_PLAN, record)


def read_restore_plan(content: bytes) -> RestorePlanFile | None:
    """Read the plan in a requested restore's file; None for an empty one, a torn one, or one that
    names no target (bug A8).
    """
    try:
        record = decode_record(content)
        target = str(record["savepointToRestoreTimestamp"] or "")
        instants = tuple(
            (str(rollback["commitTime"]), Action(rollback["action"]).value)
            for rollback in record["instantsToRollback"]
        )
    except (MalformedTable, KeyError, TypeError, ValueError):
        return None
    return RestorePlanFile(target, instants) if target else None


def encode_restore_metadata(
    *,
    started_at: InstantTime,
    took_ms: int,
    rollbacks: Iterable[tuple[InstantTime, str, bytes]],
) -> bytes:
    """Encode the result; `rollbacks` are (undone instant, its action, content of the completed
    rollback).
    """
    done = list(rollbacks)
    record = {
        "startRestoreTime": started_at,
        "timeTakenInMillis": took_ms,
        "instantsToRollback": [instant for instant, _, _ in done],
        "hoodieRestoreMetadata": {
            instant: [decode_record(content)] for instant, _, content in done
        },
        "restoreInstantInfo": [
            {"commitTime": instant, "action": action} for instant, action, _ in done
        ],
    }
    return encode_record(RESTORE_METADATA, record)


def read_restore_targets(content: bytes) -> list[InstantTime]:
    """Return the instants that a completed restore undid."""
    return [str(instant) for instant in decode_record(content).get("instantsToRollback") or []]
