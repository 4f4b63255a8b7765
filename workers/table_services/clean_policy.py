"""The cleaner's policies under Hudi's names: the files that no retained snapshot needs.

A snapshot at a time reads, of each file group, the base file with the greatest request time that
was complete then, and the logs that completed after that base was requested (format page 6). So a
file is needed from a time on if and only if a snapshot since then reads it; every older file can be
deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workers.clock import InstantTime, format_instant
from workers.files.partition import files_by_partition
from workers.options.service_keys import (
    CLEAN_COMMITS_KEY,
    CLEAN_HOURS_KEY,
    CLEAN_PARAMETERS,
    CLEAN_POLICY_KEY,
    CLEAN_VERSIONS_KEY,
    READER_RETENTION_KEY,
    CleanPolicy,
)
from workers.storage.base import FileInfo
from workers.table.table import Table
from workers.table.view import GroupFiles, GroupKey, VisibleFiles
from workers.timeline import decisions
from workers.timeline.archive import list_archived_times
from workers.timeline.decision_lookup import is_gone
from workers.timeline.instant import CompletedInstant, Instant
from workers.timeline.timeline import Timeline

_FORMER_PREFIX = "hoodie.cleaner."
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class CleanSettings:
    """What a clean keeps: `parse_clean_settings` reads it of a service's parameters."""

    policy: CleanPolicy
    commits: int
    hours: int
    versions: int
    retention_minutes: int


def parse_clean_settings(parameters: Mapping[str, str]) -> CleanSettings:
    """Parse the settings of a cleaning. Raises InvalidInput naming the first parameter that is
    wrong.
    """
    keys = CLEAN_PARAMETERS
    values = keys.fill_defaults({_current(key): value for key, value in parameters.items()})
    return CleanSettings(
        policy=keys.choice(values, CLEAN_POLICY_KEY, CleanPolicy),
        commits=keys.integer(values, CLEAN_COMMITS_KEY),
        hours=keys.integer(values, CLEAN_HOURS_KEY),
        versions=keys.integer(values, CLEAN_VERSIONS_KEY),
        retention_minutes=keys.integer(values, READER_RETENTION_KEY),
    )


def _current(key: str) -> str:
    """Hudi's older spelling `hoodie.cleaner.*` means the same."""
    if key.startswith(_FORMER_PREFIX):
        return "hoodie.clean." + key.removeprefix(_FORMER_PREFIX)
    return key


@dataclass(frozen=True, slots=True)
class RetentionBound:
    """From when on snapshots stay readable."""

    since: InstantTime | None
    """A completion time; None when nothing is old enough for any cleaning."""
    earliest: Instant | None
    """The oldest commit of which that holds; None where the policy counts no commits."""


def find_retention_bound(
    table: Table, timeline: Timeline, settings: CleanSettings
) -> RetentionBound:
    """Return the policy's own bound, moved back by pending writers and by the declared
    retention.
    """
    commits = _list_completed_writes(table, timeline, settings)
    now_ms = table.ports.clock.now_ms()
    since = _policy_bound(commits, settings, now_ms)
    if since is None:
        return RetentionBound(None, None)
    bounds = [since, *_pending_bounds(timeline)]
    if settings.retention_minutes:
        bounds.append(format_instant(now_ms - settings.retention_minutes * _MINUTE_MS))
    since = min(bounds)
    if settings.policy is CleanPolicy.KEEP_LATEST_FILE_VERSIONS:
        return RetentionBound(since, None)
    return RetentionBound(since, _oldest_readable(commits, since))


def _list_completed_writes(
    table: Table, timeline: Timeline, settings: CleanSettings
) -> list[CompletedInstant]:
    """Return completed writes by completion, archived ones as well if the active timeline has too
    few to count.

    Otherwise nothing would ever be cleaned again where archiving keeps fewer than cleaning (bug
    G5).
    """
    active = timeline.list_completed_writes()
    if settings.policy is not CleanPolicy.KEEP_LATEST_COMMITS or len(active) > settings.commits:
        return active
    # With a part of them lost fewer commits count, and the clean keeps more.
    archived = list_archived_times(table.storage, is_partial=True)
    by_time = {instant.requested_at: instant for instant in (*archived, *active)}
    writes = [instant for instant in by_time.values() if instant.action.writes_data]
    return sorted(writes, key=lambda write: (write.completed_at, write.requested_at))


def _policy_bound(
    commits: list[CompletedInstant], settings: CleanSettings, now_ms: int
) -> InstantTime | None:
    match settings.policy:
        case CleanPolicy.KEEP_LATEST_COMMITS:
            is_enough = len(commits) > settings.commits
            return commits[-settings.commits].completed_at if is_enough else None
        case CleanPolicy.KEEP_LATEST_BY_HOURS:
            return format_instant(now_ms - settings.hours * 60 * _MINUTE_MS)
        case CleanPolicy.KEEP_LATEST_FILE_VERSIONS:
            return format_instant(now_ms)


def _pending_bounds(timeline: Timeline) -> list[InstantTime]:
    """A pending writer reads the slices of when it began."""
    return [
        instant.requested_at
        for instant in timeline.pending()
        if instant.action.writes_data or instant.action.is_rewrite
    ]


def _oldest_readable(commits: list[CompletedInstant], since: InstantTime) -> Instant | None:
    """The commit that the snapshot at `since` shows last: the earliest to retain."""
    before = [commit for commit in commits if commit.completed_at <= since]
    return before[-1] if before else None


@dataclass(frozen=True, slots=True)
class CleanableFile:
    """A file that may be deleted, and why in a sentence."""

    file: FileInfo
    partition: str
    why: str


def find_cleanable_files(
    table: Table, timeline: Timeline, settings: CleanSettings, bound: RetentionBound
) -> Iterator[CleanableFile]:
    """Yield the files that no snapshot from the bound on reads; savepoints and plans are not
    considered yet. Whatever the bound, yield the files of writers that resumed after they had been
    rolled back.
    """
    visible = VisibleFiles(table, timeline, None)
    groups: dict[GroupKey, GroupFiles] = {}
    files: dict[str, FileInfo] = {}
    for partition, listed in files_by_partition(table.storage).items():
        files |= {file.path: file for file in listed}
        visible.collect_partition(groups, partition, [file.name for file in listed])
    yield from _late_files(table, timeline, visible, files)
    if bound.since is None:
        return
    replaced = visible.find_replaced_groups()
    for key, group in sorted(groups.items()):
        if key in replaced:
            if replaced[key] <= bound.since:
                paths = [*group.bases.values(), *(path for *_, path in group.logs)]
                why = f"replaced at {replaced[key]}"
                yield from (CleanableFile(files[path], key[0], why) for path in sorted(paths))
            continue
        first = _first_needed(visible, group, settings, bound.since)
        if first is not None:
            for path in _older_than(group, first):
                yield CleanableFile(files[path], key[0], f"superseded by the slice of {first}")


def _late_files(
    table: Table, timeline: Timeline, visible: VisibleFiles, files: Mapping[str, FileInfo]
) -> Iterator[CleanableFile]:
    pending = {other.requested_at for other in timeline.pending()}
    strangers = {instant for instant, _ in visible.uncommitted} - pending
    rolled_back = {
        instant
        for instant in strangers
        if is_gone(table.storage, instant) or decisions.is_undone(table.storage, instant)
    }
    for instant, path in sorted(visible.uncommitted):
        if instant in rolled_back:
            partition = path.rpartition("/")[0]
            yield CleanableFile(files[path], partition, "written after it was rolled back")


def _first_needed(
    visible: VisibleFiles, group: GroupFiles, settings: CleanSettings, since: InstantTime
) -> InstantTime | None:
    """The oldest base file that is needed, by request time; None when nothing may go."""
    then = [base for base in group.bases if _find_completion(visible, base) <= since]
    if not then:
        return None
    needed = max(then)
    if settings.policy is CleanPolicy.KEEP_LATEST_FILE_VERSIONS:
        newest = sorted(group.bases)[-settings.versions :]
        needed = min(needed, newest[0])
    return needed


def _find_completion(visible: VisibleFiles, base: InstantTime) -> InstantTime:
    completed_at = visible.find_completion(base)
    assert completed_at is not None, base  # It was collected, so it counts.
    return completed_at


def _older_than(group: GroupFiles, first: InstantTime) -> list[str]:
    bases = [path for base, path in group.bases.items() if base < first]
    logs = [path for completed_at, _, path in group.logs if completed_at < first]
    return sorted(bases + logs)
