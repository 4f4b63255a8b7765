"""Archiving: move the oldest completed instants from the active timeline into the history.

Order: roll dead writers back -> lock -> delete the remains of failed writes (format gotcha 12) ->
instants durable in the history (invariant TL11) -> `archived_before` -> remove from the active
timeline, ascending (bug A10) -> decisions of archived instants. A crash leaves some instants in
both places, which every reader counts once; the next writer continues the removal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workers.clock import InstantTime
from workers.concurrency import late_writers
from workers.concurrency.lock_takeover import load_published_timeline, table_lock
from workers.concurrency.locks.lease import Lease
from workers.errors import NotFound
from workers.files.partition import names_by_partition
from workers.options.write_options import WriteOptions
from workers.recovery.archive_cleanup import finish_archiving
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.storage.base import FileInfo
from workers.table.table import Table
from workers.table.view import VisibleFiles
from workers.table_services.archive_policy import (
    ArchiveSettings,
    Start,
    find_active_start,
    parse_archive_settings,
)
from workers.table_services.service import (
    PlanItem,
    Progress,
    ServiceOutcome,
    ServicePlan,
    ServiceRequest,
)
from workers.timeline import conflict_archive, decisions
from workers.timeline.archive import ArchivedInstant, ArchivedTimeline
from workers.timeline.archive_writer import append
from workers.timeline.archived_writes import note_archived_writes, read_archived_writes
from workers.timeline.history_files import list_history
from workers.timeline.instant import Action, CompletedInstant, Instant, State
from workers.timeline.layout import pending_action
from workers.timeline.timeline import Timeline


class Archive:
    """The service `archive`."""

    name = "archive"

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """Return the instants that would be archived, and what holds the others."""
        settings = parse_archive_settings(parameters)
        return _describe_plan(table, _build_proposal(table, table.timeline(), settings))

    def run(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        on_progress: Progress | None = None,
    ) -> ServiceOutcome:
        """Run as `Service.run`, under the table lock. Raises LeaseLost when that was lost midway:
        the next writer, or the next run, continues.
        """
        settings = parse_archive_settings(request.parameters)
        table.check_writable()
        roll_back_dead_writers(table, options)
        with table_lock(table, options).hold() as lease:
            table.check_writable()
            timeline = load_published_timeline(table)
            proposal = _build_proposal(table, timeline, settings)
            _describe_plan(table, proposal).check(request)
            if not proposal.instants:
                _note_once(table, lease)
                finish_archiving(table, timeline)
                return ServiceOutcome(self.name, None, "nothing to archive")
            _carry_out(table, proposal, lease, on_progress)
        count = len(proposal.instants)
        return ServiceOutcome(
            self.name,
            None,
            f"archived {count} instants; the active timeline starts at {proposal.start.at}",
            {"instants": count, "stray_files": len(proposal.strays)},
        )


@dataclass(frozen=True, slots=True)
class _Proposal:
    start: Start
    instants: tuple[CompletedInstant, ...]
    """To archive, ascending."""
    strays: tuple[FileInfo, ...] = ()
    """Files of failed writes that would begin to count when the start moves."""
    writes: Mapping[InstantTime, InstantTime] = field(default_factory=dict)
    """Requested -> completed, of all writes before the start that have data files."""


def _build_proposal(table: Table, timeline: Timeline, settings: ArchiveSettings) -> _Proposal:
    start = find_active_start(table, timeline, settings)
    due = tuple(
        instant
        for instant in timeline.iterate_completed()
        if instant.requested_at < start.at and instant.action is not Action.SAVEPOINT
    )
    if not due:
        return _Proposal(start, due)
    visible = VisibleFiles(table, timeline, None)
    writes = _writes_before(table, visible, start.at)
    return _Proposal(start, due, _find_unreferenced(table, visible, start.at), writes)


def _writes_before(
    table: Table, visible: VisibleFiles, start: InstantTime
) -> dict[InstantTime, InstantTime]:
    instants = visible.collect_instants(names_by_partition(table.storage))
    before = sorted(instant for instant in instants if instant < start)
    return {write: visible.find_completion(write) or write for write in before}


def _note_once(table: Table, lease: Lease) -> None:
    """Note the writes of a table that was archived before there was such a note."""
    noted, border = (
        read_archived_writes(table.storage),
        decisions.load_archive_border(table.storage),
    )
    if border and not noted.border:
        visible = VisibleFiles(table, table.timeline(), None)
        writes = _writes_before(table, visible, border)
        lease.confirm()
        note_archived_writes(table.storage, noted, border, writes)


def _find_unreferenced(
    table: Table, visible: VisibleFiles, start: InstantTime
) -> tuple[FileInfo, ...]:
    """No instant before the start is pending, so these were never completed and never will be; but
    for instants that a lost part of the history may have held.
    """
    history = ArchivedTimeline(table.storage, table.layout)
    paths = [
        path
        for instant, path in visible.uncommitted
        if instant < start and not history.is_lost(instant)
    ]
    return tuple(info for path in sorted(paths) if (info := table.storage.info(path)))


def _carry_out(
    table: Table, proposal: _Proposal, lease: Lease, on_progress: Progress | None
) -> None:
    storage = table.storage
    for file in proposal.strays:
        lease.confirm()
        storage.delete(file.path)
    try:
        archived = [_content(table, instant) for instant in proposal.instants]
    except NotFound:
        lease.confirm()  # Else another archiver took them from the active timeline.
        raise
    noted = read_archived_writes(storage)
    append(storage, archived, lease.confirm)
    lease.confirm()
    note_archived_writes(storage, noted, proposal.start.at, proposal.writes)
    decisions.raise_archived_before(storage, proposal.start.at)
    finish_archiving(table, table.timeline())
    pending = {other.requested_at for other in table.timeline().pending()}
    conflict_archive.keep_archived(storage, pending)
    late_writers.delete_before(storage, proposal.start.at, pending)
    decisions.remove_archived(storage, pending, list_history(storage).last)
    if on_progress is not None:
        on_progress(len(proposal.instants), len(proposal.instants))


def _content(table: Table, instant: CompletedInstant) -> ArchivedInstant:
    metadata = table.storage.read(table.layout.path(instant))
    return ArchivedInstant(instant, metadata, _plan(table, instant))


def _plan(table: Table, instant: Instant) -> bytes | None:
    """The requested file of a planned action; None of a plain write, whose one is empty."""
    for action in pending_action(instant.action):
        requested = Instant(instant.requested_at, action, State.REQUESTED)
        try:
            return table.storage.read(table.layout.path(requested)) or None
        except NotFound:
            continue
    return None


def _describe_plan(table: Table, proposal: _Proposal) -> ServicePlan:
    items = tuple(
        PlanItem(instant.requested_at, "archive", detail=instant.action.value)
        for instant in proposal.instants
    )
    items += tuple(
        PlanItem(file.path, "delete", file.size, "left by a failed write")
        for file in proposal.strays
    )
    count = len(proposal.instants)
    return ServicePlan(
        service=Archive.name,
        summary=f"archive {count} instants" if count else "nothing to archive",
        items=items,
        blockers=(table.write_refusal,) if table.write_refusal else (),
        warnings=proposal.start.held_by,
        figures={
            "instants": count,
            "stray_files": len(proposal.strays),
            "active_commits": proposal.start.commits,
        },
    )
