"""The start of the active timeline: as late as the limits on commits ask, never later than what a
reader or writer still needs on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workers.clock import InstantTime, format_instant
from workers.concurrency.heartbeat import read_heartbeats
from workers.concurrency.late_writers import LateWriter, list_late_writers
from workers.errors import InvalidInput, NotFound
from workers.files.names import parse_base_file, parse_log_file
from workers.files.partition import files_by_partition
from workers.options.service_keys import (
    ARCHIVE_MAX_KEY,
    ARCHIVE_MIN_KEY,
    ARCHIVE_PARAMETERS,
    BEYOND_SAVEPOINT_KEY,
    LATE_WRITER_HOURS,
    LATE_WRITER_KEY,
    READER_RETENTION_KEY,
    UNCOMPACTED_LOGS_KEY,
)
from workers.table.savepoints import read_savepoints
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.timeline import decisions
from workers.timeline.clean_metadata import read_clean_metadata
from workers.timeline.instant import Action, CompletedInstant, Instant
from workers.timeline.metadata import read_commit_metadata
from workers.timeline.timeline import Timeline

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """How far archiving may go: `parse_archive_settings` reads it of a service's parameters."""

    min_commits: int
    max_commits: int
    goes_beyond_savepoints: bool
    retention_minutes: int
    takes_uncompacted_logs: bool
    late_writer_hours: int


def parse_archive_settings(parameters: Mapping[str, str]) -> ArchiveSettings:
    """Parse the settings of an archiving. Raises InvalidInput naming the first parameter that is
    wrong.
    """
    keys = ARCHIVE_PARAMETERS
    values = keys.fill_defaults(parameters)
    settings = ArchiveSettings(
        min_commits=keys.integer(values, ARCHIVE_MIN_KEY),
        max_commits=keys.integer(values, ARCHIVE_MAX_KEY),
        goes_beyond_savepoints=keys.boolean(values, BEYOND_SAVEPOINT_KEY),
        retention_minutes=keys.integer(values, READER_RETENTION_KEY),
        takes_uncompacted_logs=keys.boolean(values, UNCOMPACTED_LOGS_KEY),
        late_writer_hours=keys.integer(values, LATE_WRITER_KEY),
    )
    if settings.max_commits < settings.min_commits:
        raise InvalidInput(
            "more commits would be kept at least than at most",
            **{ARCHIVE_MIN_KEY: settings.min_commits, ARCHIVE_MAX_KEY: settings.max_commits},
        )
    return settings


@dataclass(frozen=True, slots=True)
class Start:
    """Where the active timeline may start, and why not later."""

    at: InstantTime
    """Instants requested earlier are archived; empty when none is."""
    commits: int
    """On the active timeline now."""
    held_by: tuple[str, ...] = ()
    """What keeps the start from being as late as the limits ask, in sentences."""


def find_active_start(table: Table, timeline: Timeline, settings: ArchiveSettings) -> Start:
    """Return where the timeline may start: as late as the limits of `settings` ask, unless
    something holds it. `at` is empty while the count of commits is within the maximum. Raises
    MalformedTable.
    """
    commits = sorted(timeline.list_completed_writes(), key=lambda write: write.requested_at)
    if len(commits) <= settings.max_commits:
        return Start("", len(commits))
    start_limit = commits[-settings.min_commits].requested_at
    holds = [
        (limit, why)
        for limit, why in _limits(table, timeline, commits, settings)
        if limit < start_limit
    ]
    at = min((limit for limit, _ in holds), default=start_limit)
    return Start(at, len(commits), tuple(f"{why} keeps {limit} active" for limit, why in holds))


def _limits(
    table: Table, timeline: Timeline, commits: list[CompletedInstant], settings: ArchiveSettings
) -> Iterator[tuple[InstantTime, str]]:
    """(the latest start that is allowed, why)."""
    newest = [commit for commit in commits if commit.action is table.data_action]
    if newest:  # The table's schema is the newest commit's, whenever that was requested.
        yield max(newest, key=lambda write: write.completed_at).requested_at, "the newest commit"
    if limit := _pending_limit(timeline, commits):
        yield limit, "a pending instant"
    if held := find_late_writer(table, timeline, wait_ms=settings.late_writer_hours * _HOUR_MS):
        before = [commit.requested_at for commit in commits if commit.requested_at < held.instant]
        why = f"{held.instant}, taken from a writer who may still live ({held}),"
        yield min([held.instant, *before[-1:]]), why
    if not settings.goes_beyond_savepoints:
        for savepoint in read_savepoints(table, timeline):
            yield savepoint, "a savepoint"
    if settings.retention_minutes:
        since = format_instant(table.ports.clock.now_ms() - settings.retention_minutes * _MINUTE_MS)
        yield _oldest_since(commits, since), "the declared reader retention"
    if limit := _clean_limit(table, timeline):
        yield limit, "the newest clean"
    if limit := _find_replaced_limit(table, commits):
        yield limit, "a replacement whose old files still exist"
    if not settings.takes_uncompacted_logs and (limit := _log_limit(table, timeline)):
        yield limit, "a log that is not compacted"


def _pending_limit(timeline: Timeline, commits: list[CompletedInstant]) -> InstantTime | None:
    """Return the start that pending instants allow. A completed write stays before the oldest
    pending instant: otherwise its files would be older than every commit, which counts as
    committed. What completed concurrently stays as well, because the validation of the pending
    write reads it.
    """
    oldest = min((instant.requested_at for instant in timeline.pending()), default=None)
    if oldest is None:
        return None
    before = [commit.requested_at for commit in commits if commit.requested_at < oldest]
    beside = [commit.requested_at for commit in commits if commit.completed_at > oldest]
    return min([oldest, *before[-1:], *beside])


def find_late_writer(
    table: Table, timeline: Timeline, *, wait_ms: int = LATE_WRITER_HOURS * _HOUR_MS
) -> LateWriter | None:
    """Return the oldest instant that was rolled back although its writer may still live, or None.
    If the timeline began behind the instant, other readers would count a file that the writer adds
    later. The same goes for a writer with a heartbeat that stalled before the first file of its
    instant, and for one that stalled before the completed file, which would bring the instant back.
    """
    first = timeline.first_time or ""
    late = list_late_writers(table.storage)
    late += [
        LateWriter(beat.instant, beat.beat_ms, beat.process)
        for beat in read_heartbeats(table.storage)
        if not decisions.is_decided(table.storage, beat.instant)
    ]
    holding_writers = [
        writer
        for writer in late
        if writer.instant >= first
        and ((instant := timeline.find(writer.instant)) is None or _is_unpublished(instant, writer))
        and writer.can_be_alive(table.ports, wait_ms=wait_ms)
    ]
    return min(holding_writers, key=lambda writer: writer.instant, default=None)


def _is_unpublished(instant: Instant, writer: LateWriter) -> bool:
    """Others published it, as far as its writer knows."""
    return instant.is_completed and writer.is_beginner


def _oldest_since(commits: list[CompletedInstant], since: InstantTime) -> InstantTime:
    """Return the oldest instant that a snapshot or a checkpoint from `since` on needs."""
    young = [commit.requested_at for commit in commits if commit.completed_at > since]
    before = [commit for commit in commits if commit.completed_at <= since]
    visible = max(before, key=lambda write: write.completed_at, default=None)
    return min([*young, *([visible.requested_at] if visible else [])])


def _clean_limit(table: Table, timeline: Timeline) -> InstantTime | None:
    """Return the start that cleans allow: foreign cleaners continue from the earliest commit that
    the last clean retained.
    """
    cleans = [instant for instant in timeline.iterate_completed() if instant.action is Action.CLEAN]
    for clean in reversed(cleans):
        try:
            content = table.storage.read(table.layout.path(clean))
        except NotFound:  # Archived since the timeline was listed; under the lock it is there.
            continue
        if earliest := read_clean_metadata(content).earliest_to_retain:
            return earliest
    return None


def _log_limit(table: Table, timeline: Timeline) -> InstantTime | None:
    """The oldest commit of a log that snapshots still merge."""
    if not table.config.is_merge_on_read:
        return None
    logs = [
        name.instant
        for slice_ in FileSystemView.load(table, timeline=timeline).slices
        for path in slice_.log_files
        if (name := parse_log_file(path.rpartition("/")[2]))
    ]
    return min(logs, default=None)


def _find_replaced_limit(table: Table, commits: list[CompletedInstant]) -> InstantTime | None:
    """Return the oldest replacecommit whose replaced files still exist: without it they would be
    rows again (bug G3).
    """
    replacing = [commit for commit in commits if commit.action is Action.REPLACECOMMIT]
    if not replacing:
        return None
    stored_groups = {
        (partition, name.file_id)
        for partition, listed in files_by_partition(table.storage).items()
        for file in listed
        if (name := parse_base_file(file.name) or parse_log_file(file.name))
    }
    for instant in replacing:
        try:
            metadata = read_commit_metadata(table.storage.read(table.layout.path(instant)))
        except NotFound:  # Removed since the timeline was listed; under the lock it is there.
            continue
        if metadata.replaced_groups & stored_groups:
            return instant.requested_at
    return None
