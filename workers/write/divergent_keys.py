"""The count of divergent keys of a write's file groups: those for which other engines show another
row (`merge.as_others`).

For nearly all writes only the metadata of the commits of the file groups' logs is read. The logs of
a file group are read, only keys and ordering values, if it has deletes, if an earlier commit
counted such keys, or if rows without an ordering value may meet others. Tables whose logs other
engines do not merge are left out.

Partial rows differ by their columns, so they are read whole then. They are also read whole if one
comes after a newer one of its key, which is found by the keys and ordering values of all logs and
of the base file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime
from workers.concurrency.republish import RowsToRepublish
from workers.errors import InvalidInput, MalformedTable, NotFound, UnsupportedTable
from workers.files.base_file import read_base_file
from workers.files.meta_columns import RECORD_KEY
from workers.files.names import parse_log_file
from workers.merge.hudi_merge import (
    Version,
    Versions,
    is_divergent,
    is_null_zero,
    to_comparable,
)
from workers.merge.versions import DELETE_NOW, DELETED, ROW
from workers.read.log_versions import IS_DELETED, LogReader
from workers.schema.alter import widen_ordering
from workers.schema.reconcile import reconcile
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.file_group import FileSlice
from workers.table.schema_history import load_schema, read_instant
from workers.table.table import Table
from workers.table_layout import UNORDERED
from workers.timeline.extra_metadata import GroupKey, KeyCounts, decode_counts
from workers.timeline.instant import CompletedInstant, Instant
from workers.timeline.metadata import WriteStat
from workers.timeline.timeline import Timeline
from workers.write.context import WriteContext
from workers.write.partial_divergence import PartialRows, has_older
from workers.write.status import WriteStatus

_log = logging.getLogger(__name__)
_ByKey = dict[str, list[Version]]
"""By key, in the order in which one log has them."""


@dataclass(frozen=True, slots=True)
class _Commit:
    """The metadata of a commit, which never changes."""

    requested_at: InstantTime
    completed_at: InstantTime
    stats: Mapping[GroupKey, Sequence[WriteStat]]
    divergent_keys: KeyCounts


@dataclass(frozen=True, slots=True)
class _Log:
    path: str
    requested_at: InstantTime
    completed_at: InstantTime


@dataclass(frozen=True, slots=True)
class _Group:
    """A file group as it is under the lock."""

    base: str | None
    base_instant: InstantTime | None
    logs: Sequence[_Log]
    """In the order in which they completed, ours last."""


class DivergentKeys:
    """The file groups of one write as other engines read them. Files never change, so each is read
    once.
    """

    def __init__(
        self,
        table: Table,
        at_start: Timeline,
        context: WriteContext,
        statuses: Iterable[WriteStatus],
    ) -> None:
        self._table = table
        self._at_start = at_start
        self._context = context
        self._ours: dict[GroupKey, list[WriteStatus]] = {}
        self._is_unordered = self._met_everywhere = False
        for status in statuses:
            self._is_unordered |= status.has_low_ordering and not self._null_is_zero
            if status.stat.is_log:
                group = (status.stat.partition_path, status.stat.file_id)
                self._ours.setdefault(group, []).append(status)
        self._slices = {
            (slice_.partition, slice_.file_id): slice_ for slice_ in context.slices.values()
        }
        self._commits: dict[Instant, _Commit | None] = {}
        self._logs: dict[str, _ByKey] = {}
        self._bases: dict[tuple[str, frozenset[str]], dict[str, Version]] = {}
        self._schema = context.schema
        self._partial: dict[tuple[FileSlice, frozenset[tuple[str, str]]], int] = {}

    @property
    def _is_compared(self) -> bool:
        config = self._context.config
        is_merged = config.groups is None and config.merger is None
        is_ordered = config.ordering_field is not None and len(config.ordering) == 1
        is_folded = config.is_partial_update and config.ordering_field is None
        return bool(self._ours) and is_merged and (is_ordered or is_folded)

    @property
    def _null_is_zero(self) -> bool:
        field = self._context.config.ordering_field
        schema = self._context.schema
        return field in schema.field_names and is_null_zero(schema.arrow.field(field).type)

    def _has_unordered_rows(self) -> bool:
        """Check whether any base file may hold rows without an ordering value that matter next to
        other rows.
        """
        config, storage = self._context.config, self._table.storage
        if not config.is_merge_on_read or config.ordering_field is None or self._null_is_zero:
            return False
        if self._is_unordered:
            _note_unordered(storage)
        return self._is_unordered or _has_unordered_note(storage)

    def count_keys(self, timeline: Timeline, again: RowsToRepublish | None) -> KeyCounts:
        """Count the divergent keys by file group. A file group that cannot be read is left out: its
        commit is not affected, and its readers get the error.
        """
        self._met_everywhere = self._has_unordered_rows()
        if not self._is_compared:
            return {}
        self._read_ahead(timeline)
        rivals = self._load_rivals(timeline)
        self._schema = self._find_schema(timeline)
        counts: dict[GroupKey, int] = {}
        for group in sorted(self._ours):
            commits = [*self._load_start_commits(group), *rivals]
            was_counted = any(
                commit is not None and group in commit.divergent_keys for commit in commits
            )
            try:
                is_late = self._has_late_rows(group, rivals)
                if not (was_counted or is_late or self._is_suspect(group, commits)):
                    continue
                keys = self._count(group, rivals, again)
            except (MalformedTable, NotFound, UnsupportedTable) as error:
                # Not found: its files were rolled back since this write began.
                _log.warning("keys are not counted: file_group=%s error=%s", group, error)
                continue
            if keys or was_counted or is_late:
                counts[group] = keys
        return counts

    def _read_ahead(self, timeline: Timeline) -> None:
        """Read every commit that is needed below, at once."""
        paths = [path for group in self._ours for path in self._log_files(group)]
        instants = {instant for path in paths if (instant := self._find_instant(path)) is not None}
        instants.update(self._find_later(timeline))
        missing = [write for write in instants if write not in self._commits]
        read = self._table.storage.at_once(self._read_commit, missing)
        self._commits.update(zip(missing, read, strict=True))

    def _find_later(self, timeline: Timeline) -> list[CompletedInstant]:
        times_at_start = {instant.requested_at for instant in self._at_start.iterate_completed()}
        return [
            write
            for write in timeline.list_completed_writes()
            if write.requested_at not in times_at_start
        ]

    def _load_rivals(self, timeline: Timeline) -> list[_Commit]:
        """Commits that completed since the write began, in the order in which they did."""
        later = sorted(self._find_later(timeline), key=lambda instant: instant.completed_at)
        read = [self._commits[later_write] for later_write in later]
        return [commit for commit in read if commit is not None]

    def _load_start_commits(self, group: GroupKey) -> list[_Commit | None]:
        """Return the commits of the logs that the file group had; None for one that
        cannot be read.
        """
        instants = (self._find_instant(path) for path in self._log_files(group))
        return [None if instant is None else self._commits[instant] for instant in instants]

    def _log_files(self, group: GroupKey) -> tuple[str, ...]:
        return self._slices[group].log_files if group in self._slices else ()

    def _find_instant(self, path: str) -> CompletedInstant | None:
        name = parse_log_file(path.rpartition("/")[2])
        assert name is not None, path
        instant = self._at_start.find(name.instant)
        return instant if isinstance(instant, CompletedInstant) else None

    def _read_commit(self, instant: CompletedInstant) -> _Commit | None:
        """Read the metadata of a commit; None for one that was archived since it was listed."""
        try:
            metadata = read_instant(self._table, instant)
        except MalformedTable as error:
            _log.info("its logs are read instead: instant=%s error=%s", instant, error)
            return None
        stats: dict[GroupKey, list[WriteStat]] = {}
        for stat in metadata.stats:
            stats.setdefault((stat.partition_path, stat.file_id), []).append(stat)
        completed_at = instant.completed_at
        counts = decode_counts(metadata.extra_metadata)
        return _Commit(instant.requested_at, completed_at, stats, counts)

    def _is_suspect(self, group: GroupKey, commits: Sequence[_Commit | None]) -> bool:
        if self._met_everywhere:
            return True
        if any(status.stat.num_deletes or status.has_low_ordering for status in self._ours[group]):
            return True
        return any(
            commit is None or any(stat.num_deletes for stat in commit.stats.get(group, ()))
            for commit in commits
        )

    def _has_late_rows(self, group: GroupKey, rivals: Sequence[_Commit]) -> bool:
        """Check whether a partial row comes after a newer one of its key, in the logs or in the
        base file: its values may count for more there, or for less.
        """
        config = self._context.config
        if not config.is_partial_update or config.ordering_field is None:
            return False
        group_now = self._build_slice(group, rivals)
        logs = [self._versions(group, log.path) for log in group_now.logs]
        in_turn = sorted(group_now.logs, key=lambda log: log.requested_at)
        if has_older(logs) or has_older(self._versions(group, log.path) for log in in_turn):
            return True
        keys = frozenset(key for versions in logs for key in versions)
        bases = self._base_versions(group_now.base, keys)
        return has_older([{key: [base] for key, base in bases.items()}, *logs])

    def _find_schema(self, timeline: Timeline) -> TableSchema:
        """Return the schema with the columns that others added since. If the two do not match, the
        commit is rejected for it.
        """
        schema = widen_ordering(self._context.schema, self._context.config.ordering_columns)
        if not self._context.config.is_partial_update:
            return schema
        current = load_schema(self._table, timeline)
        try:
            return reconcile(current, schema)
        except InvalidInput as error:
            _log.info("columns of others are not compared: error=%s", error)
            return schema

    def _count(
        self, group: GroupKey, rivals: Sequence[_Commit], again: RowsToRepublish | None
    ) -> int:
        group_now = self._build_slice(group, rivals)
        completed: _ByKey = {}
        for log in group_now.logs:
            _add(completed, self._versions(group, log.path))
        keys = self._candidates(group_now, completed)
        if not keys:
            return 0
        in_turn = sorted(group_now.logs, key=lambda log: log.requested_at)
        restated_keys = again.by_group.get(group, {}) if again else {}
        if self._context.config.is_partial_update:
            paths = tuple(log.path for log in in_turn)
            return self._count_partial(group, group_now, keys, paths, restated_keys)
        requested: _ByKey = {}
        for log in in_turn:
            _add(requested, self._versions(group, log.path))
        for path, restated in restated_keys.items():
            versions = self._versions(group, path)
            _add(requested, {key: versions.get(key, []) for key in restated})
        bases = self._base_versions(group_now.base, keys)
        return sum(
            is_divergent(
                Versions(bases.get(key), completed[key], requested[key]),
                null_is_zero=self._null_is_zero,
            )
            for key in keys
        )

    def _count_partial(
        self,
        group: GroupKey,
        group_now: _Group,
        keys: frozenset[str],
        requested: tuple[str, ...],
        again: Mapping[str, Set[str]],
    ) -> int:
        """Return the count from before the lock, if nothing has changed since."""
        logs = tuple(log.path for log in group_now.logs)
        slice_ = FileSlice(*group, group_now.base_instant, group_now.base, logs)
        restated = frozenset((path, key) for path, some in again.items() for key in some)
        if (slice_, restated) not in self._partial:
            rows = PartialRows(self._context, self._table.storage, self._schema, slice_, keys)
            differing = rows.find_divergent(requested, again, null_is_zero=self._null_is_zero)
            self._partial[slice_, restated] = len(differing)
        return self._partial[slice_, restated]

    def _build_slice(self, group: GroupKey, rivals: Sequence[_Commit]) -> _Group:
        slice_ = self._slices.get(group)
        base = slice_.base_file if slice_ else None
        since = (slice_.base_instant if slice_ else None) or ""
        logs = [self._log(path) for path in self._log_files(group)]
        for commit in rivals:
            for stat in commit.stats.get(group, ()):
                if stat.is_log:
                    logs.append(_Log(stat.path, commit.requested_at, commit.completed_at))
                elif commit.requested_at > since:
                    base, since = stat.path, commit.requested_at
        visible_logs = [log for log in logs if log.completed_at >= since]
        ours = self._context.instant
        visible_logs += [_Log(log.stat.path, ours, "") for log in self._ours[group]]
        return _Group(base, since or None, visible_logs)

    def _log(self, path: str) -> _Log:
        name, instant = parse_log_file(path.rpartition("/")[2]), self._find_instant(path)
        assert name is not None, path
        completed_at = instant.completed_at if instant else name.instant
        return _Log(path, name.instant, completed_at)

    def _candidates(self, group_now: _Group, completed: _ByKey) -> frozenset[str]:
        """Return the keys for which other engines may show another row: those that were deleted,
        and those of which a version has no ordering value.
        """
        if self._context.config.is_partial_update:
            return frozenset(key for key, versions in completed.items() if len(versions) > 1)
        suspect = {
            key
            for key, versions in completed.items()
            if any(version.kind != ROW or version.order is None for version in versions)
        }
        low = frozenset(
            key
            for key, versions in completed.items()
            if key not in suspect
            and (self._met_everywhere or any(_is_low(version.order) for version in versions))
        )
        bases = self._base_versions(group_now.base, low)
        return frozenset(suspect | {key for key, base in bases.items() if base.order is None})

    def _versions(self, group: GroupKey, path: str) -> _ByKey:
        if path not in self._logs:
            self._logs[path] = self._read_log(group, path)
        return self._logs[path]

    def _read_log(self, group: GroupKey, path: str) -> _ByKey:
        context, field = self._context, str(self._context.config.ordering_field)
        slice_ = self._slices.get(group) or FileSlice(*group, None, None)
        columns = {RECORD_KEY, *({field, IS_DELETED} & {*context.schema.field_names})}
        # Others may have widened what rows are ordered by.
        schema = widen_ordering(context.schema, context.config.ordering_columns)
        reader = LogReader(self._table.storage, context.config, schema, columns)
        try:
            versions = reader.versions(replace(slice_, log_files=(path,)))
        except NotFound:  # Its commit was rolled back since.
            return {}
        return {} if versions is None else _by_key(versions, field)

    def _base_versions(self, path: str | None, keys: frozenset[str]) -> dict[str, Version]:
        if path is None or not keys:
            return {}
        if (path, keys) not in self._bases:
            self._bases[path, keys] = self._read_base(path, keys)
        return self._bases[path, keys]

    def _read_base(self, path: str, keys: frozenset[str]) -> dict[str, Version]:
        field = str(self._context.config.ordering_field)
        rows = read_base_file(self._table.storage, path, [RECORD_KEY, field])
        sorted_keys = pa.array(sorted(keys), pa.string())
        rows = rows.filter(pc.is_in(rows.column(RECORD_KEY), value_set=sorted_keys))
        return {key: versions[-1] for key, versions in _by_key(rows, field).items()}


def _by_key(versions: pa.Table, field: str) -> _ByKey:
    keys: list[Any] = versions.column(RECORD_KEY).to_pylist()
    orders = to_comparable(versions.column(field)) if field in versions.column_names else []
    kinds: list[Any] = [ROW] * len(keys)
    if DELETED in versions.column_names:
        kinds = versions.column(DELETED).to_pylist()
    versions_by_key: _ByKey = {}
    for key, kind, order in zip(keys, kinds, orders or [None] * len(keys), strict=True):
        is_ageless = kind == DELETE_NOW
        versions_by_key.setdefault(key, []).append(
            Version(kind or ROW, None if is_ageless else order)
        )
    return versions_by_key


def _add(versions: _ByKey, more: _ByKey) -> None:
    for key, later_versions in more.items():
        versions.setdefault(key, []).extend(later_versions)


def _is_low(order: Any) -> bool:
    return isinstance(order, int) and order <= 0


def _note_unordered(storage: Storage) -> None:
    """Write the note that rows without an ordering value were written. It is never removed.

    Most tables have no such rows. Without the note a search for them would read base files.
    """
    if not _has_unordered_note(storage):
        storage.put(UNORDERED.path, b"1")


def _has_unordered_note(storage: Storage) -> bool:
    return storage.info(UNORDERED.path) is not None
