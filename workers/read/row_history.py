"""Every version of one row: which commit made it, and what stood there before.

Goes back commit by commit, newest first: over the active timeline, then over the newest archived
commits, as far as their files are kept. It reads only file groups that a commit touched and that
can hold the key; where a row says by which commit it was written, all between are passed over.
Compaction and clustering make no version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime, format_instant, parse_instant
from workers.errors import InvalidInput, NotFound, SnapshotExpired
from workers.files.meta_columns import RECORD_KEY
from workers.files.names import parse_bucket_number
from workers.index.bucket import bucket_of_keys
from workers.options.index_kind import IndexKind
from workers.read.changes import REWRITES
from workers.read.differences import differing_columns
from workers.read.file_slice import slice_schema
from workers.read.history import History
from workers.read.predicate import Predicate
from workers.read.pruning import among
from workers.read.republished import commit_of_row
from workers.read.slice_scan import SliceScan
from workers.read.snapshot import planned_at
from workers.read.undisturbed import expired, undisturbed
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice
from workers.table.table import Table
from workers.table.view import GroupKey
from workers.timeline.instant import CompletedInstant
from workers.timeline.metadata import CommitMetadata
from workers.timeline.timeline import Timeline

KEY_CHARS_MAX = 1_000
ARCHIVED_MAX = 500
"""Archived commits that are searched."""
CutBy = Literal["", "versions", "time", "cleaned", "archived"]


@dataclass(frozen=True, slots=True)
class RowVersion:
    """What one commit made of the row."""

    instant: InstantTime
    completed_at: InstantTime | None
    """None for a commit before those that were searched, at whose start its row was there."""
    partition: str
    before: pa.Table | None
    """One row, meta columns first; None where there was none."""
    after: pa.Table | None
    changed: tuple[str, ...] = ()
    """Columns of an update whose values differ."""
    knows_before: bool = True
    """False where the files of what stood there before were cleaned away."""


@dataclass(frozen=True, slots=True)
class RowHistory:
    """The versions of a key, newest first."""

    schema: TableSchema
    versions: tuple[RowVersion, ...]
    cut_by: CutBy
    """Why older ones may be missing: as many were wanted, the time was up, files were cleaned away,
    or earlier commits are archived and not searched. Empty where all commits were searched.
    """


def row_history(
    table: Table,
    key: str,
    *,
    partition: str | None = None,
    compared: Callable[[str], bool] = lambda _: True,
    versions_max: int = 50,
    may_go_on: Callable[[], bool] = lambda: True,
) -> RowHistory:
    """The versions of the row with this record key, of one partition or of all.

    `compared`: whether a column's differences may be looked at; `may_go_on` is asked before each
    read. Raises InvalidInput for no key, SnapshotExpired, SnapshotChanged, MalformedTable,
    UnsupportedTable.
    """
    if not key or len(key) > KEY_CHARS_MAX:
        raise InvalidInput("a record key is a text of sensible length", key=key[:80])

    def look(timeline: Timeline) -> RowHistory:
        plan = planned_at(table, timeline)
        columns = frozenset(filter(compared, plan.schema.field_names))
        walk = _Walk(table, plan.schema, key, partition, columns, versions_max, may_go_on)
        return walk.history(timeline, plan.slices)

    return undisturbed(table, look)


class _OutOfTime(Exception):
    """The walk may not go on."""


@dataclass(slots=True)
class _Walk:
    table: Table
    schema: TableSchema
    key: str
    partition: str | None
    compared: frozenset[str]
    versions_max: int
    may_go_on: Callable[[], bool]
    rows: dict[str, pa.Table] = field(default_factory=dict)
    """Partition -> the row as it stood behind the commit that is looked at."""
    versions: list[RowVersion] = field(default_factory=list)
    republishing: dict[InstantTime, InstantTime] = field(default_factory=dict)
    """Commits that publish rows again -> the commit that each follows."""

    def history(self, timeline: Timeline, slices: Iterable[FileSlice]) -> RowHistory:
        cut_by: CutBy = ""
        try:
            self.rows = dict(self._rows_in(slices))
            cut_by = self._back(timeline)
        except _OutOfTime:
            cut_by = "time"
        except SnapshotExpired:
            cut_by = "cleaned"
        return RowHistory(self.schema, tuple(self.versions), cut_by)

    def _back(self, timeline: Timeline) -> CutBy:
        first = timeline.first_time
        if first is None:
            return ""
        if not self._search(timeline, _just_before(first), is_active=True):
            return "versions"
        archived = self._list_archived(timeline)
        searched = archived[-ARCHIVED_MAX:]
        is_all = searched == archived and not self.table.list_lost_history()
        if searched and is_all:
            start = _just_before(searched[0].requested_at)
            if not self._search(timeline, start, is_active=False):
                return "versions"
        elif searched:
            is_all = False
        return self._from_before() or ("" if is_all else "archived")

    def _list_archived(self, timeline: Timeline) -> list[CompletedInstant]:
        """Archived writes, in the order in which they were requested."""
        return [
            instant
            for instant in self.table.list_archived_times(is_partial=True)
            if instant.action.writes_data and timeline.find(instant.requested_at) is None
        ]

    def _search(self, timeline: Timeline, start: InstantTime, *, is_active: bool) -> bool:
        """Go back over the commits of the active timeline, or over archived ones, that were
        completed after `start`. Return False once there are as many versions as were wanted.
        """
        history = History.load(self.table, timeline, earliest=start)
        self.republishing |= history.republishing(start, None)
        for instant, metadata in reversed(_writes(history, timeline, start, is_active)):
            for home in sorted({partition for partition, _ in self._candidates(metadata)}):
                if len(self.versions) >= self.versions_max:
                    return False
                self._look(history, instant, metadata, home)
        return True

    def _candidates(self, metadata: CommitMetadata) -> list[GroupKey]:
        return [key for key in metadata.file_groups if self._may_hold(*key)]

    def _may_hold(self, partition: str, file_id: str) -> bool:
        if self.partition not in (None, partition):
            return False
        bucket = parse_bucket_number(file_id)
        return bucket is None or self._bucket in (None, bucket)

    @property
    def _bucket(self) -> int | None:
        config = self.table.config
        if config.index is not IndexKind.BUCKET or not config.buckets:
            return None
        fields = config.index_fields if config.names_key_fields else None
        plain = None if config.names_key_fields else config.record_key[0]
        try:
            (bucket,) = bucket_of_keys(
                pa.array([self.key]), buckets=config.buckets, index_fields=fields, key_field=plain
            )
        except InvalidInput:
            return None  # No key that we would have placed: others may have.
        return int(bucket)

    def _look(
        self,
        history: History,
        instant: CompletedInstant,
        metadata: CommitMetadata,
        home: str,
    ) -> None:
        """What the commit made of the row in the partition `home`."""
        after = self.rows.get(home)
        is_its = after is not None and self._commit_of(after) == instant.requested_at
        if after is not None and not is_its and not self.table.config.compares_rows:
            return
        groups = [one for one in self._candidates(metadata) if one[0] == home]
        try:
            just_before = _just_before(instant.completed_at)
            before = dict(self._rows_in(history.slices(just_before, groups=groups))).get(home)
        except SnapshotExpired:
            if is_its:
                self._note(instant, home, after, knows_before=False)
            raise
        if before is None:
            self.rows.pop(home, None)
        else:
            self.rows[home] = before
        changed = self._changed(before, after)
        if changed is None and not is_its:
            return
        self._note(instant, home, after, before=before, changed=changed or ())

    def _note(
        self,
        instant: CompletedInstant,
        home: str,
        after: pa.Table | None,
        *,
        before: pa.Table | None = None,
        changed: tuple[str, ...] = (),
        knows_before: bool = True,
    ) -> None:
        times = instant.requested_at, instant.completed_at
        self.versions.append(RowVersion(*times, home, before, after, changed, knows_before))

    def _changed(self, before: pa.Table | None, after: pa.Table | None) -> tuple[str, ...] | None:
        """None where the row is as it was."""
        if before is None or after is None:
            return None if before is after else ()
        return tuple(differing_columns(before, after, self.compared)) or None

    def _commit_of(self, row: pa.Table) -> InstantTime:
        return commit_of_row(row, self.republishing)

    def _from_before(self) -> CutBy:
        """What stood there when the active timeline begins."""
        for home, row in self.rows.items():
            self.versions.append(RowVersion(self._commit_of(row), None, home, None, row))
        return "archived" if self.rows else ""

    def _rows_in(self, slices: Iterable[FileSlice]) -> Iterator[tuple[str, pa.Table]]:
        for slice_ in slices:
            if not self._may_hold(slice_.partition, slice_.file_id):
                continue
            if not self.may_go_on():
                raise _OutOfTime
            try:
                row = self._row_in(slice_)
            except NotFound as error:
                raise expired(error) from error
            if row is not None:
                yield slice_.partition, row

    def _row_in(self, slice_: FileSlice) -> pa.Table | None:
        """Keys alone come first: most slices that may hold a key do not."""
        if next(self._matching(slice_, [RECORD_KEY]), None) is None:
            return None
        return next(self._matching(slice_, None), None)

    def _matching(self, slice_: FileSlice, columns: list[str] | None) -> Iterator[pa.Table]:
        names = columns or slice_schema(self.schema).names
        has_key: Any = pc.field(RECORD_KEY) == pa.scalar(self.key)
        predicate = Predicate(has_key, frozenset({RECORD_KEY}), (among(RECORD_KEY, self.key),))
        table = self.table
        reading = SliceScan(table.storage, table.config, self.schema, tuple(names), predicate)
        for batch in reading.batches(slice_):
            yield pa.Table.from_batches([batch]).slice(0, 1)


def _writes(
    history: History, timeline: Timeline, start: InstantTime, is_active: bool
) -> list[tuple[CompletedInstant, CommitMetadata]]:
    """Completed writes after `start` that may change rows, oldest first: those of the active
    timeline, or the archived ones.
    """
    return [
        (instant, metadata)
        for instant, metadata in history.written(start, None)
        if (timeline.find(instant.requested_at) is not None) is is_active
        and not (metadata.compacted or metadata.operation_type in REWRITES)
    ]


def _just_before(instant: InstantTime) -> InstantTime:
    return format_instant(parse_instant(instant) - 1)
