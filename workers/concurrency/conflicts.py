"""Conflicts between writers by file group: pure rules over what each instant wrote.

The key is (partition, file group), never the file group alone (bug D4). Under the bucket index a
bucket has one file group at a time, so two ids of one bucket conflict as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum, unique
from typing import Any, Literal

from workers.clock import InstantTime
from workers.files.names import parse_bucket_number
from workers.timeline.instant import CompletedInstant, Instant
from workers.timeline.metadata import CommitMetadata

FileGroupKey = tuple[str, str]
ELSEWHERE_MAX = 100


@unique
class ConflictRule(StrEnum):
    """The rule by which a write conflict was found.

    Decisions store these codes, the mirror and the API return them, and docs/concurrency.md lists
    them. A code is data: it stays when the function of its rule is renamed.
    """

    OVERLAPPING_FILE_GROUPS = "overlapping_file_groups"
    """Optimistic mode: both wrote a file group, or files of one bucket."""
    UNMERGEABLE_FILE_GROUPS = "unmergeable_file_groups"
    """Non-blocking mode: a file group of the write was replaced or duplicated."""
    INSERTED_TWICE = "inserted_twice"
    """Both inserted a key."""
    DELETED_UNSEEN = "deleted_unseen"
    """The other writer inserted a key that this write deletes and did not find."""
    CHANGED_SINCE_READ = "changed_since_read"
    """The other writer changed rows that this write read and writes back."""
    BROUGHT_APART = "brought_apart"
    """The two wrote a key to different partitions."""
    TAKEN_BACK = "taken_back"
    """A commit that the write read, or whose schema its files have, was rolled back."""
    WRITE_EPOCH = "write_epoch"
    """The epoch of the streaming query is already in the table, or is out of order."""
    CHECK_COMMIT = "check_commit"
    """The sink no longer has the offsets or the epoch with which its transaction began."""
    PLAN_RESET = "plan_reset"
    """The sink committed after the plan of an offset reset was made."""


@dataclass(frozen=True, slots=True)
class WriteSet:
    """The file groups that one instant wrote, as far as the rules of conflict need them."""

    instant: InstantTime
    file_groups: frozenset[FileGroupKey]
    """Written or replaced."""
    writer: str | None = None
    appended: frozenset[FileGroupKey] = frozenset()
    """Those of `file_groups` that only got log files: they merge with a compaction by its side."""
    replaced: frozenset[FileGroupKey] = frozenset()
    is_compaction: bool = False
    whole_partitions: frozenset[str] = frozenset()
    """Partitions that were replaced as a whole, so nothing may have been added to them since."""
    is_whole_table: bool = False


def write_set(
    instant: InstantTime,
    metadata: CommitMetadata,
    writer: str | None,
    *,
    whole_partitions: Iterable[str] = (),
    is_whole_table: bool = False,
) -> WriteSet:
    """Return the write set of a commit by its metadata.

    The metadata does not state which partitions it replaces as a whole, or whether it replaces the
    table.
    """
    based = {(stat.partition_path, stat.file_id) for stat in metadata.stats if not stat.is_log}
    replaced = {
        (partition, file_id)
        for partition, file_ids in metadata.partition_to_replace_file_ids.items()
        for file_id in file_ids
    }
    return WriteSet(
        instant,
        metadata.file_groups,
        writer,
        appended=metadata.file_groups - based - replaced,
        replaced=frozenset(replaced),
        is_compaction=metadata.compacted,
        whole_partitions=frozenset(whole_partitions),
        is_whole_table=is_whole_table,
    )


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """A change by one side to a path of the table's schema at the start."""

    path: str
    kind: str
    by: str
    """rival | writer | both"""
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class SchemaTriple:
    """Avro JSON of the three schemas of RFC-82, and the differences that a strategy found."""

    at_start: str | None
    at_validation: str | None
    writer: str | None
    strategy: str | None = None
    scenario: int | None = None
    reason: str = ""
    advice: str = ""
    differences: tuple[SchemaDifference, ...] = ()
    clashes: tuple[tuple[str, str], ...] = ()
    """(path, why no merge could settle it); none where strategy `evolvability` would merge."""


@dataclass(frozen=True, slots=True)
class ConflictedWrite:
    """The write that lost, as its own process describes it. Its rollback leaves nothing else of
    it.
    """

    operation: str
    mode: str
    host: str
    pid: int
    operation_id: str | None = None
    stream: str | None = None
    attempt: int = 1
    attempts_max: int = 1
    """The write is retried automatically while `attempt` is less."""
    elsewhere: tuple[FileGroupKey, ...] = ()
    """File groups that it wrote without meeting the rival; at most `ELSEWHERE_MAX`."""
    elsewhere_count: int = 0


@dataclass(frozen=True, slots=True)
class Conflict:
    """The reason why a transaction lost, and the commit that it lost to."""

    kind: Literal["write", "schema"]
    message: str
    rival: InstantTime | None
    rival_writer: str | None = None
    file_groups: tuple[FileGroupKey, ...] = ()
    writer: str | None = None
    schemas: SchemaTriple | None = None
    case: str | None = None
    """The row of the decision table that a schema conflict was found by (requirements 2.1)."""
    instant: InstantTime | None = None
    """Ours, that lost."""
    detected: Literal["early", "commit"] = "commit"
    """While the write still ran, or when it wanted to commit."""
    strategy: str | None = None
    """Of early detection: Hudi's class name."""
    wasted_files: int = 0
    """Data files that were rolled back."""
    wasted_bytes: int = 0
    lasted_ms: int = 0
    """From the begin of the write to the verdict."""
    rule: ConflictRule | None = None
    """The rule that found it; None for a schema conflict, which has a `case`."""
    lost: ConflictedWrite | None = None
    keys: tuple[str, ...] = ()
    """Some of those that both inserted, where that was the conflict."""
    key_count: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return this conflict as storage returns it: lists instead of tuples."""
        body: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return body

    def with_waste(self, files: int, size: int, lasted_ms: int) -> Conflict:
        """Return this conflict with the wasted work: data files, their bytes, and the duration in
        ms.
        """
        return replace(self, wasted_files=files, wasted_bytes=size, lasted_ms=max(0, lasted_ms))

    def with_loser(self, lost: ConflictedWrite, written: Iterable[FileGroupKey]) -> Conflict:
        """Return this conflict with the loser's description of itself, and with the file groups of
        `written` that no other write changed.
        """
        elsewhere = sorted(set(written) - set(self.file_groups))
        lost = replace(
            lost, elsewhere=tuple(elsewhere[:ELSEWHERE_MAX]), elsewhere_count=len(elsewhere)
        )
        return replace(self, lost=lost)


def overlapping_file_groups(ours: WriteSet, theirs: WriteSet) -> Conflict | None:
    """Find the file groups that both changed; None if there are none. The rule of optimistic mode:
    the second to complete loses.
    """
    shared = _find_shared_buckets(ours.file_groups, theirs.file_groups)
    if theirs.is_compaction:
        shared -= ours.appended  # What completes after a compaction was planned is not in its base.
    if ours.is_compaction:
        shared -= {key for key in shared if _is_appended(key, theirs)}
    shared |= _find_joined_files(ours, theirs)
    what, rule = "were written by another writer first", ConflictRule.OVERLAPPING_FILE_GROUPS
    return _build_conflict(ours, theirs, shared, what, rule)


def unmergeable_file_groups(ours: WriteSet, theirs: WriteSet) -> Conflict | None:
    """Find our file groups to which log files cannot be added; None if there are none. The rule of
    non-blocking mode: logs merge unless their file group was replaced or duplicated.
    """
    shared = ours.file_groups & theirs.replaced
    shared |= _find_shared_buckets(ours.file_groups, theirs.file_groups) - theirs.file_groups
    shared |= _find_joined_files(ours, theirs)
    what, rule = "were replaced by another writer first", ConflictRule.UNMERGEABLE_FILE_GROUPS
    return _build_conflict(ours, theirs, shared, what, rule)


def _find_shared_buckets(
    ours: frozenset[FileGroupKey], theirs: frozenset[FileGroupKey]
) -> frozenset[FileGroupKey]:
    """Return our file groups whose bucket theirs wrote too, under any id."""
    their_buckets = {_bucket_key(key) for key in theirs}
    return frozenset(key for key in ours if _bucket_key(key) in their_buckets)


def _bucket_key(key: FileGroupKey) -> tuple[str, int | str]:
    partition, file_id = key
    bucket = parse_bucket_number(file_id)
    return partition, file_id if bucket is None else bucket


def _is_appended(key: FileGroupKey, theirs: WriteSet) -> bool:
    mine = _bucket_key(key)
    return all(
        other in theirs.appended for other in theirs.file_groups if _bucket_key(other) == mine
    )


def _find_joined_files(ours: WriteSet, theirs: WriteSet) -> frozenset[FileGroupKey]:
    """Return the file groups that they added to a partition that we replace as a whole."""
    return frozenset(
        key
        for key in theirs.file_groups - theirs.replaced
        if ours.is_whole_table or key[0] in ours.whole_partitions
    )


def _build_conflict(
    ours: WriteSet,
    theirs: WriteSet,
    shared: frozenset[FileGroupKey],
    what: str,
    rule: ConflictRule,
) -> Conflict | None:
    if not shared:
        return None
    return Conflict(
        kind="write",
        message=f"{len(shared)} file group(s) {what}",
        rival=theirs.instant,
        rival_writer=theirs.writer,
        file_groups=tuple(sorted(shared)),
        writer=ours.writer,
        rule=rule,
    )


def find_concurrent_commits(
    at_start: Iterable[Instant], at_validation: Iterable[Instant], ours: InstantTime
) -> list[CompletedInstant]:
    """Return the writes that completed since we started, in the order in which they became
    visible.
    """
    before = {
        (instant.requested_at, instant.action) for instant in at_start if instant.is_completed
    }
    new = [
        instant
        for instant in at_validation
        if isinstance(instant, CompletedInstant)
        and instant.action.writes_data
        and instant.requested_at != ours
        and (instant.requested_at, instant.action) not in before
    ]
    return sorted(new, key=lambda instant: instant.completed_at)


def find_missing_commits(
    at_start: Iterable[Instant], at_validation: Iterable[Instant]
) -> list[Instant]:
    """Return the writes that were complete at the start and no longer are: rolled back or archived
    (`find_rolled_back` separates the two).
    """
    now = {
        (instant.requested_at, instant.action) for instant in at_validation if instant.is_completed
    }
    return [
        instant
        for instant in at_start
        if instant.is_completed
        and instant.action.writes_data
        and (instant.requested_at, instant.action) not in now
    ]
