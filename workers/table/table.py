"""Table: configuration plus storage plus ports. It reads and describes; it never writes data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from workers.clock import InstantTime
from workers.errors import InvalidInput, TableChanged, UnsupportedTable
from workers.files.properties import load_properties
from workers.options.column_groups import GroupRule
from workers.options.table_options import TableConfig, config_from_properties
from workers.ports import Ports
from workers.storage.base import Storage
from workers.table.writability import (
    find_change,
    find_write_refusal,
    is_made_by_sluice,
)
from workers.timeline import archive_v1
from workers.timeline.archive import (
    ArchivedInstant,
    list_archived_instants,
    list_archived_times,
)
from workers.timeline.archive_names import build_names, load_archived_names
from workers.timeline.history_files import LostFile, list_history, manifest_numbers
from workers.timeline.instant import Action, CompletedInstant
from workers.timeline.layout import TimelineLayout
from workers.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Table:
    """An open table: its storage, and its configuration as it was when it was opened."""

    storage: Storage
    config: TableConfig
    ports: Ports
    write_refusal: str | None = None
    """Why this table may be read but not written; None when it may be written."""
    is_foreign: bool = False
    """Another engine made it."""
    properties: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """As they were when it was opened."""

    @property
    def layout(self) -> TimelineLayout:
        """The directory of the timeline, and the names of its files."""
        return TimelineLayout(self.config.timeline_layout)

    def timeline(self) -> Timeline:
        """Load the active timeline. Raises TableChanged, see `check_layout`."""
        timeline = Timeline.load(self.storage, self.layout)
        self.check_layout()
        return timeline

    def check_layout(self) -> None:
        """Check that the timeline is still in the same directory.

        Raises TableChanged when the table was upgraded since this was opened: its timeline is in
        another directory now, and the old one is removed after the properties are changed.
        """
        if self.layout.version != 1:
            return
        if config_from_properties(load_properties(self.storage)).timeline_layout != 1:
            raise TableChanged(
                "the table was upgraded since it was opened; open it again",
                table=self.storage.location,
            )

    def list_archived_instants(
        self,
        *,
        requested_from: InstantTime | None = None,
        requested_until: InstantTime | None = None,
        completed_after: InstantTime | None = None,
        completed_until: InstantTime | None = None,
        with_content: bool = False,
        is_partial: bool = False,
    ) -> list[ArchivedInstant]:
        """List archived instants as `timeline.archive.list_archived_instants` does, in either
        layout. Raises HistoryLost, MalformedTable.
        """
        if self.layout.version == 1:
            archived = archive_v1.list_archived_instants(
                self.storage,
                self.config.archive_folder,
                requested_from=requested_from,
                completed_until=completed_until,
                with_content=with_content,
            )
            return [
                entry
                for entry in archived
                if (requested_until is None or entry.instant.requested_at <= requested_until)
                and (completed_after is None or entry.instant.completed_at > completed_after)
            ]
        return list_archived_instants(
            self.storage,
            requested_from=requested_from,
            requested_until=requested_until,
            completed_after=completed_after,
            completed_until=completed_until,
            with_content=with_content,
            is_partial=is_partial,
        )

    def find_archived(
        self, requested_at: InstantTime, completed_at: InstantTime | None
    ) -> list[ArchivedInstant]:
        """Return the archived instants of these times, with their content: one, unless a plan and
        its result have the same time. Raises MalformedTable.
        """
        return self.list_archived_instants(
            requested_from=requested_at,
            requested_until=requested_at,
            completed_until=completed_at,
            with_content=True,
        )

    def list_archived_times(
        self, *, completed_after: InstantTime | None = None, is_partial: bool = False
    ) -> tuple[CompletedInstant, ...]:
        """List all archived instants, ascending by request time, or those that completed later.
        `is_partial` leaves out those that are lost. Raises HistoryLost, MalformedTable.
        """
        if self.layout.version == 1:
            archived = self.list_archived_instants(completed_after=completed_after)
            return tuple(entry.instant for entry in archived)
        return list_archived_times(
            self.storage, completed_after=completed_after, is_partial=is_partial
        )

    def load_archived_names(self) -> pa.Table:
        """Load what `timeline.archive_names.load_archived_names` does, in either layout. Raises
        MalformedTable.
        """
        if self.layout.version == 1:
            return build_names(self.list_archived_times())
        return load_archived_names(self.storage)

    def list_lost_history(self) -> tuple[LostFile, ...]:
        """Return the files of the history that are missing or damaged, oldest first. Raises
        MalformedTable.
        """
        return () if self.layout.version == 1 else list_history(self.storage).lost

    def archive_mark(self) -> int:
        """Another number after each time that something was archived; 0 before the first."""
        if self.layout.version == 1:
            return archive_v1.archive_bytes(self.storage, self.config.archive_folder)
        return max(manifest_numbers(self.storage), default=0)

    @property
    def data_action(self) -> Action:
        """The action of a write that replaces nothing."""
        return Action.DELTACOMMIT if self.config.is_merge_on_read else Action.COMMIT

    def showing_unmatched(self) -> Table:
        """Return this table with reads that hide no row for its join. Raises InvalidInput."""
        if self.config.groups is None:
            raise InvalidInput("only a table with column groups hides rows", table=self.config.name)
        return replace(self, config=self.config.showing_unmatched)

    def check_opened_writable(self) -> None:
        """Check that it was writable when it was opened: a write that began then may also be rolled
        back later. Raises UnsupportedTable.
        """
        if self.write_refusal:
            raise UnsupportedTable(self.write_refusal, table=self.storage.location)

    def check_writable(self, *, begins_to_write: bool = False) -> None:
        """Check the current properties: other engines may change them while this is open.

        Raises UnsupportedTable. Raises TableChanged if rows would be placed or merged in another
        way, or if a writer that `begins_to_write` does not know a column group that was declared
        since: it would treat the group's columns as columns of no group. A write that has begun
        continues.
        """
        self.check_opened_writable()
        now = load_properties(self.storage)
        self.check_unchanged(now)
        if not begins_to_write or self.config.groups is None:
            return
        if config_from_properties(now).groups != self.config.groups:
            raise TableChanged(
                "column groups were declared since the table was opened; open it again",
                table=self.storage.location,
            )

    def check_unchanged(self, now: Mapping[str, str]) -> None:
        """Check that the table may be written with the properties that it has `now`.

        Raises UnsupportedTable, TableChanged.
        """
        if (change := find_change(self.config, self.properties, now)) is not None:
            raise type(change)(change.message, table=self.storage.location, **change.values)

    def load_groups(self) -> GroupRule | None:
        """Load the column groups that are declared now; no table gets its first ones later."""
        if self.config.groups is None:
            return None
        return config_from_properties(load_properties(self.storage)).groups


def open_(storage: Storage, ports: Ports) -> Table:
    """Open the table in its current state. Its `write_refusal` is the reason why it cannot be
    written. Raises TableNotFound, UnsupportedTable, MalformedTable.
    """
    properties = load_properties(storage)
    config = config_from_properties(properties)
    refusal = find_write_refusal(properties, config)
    is_foreign = not is_made_by_sluice(properties)
    return Table(storage, config, ports, refusal, is_foreign, properties)
