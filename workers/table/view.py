"""The file slices visible at an instant, by the rules of format page 6.

Directories are listed, because that is what every reader does; uncommitted files are left out here
and nowhere else.

A file whose instant is not on the active timeline may be an archived one's: its completion time is
then looked up in the history, and where that is lost in the archiver's note about archived writes.
What is older than the timeline's start and in neither was rolled back, and its writer woke up late:
it does not count, as far back as the note or the history reaches. Before that, and where other
engines kept the history, a base file counts as it does for Hudi. Such a log counts as merged where
its group has a later base file: archivers keep the instants of logs that are not. Any other one is
an error, never "later" (bug A13), unless its writer was rolled back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from workers.clock import InstantTime
from workers.errors import HistoryLost, MalformedTable, NotFound, UnsupportedTable
from workers.files.names import (
    LogFileName,
    parse_base_file,
    parse_log_file,
    parse_name_instant,
    parse_task_number,
    unread_base_format,
)
from workers.files.partition import has_metadata, names_by_partition
from workers.storage.base import join
from workers.table.commit_lookup import find_archived_content, parse_or_reread
from workers.table.file_group import FileSlice
from workers.table.table import Table
from workers.table_layout import HISTORY
from workers.timeline.archive import ArchivedTimeline
from workers.timeline.archived_writes import ArchivedWrites, read_archived_writes
from workers.timeline.decisions import has_rollback_decision
from workers.timeline.instant import Action, CompletedInstant
from workers.timeline.metadata import (
    CommitMetadata,
    read_commit_metadata,
    read_rollback_targets,
)
from workers.timeline.savepoint_metadata import read_restore_targets
from workers.timeline.timeline import Timeline

GroupKey = tuple[str, str]
"""(partition, file id)."""
_UNDONE_READERS = {Action.ROLLBACK: read_rollback_targets, Action.RESTORE: read_restore_targets}


@dataclass(slots=True)
class GroupFiles:
    """The committed files of one file group, of any age."""

    bases: dict[InstantTime, str] = field(default_factory=dict)
    """Requested time -> path."""
    logs: list[tuple[InstantTime, LogFileName, str]] = field(default_factory=list)
    """(completion time, parsed name, path)."""


@dataclass(frozen=True, slots=True)
class FileSystemView:
    """The file slices of a table at one moment, from one listing of its partitions."""

    table: Table
    timeline: Timeline
    slices: tuple[FileSlice, ...]
    """The latest slice of each file group, sorted by partition and file id."""
    uncommitted: tuple[tuple[InstantTime, str], ...] = ()
    """(instant, path) of files that do not count: pending writers', or left behind."""
    twins: tuple[tuple[InstantTime, str], ...] = ()
    """The uncommitted files of which the instant committed another copy."""
    replaced_at: Mapping[str, InstantTime] = field(default_factory=dict)
    """Partition -> the newest visible commit that replaced a file group of it."""
    partitions: frozenset[str] = frozenset()
    """Partitions with committed files of any age."""
    unmarked: frozenset[str] = frozenset()
    """Those of them that lack partition metadata, so that other engines do not read them."""
    emptied: frozenset[str] = frozenset()
    """Directories with partition metadata and without a committed file."""

    @classmethod
    def load(
        cls, table: Table, *, timeline: Timeline | None = None, as_of: InstantTime | None = None
    ) -> FileSystemView:
        """Load the view. `as_of` is a completion time: the view is that of a snapshot
        taken then.
        """
        timeline = timeline or table.timeline()
        visible = VisibleFiles(table, timeline, as_of)
        groups: dict[GroupKey, GroupFiles] = {}
        listed = names_by_partition(table.storage)
        for path, names in listed.items():
            visible.collect_partition(groups, path, names)
        replaced = visible.find_replaced_groups()
        partitions = frozenset(partition for partition, _ in groups)
        slices = [
            visible.with_block_instants(build_latest_slice(partition, file_id, files))
            for (partition, file_id), files in sorted(groups.items())
            if (partition, file_id) not in replaced
        ]
        return cls(
            table,
            timeline,
            tuple(slices),
            uncommitted=tuple(sorted(visible.uncommitted)),
            twins=tuple(sorted(visible.twins)),
            replaced_at=visible.replaced_at,
            partitions=partitions,
            unmarked=partitions & visible.unmarked,
            emptied=frozenset(listed) - partitions - visible.unmarked,
        )


class VisibleFiles:
    """Which instants' files count, and when each became visible."""

    def __init__(self, table: Table, timeline: Timeline, as_of: InstantTime | None) -> None:
        self._table = table
        self._timeline = timeline
        self._first = timeline.first_time
        self._as_of = as_of
        self._completed: dict[InstantTime, CompletedInstant] = {
            instant.requested_at: instant
            for instant in timeline.iterate_completed()
            if instant.action is not Action.SAVEPOINT and self._is_in_time(instant)
        }
        # A savepoint shares its commit's time, which may be archived already.
        self._known = {
            instant.requested_at
            for instant in timeline.instants
            if instant.action is not Action.SAVEPOINT
        }
        self._archived = ArchivedTimeline(table.storage, table.layout)
        self._noted: ArchivedWrites | None = None
        self._archived_at: dict[InstantTime, InstantTime | None] = {}
        self._unknown: dict[InstantTime, bool] = {}
        """Instants older than the start and not in the history -> whether their absence proves
        nothing.
        """
        self._doubtful: dict[GroupKey, list[tuple[InstantTime, str]]] = {}
        """Logs of such instants: (instant, path)."""
        self._undone: frozenset[InstantTime] | None = None
        self._log_by_base = table.config.timeline_layout == 1
        self._names_logs_by_base = self._log_by_base or table.config.has_old_logs
        """Some logs at least: several writers' have one instant in their names."""
        self._attempts: dict[tuple[str, str, InstantTime, int | None], list[tuple[str, str]]] = {}
        """(partition, file id, instant, task of a log) -> tokens and paths of its files."""
        self._named: dict[InstantTime, frozenset[str] | None] = {}
        self.unmarked: set[str] = set()
        """Directories that were collected and have no partition metadata."""
        self.uncommitted: list[tuple[InstantTime, str]] = []
        self.twins: list[tuple[InstantTime, str]] = []
        self.replaced_at: dict[str, InstantTime] = {}

    def _is_in_time(self, instant: CompletedInstant) -> bool:
        return self._as_of is None or instant.completed_at <= self._as_of

    def _base_counts(self, requested_at: InstantTime) -> bool:
        """Check whether base files of the instant count. The history is not opened where it could
        change nothing: the latest slice goes by request time, and what is older than the timeline's
        start is committed (format page 2.4).
        """
        is_before_start = self._first is not None and requested_at < self._first
        is_plain = is_before_start and self._as_of is None and requested_at not in self._known
        since = self._table.config.history_since
        if is_plain and (since is None or requested_at < since):
            return True
        return self.find_completion(requested_at) is not None

    def find_completion(self, requested_at: InstantTime) -> InstantTime | None:
        """Return when files of this instant became visible; None if they do not count.

        Files that count as they do for Hudi, without any history, became visible when they were
        requested.
        """
        if done := self._completed.get(requested_at):
            return done.completed_at
        if requested_at in self._known:
            return None  # Pending, or completed after `as_of`.
        if self._table.config.timeline_layout == 1:
            return requested_at if self._first is None or requested_at < self._first else None
        completed_at = self._look_up_completion(requested_at)
        if completed_at is None and self._is_unknown(requested_at):
            completed_at = requested_at
        if completed_at is None or (self._as_of is not None and completed_at > self._as_of):
            return None
        return completed_at

    def counts_unproved(self, requested_at: InstantTime) -> bool:
        """Check whether files of this instant count as they do for Hudi, without a completion on
        the timeline or in the history. False for layout 1, which records no proof.
        """
        if requested_at in self._known or self._table.config.timeline_layout == 1:
            return False
        try:
            completed_at = self._look_up_completion(requested_at)
        except MalformedTable:  # The history is damaged.
            return True
        if completed_at is None:
            return self._is_unknown(requested_at)
        return completed_at == requested_at

    def _look_up_completion(self, requested_at: InstantTime) -> InstantTime | None:
        """Find the completion in the history, else in the note about archived writes. Instants that
        are not older than the start are searched as well: a listing during archiving has holes (bug
        A10), and what it misses is durable in the history.
        """
        if requested_at not in self._archived_at:
            completed_at = self._archived.find_completion(requested_at)
            is_before_start = self._first is not None and requested_at < self._first
            if completed_at is None and is_before_start:
                completed_at = self._load_archived_writes().find_completion(requested_at)
            self._archived_at[requested_at] = completed_at
        return self._archived_at[requested_at]

    def _load_archived_writes(self) -> ArchivedWrites:
        if self._noted is None:
            self._noted = read_archived_writes(self._table.storage)
        return self._noted

    def _is_unknown(self, requested_at: InstantTime) -> bool:
        """Check whether the instant is older than the timeline's start, is not in its history or in
        the note about archived writes, and that proves nothing: both do not reach so far, are lost,
        or were written by other engines.

        An instant between the end of the history and the timeline's start still has its decision.
        """
        if self._first is None or requested_at >= self._first:
            return False
        if requested_at not in self._unknown:
            self._unknown[requested_at] = not self._is_covered(requested_at)
        return self._unknown[requested_at]

    def _is_covered(self, requested_at: InstantTime) -> bool:
        since = self._table.config.history_since
        if since is None or requested_at < since:
            return False
        if self._load_archived_writes().covers(requested_at):
            return True
        span = self._archived.span()
        if span is None:
            return False
        if requested_at > span[1]:
            return has_rollback_decision(self._table.storage, requested_at)
        return requested_at >= span[0] and not self._archived.is_lost(requested_at)

    def _log_completed_at(
        self, key: GroupKey, requested_at: InstantTime, path: str
    ) -> InstantTime | None:
        """Return the completion time as `find_completion` does. Record a log without any proof for
        `_check_logs`.
        """
        completed_at = self.find_completion(requested_at)
        if not self._unknown.get(requested_at):
            return completed_at
        if (
            self._load_archived_writes().covers(requested_at)
            or self._is_rolled_back(requested_at)
            or self._is_missing(requested_at)
        ):
            return None
        if self._archived.span() is not None or self._table.config.history_since is not None:
            self._doubtful.setdefault(key, []).append((requested_at, path))
        return completed_at

    def _is_missing(self, requested_at: InstantTime) -> bool:
        """Check whether the history covers the time of the instant, and does not contain it."""
        span = self._archived.span()
        is_inside = span is not None and span[0] <= requested_at <= span[1]
        return is_inside and not self._archived.is_lost(requested_at)

    def _is_rolled_back(self, requested_at: InstantTime) -> bool:
        """Check whether a remaining decision, rollback or restore names the instant."""
        if self._undone is None:
            self._undone = _find_undone(self._table, self._timeline)
        return requested_at in self._undone or has_rollback_decision(
            self._table.storage, requested_at
        )

    def _check_logs(self, slice_: FileSlice, at: InstantTime | None) -> None:
        """Check that no log is doubtful that may belong to the slice. Raises HistoryLost.

        A log that was requested before the newest base file was merged: archivers keep the instants
        of logs that are not. At a past time it is unknown into which base file.
        """
        doubtful = self._doubtful.get((slice_.partition, slice_.file_id), [])
        newest = self._timeline.list_completed_writes()[-1:]
        if at is None or (newest and at >= newest[0].completed_at):
            doubtful = [entry for entry in doubtful if entry[0] >= (slice_.base_instant or "")]
        if doubtful:
            instant, path = min(doubtful)
            raise HistoryLost(
                "a log file's instant is neither on the timeline nor in its history, so nothing"
                " shows whether it was committed; put the lost files of the history back from a"
                " copy, or delete the log file if its writer never committed",
                instant=instant,
                file=path,
                directory=HISTORY.path,
            )

    def collect_partition(
        self, groups: dict[GroupKey, GroupFiles], partition: str, names: Collection[str]
    ) -> None:
        """Collect the files of a listed directory; without partition metadata only those that
        their commits name. Raises as `collect`.
        """
        if not has_metadata(names):
            self.unmarked.add(partition)
        for name in names:
            self.collect(groups, partition, join(partition, name), name)

    def collect_instants(self, listed: Mapping[str, Collection[str]]) -> frozenset[InstantTime]:
        """Return the instants with files that count among the listed names by partition. Raises as
        `collect`.
        """
        groups: dict[GroupKey, GroupFiles] = {}
        for partition, names in listed.items():
            self.collect_partition(groups, partition, names)
        bases = chain.from_iterable(files.bases for files in groups.values())
        logs = (log.instant for files in groups.values() for _, log, _ in files.logs)
        return frozenset(chain(bases, logs))

    def collect(
        self, groups: dict[GroupKey, GroupFiles], partition: str, path: str, name: str
    ) -> None:
        """Add the file `name` at `path` to `groups`, or to `uncommitted` where it does not count;
        skip strange files, and copies. Raises MalformedTable, UnsupportedTable.
        """
        if partition in self.unmarked and self._is_copy(path, name):
            return
        log = parse_log_file(name)
        if log is None:
            self._collect_base(groups, partition, path, name)
        elif not log.is_cdc:
            # Layout 1 names a log after its base; blocks of uncommitted writers are dropped on
            # reading.
            completed_at: InstantTime | None = log.instant
            if not self._log_by_base:
                key = partition, log.file_id
                completed_at = self._log_completed_at(key, log.instant, path)
            if completed_at is None:
                self.uncommitted.append((log.instant, path))
            else:
                group = _get_group(groups, partition, log.file_id)
                group.logs.append((completed_at, log, path))
                if not self._names_logs_by_base:
                    self._drop_twins(group, partition, log, path)

    def _collect_base(
        self, groups: dict[GroupKey, GroupFiles], partition: str, path: str, name: str
    ) -> None:
        base = parse_base_file(name)
        if base is None:
            if kind := unread_base_format(name):
                raise UnsupportedTable(f"base files of format {kind} are not read", path=path)
            return
        if not self._base_counts(base.instant):
            self.uncommitted.append((base.instant, path))
            return
        bases = _get_group(groups, partition, base.file_id).bases
        bases[base.instant] = path
        key = partition, base.file_id, base.instant, None
        if self._find_twins(key, base.write_token, path):
            [(_, bases[base.instant])] = self._attempts[key]

    def _drop_twins(self, group: GroupFiles, partition: str, log: LogFileName, path: str) -> None:
        """Drop logs of other attempts at the same task: a sum would count their rows twice."""
        key = partition, log.file_id, log.instant, parse_task_number(log.write_token)
        if twins := self._find_twins(key, log.write_token, path):
            group.logs[:] = [entry for entry in group.logs if entry[2] not in twins]

    def _find_twins(
        self, key: tuple[str, str, InstantTime, int | None], token: str, path: str
    ) -> set[str]:
        """Return the files under `key`, `path` the last of them, that are copies of the one that
        their instant committed. A stalled attempt leaves them that resumed after its successor's
        commit and was killed. Empty without a proof.
        """
        attempts = self._attempts.setdefault(key, [])
        attempts.append((token, path))
        if len({twin_token for twin_token, _ in attempts}) == 1:
            return set()
        named = self._find_paths(key[2]) or frozenset()
        twins = {twin_path for _, twin_path in attempts if twin_path not in named}
        if len(twins) == len(attempts):
            return set()
        attempts[:] = [(token, twin_path) for token, twin_path in attempts if twin_path in named]
        self.uncommitted += [(key[2], twin_path) for twin_path in twins]
        self.twins += [(key[2], twin_path) for twin_path in twins]
        return twins

    def _is_copy(self, path: str, name: str) -> bool:
        """Check whether its commit lacks it. The name of a log in layout 1 contains its base file,
        not its commit.
        """
        requested_at = parse_name_instant(name)
        if requested_at is None or (self._names_logs_by_base and parse_log_file(name) is not None):
            return False
        if requested_at in self._known and requested_at not in self._completed:
            return False  # Pending.
        named = self._find_paths(requested_at)
        return named is not None and path not in named

    def _find_paths(self, requested_at: InstantTime) -> frozenset[str] | None:
        """Return the data files that a commit names, or None if its metadata is gone."""
        if requested_at not in self._named:
            metadata = self._find_metadata(requested_at)
            self._named[requested_at] = None if metadata is None else frozenset(metadata.paths)
        return self._named[requested_at]

    def _find_metadata(self, requested_at: InstantTime) -> CommitMetadata | None:
        if instant := self._completed.get(requested_at):
            try:
                listed = self._table.storage.read_listed(self._table.layout.path(instant))
                return parse_or_reread(listed, self._table, instant)
            except NotFound:  # Archived between listing and reading.
                self._table.check_layout()
        try:
            completed_at = self._look_up_completion(requested_at)
            if completed_at is None:
                return None
            content = find_archived_content(self._table, requested_at, completed_at)
        except MalformedTable:  # A damaged history must not hide rows; readers that need it raise.
            return None
        return read_commit_metadata(content) if content is not None else None

    def with_block_instants(self, slice_: FileSlice, at: InstantTime | None = None) -> FileSlice:
        """Return the slice with the instants whose blocks count. In layout 1 a log file holds
        blocks of several writers, so at a past time only some of its blocks count. A table that was
        upgraded from it still has such logs; other slices are returned unchanged. Raises
        HistoryLost for a slice with a log that may or may not count.
        """
        self._check_logs(slice_, at or self._as_of)
        if self._table.config.has_old_logs and slice_.log_files:
            return replace(slice_, late_blocks=self._find_late(at or self._as_of))
        if not self._log_by_base:
            return slice_
        counting = [instant for instant in self._completed if at is None or instant <= at]
        before = self._first
        if before is not None and at is not None:
            before = min(before, at + "0")  # Every later time of either length sorts behind it.
        return replace(slice_, block_instants=tuple(counting), archived_before=before)

    def _find_late(self, at: InstantTime | None) -> frozenset[InstantTime]:
        """Return the writes that became visible after this time; none for the current time."""
        if at is None:
            return frozenset()
        completed = self._timeline.iterate_completed()
        if self._first is None or at < self._first:
            completed = chain(completed, self._table.list_archived_times())
        return frozenset(instant.requested_at for instant in completed if instant.completed_at > at)

    def find_replaced_groups(self) -> dict[GroupKey, InstantTime]:
        """Return the replaced file groups, and when they were replaced."""
        replaced: dict[GroupKey, InstantTime] = {}
        for instant in self._completed.values():
            if instant.action is not Action.REPLACECOMMIT:
                continue
            try:
                content = self._table.storage.read(self._table.layout.path(instant))
            except NotFound:  # Archived between listing and reading; its files are cleaned by then.
                self._table.check_layout()
                continue
            metadata = read_commit_metadata(content)
            replaced.update(dict.fromkeys(metadata.replaced_groups, instant.completed_at))
            for partition, _ in metadata.replaced_groups:
                newest = self.replaced_at.get(partition, "")
                self.replaced_at[partition] = max(newest, instant.requested_at)
        return replaced


def _get_group(groups: dict[GroupKey, GroupFiles], partition: str, file_id: str) -> GroupFiles:
    group = groups.get((partition, file_id))
    if group is None:
        group = groups[partition, file_id] = GroupFiles()
    return group


def build_latest_slice(partition: str, file_id: str, files: GroupFiles) -> FileSlice:
    """Return the newest base file with the logs that became visible since its request."""
    base_instant = max(files.bases, default=None)
    mine = [
        (completed_at, log.version, log.write_token, path)
        for completed_at, log, path in files.logs
        if base_instant is None or completed_at >= base_instant
    ]
    return FileSlice(
        partition=partition,
        file_id=file_id,
        base_instant=base_instant,
        base_file=files.bases[base_instant] if base_instant else None,
        log_files=tuple(path for *_, path in sorted(mine)),
    )


def _find_undone(table: Table, timeline: Timeline) -> frozenset[InstantTime]:
    """Return the instants that a completed rollback or restore names, archived ones included.
    Raises NotFound when the timeline changes during the read, MalformedTable.
    """
    return frozenset(_undone_instants(table, timeline))


def _undone_instants(table: Table, timeline: Timeline) -> Iterator[InstantTime]:
    for instant in timeline.iterate_completed():
        if (read := _UNDONE_READERS.get(instant.action)) is not None:
            yield from read(table.storage.read(table.layout.path(instant)))
    for archived in table.list_archived_instants(with_content=True, is_partial=True):
        read = _UNDONE_READERS.get(archived.instant.action)
        if read is not None and archived.metadata:
            yield from read(archived.metadata)
