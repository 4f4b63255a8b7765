"""The table at any past moment: which file slices stood then, whether or not they still exist.

Files that a clean took away are known from its plan, so a moment whose slices need one of them is
told apart from a moment at which they did not exist: the first is SnapshotExpired, never a part
of the answer (TL5, A14).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.errors import NotFound, SnapshotExpired
from workers.files.names import FileId, parse_bucket_number
from workers.files.partition import files_by_partition
from workers.options.index_kind import IndexKind
from workers.options.table_options import TableConfig
from workers.storage.base import join
from workers.table.file_group import FileSlice
from workers.table.schema_history import read_instant
from workers.table.table import Table
from workers.table.view import GroupFiles, GroupKey, VisibleFiles, build_latest_slice
from workers.timeline.archive import ArchivedInstant
from workers.timeline.clean_metadata import read_clean_metadata, read_clean_plan
from workers.timeline.instant import Action, CompletedInstant, Instant, State
from workers.timeline.metadata import CommitMetadata, read_commit_metadata
from workers.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class History:
    """File groups and their files, those of cleaned files among them. Made by `load`."""

    table: Table
    timeline: Timeline
    _visible: VisibleFiles
    _groups: dict[GroupKey, GroupFiles]
    _gone: frozenset[str]
    _replaced: dict[GroupKey, InstantTime]

    @classmethod
    def load(cls, table: Table, timeline: Timeline, *, earliest: InstantTime | None) -> History:
        """For moments from `earliest` on; with None for the present alone.

        Raises NotFound when the table changes meanwhile, MalformedTable.
        """
        visible = VisibleFiles(table, timeline, None)
        groups: dict[GroupKey, GroupFiles] = {}
        present: set[str] = set()
        for partition, listed in files_by_partition(table.storage).items():
            visible.collect_partition(groups, partition, [file.name for file in listed])
            present.update(file.path for file in listed)
        gone = set()
        for partition, path in _cleaned_files(table, timeline, earliest) if earliest else ():
            if path not in present:
                visible.collect(groups, partition, path, path.rpartition("/")[2])
                gone.add(path)
        replaced = visible.find_replaced_groups()
        if gone:
            replaced = _replaced_before(table) | replaced
        return cls(table, timeline, visible, groups, frozenset(gone), replaced)

    def writes(self, since: InstantTime, until: InstantTime | None) -> list[CompletedInstant]:
        """Completed writes of the window, archived ones too, in the order they became visible.
        Raises HistoryLost when the history lost some that may belong to it.
        """
        known = {
            one.requested_at: one
            for one in (
                *self.table.list_archived_times(completed_after=since),
                *self.timeline.iterate_completed(),
            )
            if one.action.writes_data
        }
        writes = [
            one
            for one in known.values()
            if since < one.completed_at and (until is None or one.completed_at <= until)
        ]
        return sorted(writes, key=lambda instant: (instant.completed_at, instant.requested_at))

    def written(
        self, since: InstantTime, until: InstantTime | None
    ) -> list[tuple[CompletedInstant, CommitMetadata]]:
        """Return the writes of the window with their metadata, in the order in which they became
        visible, without those that only publish rows again. Raises MalformedTable.
        """
        return [one for one in self._read(self.writes(since, until)) if one[1].restates is None]

    def republishing(
        self, since: InstantTime, until: InstantTime | None
    ) -> dict[InstantTime, InstantTime]:
        """Return the writes of the window that only publish rows again, each with the commit that
        it follows. Reads the metadata of those alone that began before the commit before them was
        complete. Raises MalformedTable.
        """
        writes = self.writes(since, until)
        borders = [since, *(one.completed_at for one in writes)]
        overlapping = [
            one for one, before in zip(writes, borders, strict=False) if one.requested_at <= before
        ]
        return {
            one.requested_at: metadata.restates
            for one, metadata in self._read(overlapping)
            if metadata.restates is not None
        }

    def _read(
        self, writes: Collection[CompletedInstant]
    ) -> list[tuple[CompletedInstant, CommitMetadata]]:
        archived = [one for one in writes if self.timeline.find(one.requested_at) is None]
        contents = _archived_metadata(self.table, archived)
        return [
            (one, contents[one] if one in contents else read_instant(self.table, one))
            for one in writes
        ]

    def slices(
        self, at: InstantTime | None, *, groups: Collection[GroupKey] | None = None
    ) -> tuple[FileSlice, ...]:
        """What a snapshot taken at this completion time read, of all or some file groups.

        Raises SnapshotExpired when a file of it was cleaned away.
        """
        slices = tuple(self._slices(at, groups))
        for slice_ in slices:
            if gone := self._gone.intersection(slice_.files):
                raise SnapshotExpired(
                    "the table was cleaned past this time; read a later one, keep more versions"
                    " (hoodie.cleaner.commits.retained) or savepoint what must stay",
                    at=at or "now",
                    file=min(gone),
                )
        return slices

    def groups_at(self, at: InstantTime) -> list[GroupKey]:
        """Return the file groups that a snapshot taken at this completion time read, whether or not
        their files still exist.
        """
        return [(one.partition, one.file_id) for one in self._slices(at, None)]

    def _slices(
        self, at: InstantTime | None, wanted: Collection[GroupKey] | None
    ) -> Iterator[FileSlice]:
        for key in sorted(self._groups if wanted is None else wanted):
            files = self._groups.get(key)
            if files is None or self._is_replaced(key, at):
                continue
            then = self._files_at(files, at)
            if then.bases or then.logs:
                yield self._visible.with_block_instants(build_latest_slice(*key, then), at)

    def _is_replaced(self, key: GroupKey, at: InstantTime | None) -> bool:
        replaced_at = self._replaced.get(key)
        return replaced_at is not None and (at is None or replaced_at <= at)

    def _files_at(self, files: GroupFiles, at: InstantTime | None) -> GroupFiles:
        if at is None:
            return files
        completed_at = self._visible.find_completion
        return GroupFiles(
            {
                requested_at: path
                for requested_at, path in files.bases.items()
                if (completed_at(requested_at) or "") <= at
            },
            [log for log in files.logs if log[0] <= at],
        )


def _archived_metadata(
    table: Table, instants: Collection[CompletedInstant]
) -> dict[CompletedInstant, CommitMetadata]:
    if not instants:
        return {}
    archived = table.list_archived_instants(
        requested_from=min(one.requested_at for one in instants),
        completed_until=max(one.completed_at for one in instants),
        with_content=True,
        is_partial=True,
    )
    return {
        one.instant: read_commit_metadata(one.metadata or b"")
        for one in archived
        if one.instant in instants
    }


def bucket_number(config: TableConfig, file_id: FileId) -> int | None:
    """Return the bucket of a file group, or None if the table has another index."""
    return parse_bucket_number(file_id) if config.index is IndexKind.BUCKET else None


def _cleaned_files(
    table: Table, timeline: Timeline, earliest: InstantTime
) -> Iterator[tuple[str, str]]:
    """(partition, path) of what cleans removed or, while one is pending, may have removed.

    A clean that was planned before `earliest` took nothing that was visible then.
    """
    for archived in table.list_archived_instants(requested_from=earliest, with_content=True):
        if archived.instant.action is Action.CLEAN:
            yield from _files_of_archived(archived)
    for instant in timeline.instants:
        if instant.action is Action.CLEAN and instant.requested_at >= earliest:
            requested = Instant(instant.requested_at, Action.CLEAN, State.REQUESTED)
            with suppress(NotFound):  # The plan comes before the first effect.
                yield from _files_of_plan(table.storage.read(table.layout.path(requested)))


def _files_of_archived(clean: ArchivedInstant) -> Iterator[tuple[str, str]]:
    """By its plan, else by what it deleted: other engines need not archive the plan."""
    if clean.plan:
        yield from _files_of_plan(clean.plan)
    elif clean.metadata:
        for partition, names in read_clean_metadata(clean.metadata).deleted_by_partition.items():
            yield from ((partition, join(partition, name)) for name in names)


def _files_of_plan(content: bytes) -> Iterator[tuple[str, str]]:
    plan = read_clean_plan(content)
    for partition, paths in plan.paths_by_partition.items() if plan else ():
        yield from ((partition, path) for path in paths)


def _replaced_before(table: Table) -> dict[GroupKey, InstantTime]:
    """File groups that archived commits took away. Of what the history lost, the files are cleaned:
    a moment that needs them is refused by their absence.
    """
    replaced_at: dict[GroupKey, InstantTime] = {}
    for archived in table.list_archived_instants(with_content=True, is_partial=True):
        if archived.instant.action is Action.REPLACECOMMIT and archived.metadata:
            replaced = read_commit_metadata(archived.metadata).replaced_groups
            replaced_at |= dict.fromkeys(replaced, archived.instant.completed_at)
    return replaced_at
