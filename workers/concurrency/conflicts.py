"""File-level conflicts between writers: pure rules over what each instant touched.

The key is (partition, file group), never the file group alone (bug D4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from workers.clock import InstantTime
from workers.timeline.instant import Instant

FileGroupKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class WriteSet:
    instant: InstantTime
    file_groups: frozenset[FileGroupKey]
    writer: str | None = None


@dataclass(frozen=True, slots=True)
class SchemaTriple:
    """Avro JSON of the three schemas of RFC-82."""

    at_start: str | None
    at_validation: str | None
    writer: str | None


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a transaction lost, and to whom."""

    kind: Literal["write", "schema"]
    message: str
    rival: InstantTime | None
    rival_writer: str | None = None
    file_groups: tuple[FileGroupKey, ...] = ()
    writer: str | None = None
    schemas: SchemaTriple | None = None
    case: str | None = None
    """The RFC-82 scenario of a schema conflict."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "file_groups": [list(key) for key in self.file_groups]}


def overlapping_file_groups(ours: WriteSet, theirs: WriteSet) -> Conflict | None:
    shared = ours.file_groups & theirs.file_groups
    if not shared:
        return None
    return Conflict(
        kind="write",
        message=f"{len(shared)} file group(s) were written by another writer first",
        rival=theirs.instant,
        rival_writer=theirs.writer,
        file_groups=tuple(sorted(shared)),
        writer=ours.writer,
    )


def rivals(
    at_start: Iterable[Instant], at_validation: Iterable[Instant], ours: InstantTime
) -> list[Instant]:
    """Writes that completed since we started, in the order in which they became visible."""
    known = {(one.requested_at, one.action) for one in at_start if one.is_completed}
    new = [
        one
        for one in at_validation
        if one.is_completed
        and one.action.writes_data
        and one.requested_at != ours
        and (one.requested_at, one.action) not in known
    ]
    return sorted(new, key=lambda one: one.completed_at or "")


def vanished(at_start: Iterable[Instant], at_validation: Iterable[Instant]) -> list[Instant]:
    """Writes that were complete when we started and are not any more: what we built on was taken
    back.
    """
    now = {(one.requested_at, one.action) for one in at_validation if one.is_completed}
    return [
        one
        for one in at_start
        if one.is_completed and one.action.writes_data and (one.requested_at, one.action) not in now
    ]
