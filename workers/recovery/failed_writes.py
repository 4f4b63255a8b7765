"""Failed writes: roll dead writers back and remove the rest of a crash, before a write begins
(EAGER) or after it committed (LAZY). Decided instants are completed before every write, whatever
the policy: no write may build on a commit that is being rolled back.

Dead means: the heartbeat is older than its own bound, or there is none. Under the lock the target
is checked again, so a writer that completed in between is left alone (bug B2, RB6), and the
decision object lets only one side win (HB3).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.concurrency import heartbeat as heartbeats
from workers.concurrency.heartbeat import Heartbeat, read_every_heartbeat, read_heartbeats
from workers.concurrency.late_writers import record_beginner
from workers.concurrency.lock_takeover import load_published_timeline, table_lock
from workers.errors import LakehouseError, RollbackRefused
from workers.markers.store import delete_markers, pending_marker_instants
from workers.options.write_options import WriteOptions
from workers.options.writer_modes import FailedWritesPolicy
from workers.recovery.archive_cleanup import finish_archiving
from workers.recovery.rollback import RollbackOutcome, RollbackRequest, resume, rollback
from workers.storage.base import FileInfo
from workers.storage.temp_files import find_stale_temp_files
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.table_layout import HOODIE
from workers.timeline import decisions, transitions
from workers.timeline.decision_lookup import is_gone
from workers.timeline.decisions import CommitDecision, RollbackDecision
from workers.timeline.instant import Action, Instant
from workers.timeline.timeline import Timeline

BY = "failed-writes"
_log = logging.getLogger(__name__)


def clean_before_write(table: Table, options: WriteOptions) -> None:
    """Roll dead writers back under the policy EAGER; under the others only complete decided
    rollbacks. Raises LockTimeout.
    """
    if options.failed_writes is FailedWritesPolicy.EAGER:
        roll_back_dead_writers(table, options)
    else:
        # What is decided to be committed is published under the lock that this write begins with.
        _end_rollbacks(table, table.timeline(), options)


def clean_after_write(table: Table, options: WriteOptions) -> None:
    """Roll dead writers back under the policy LAZY. An error does not affect the write; the next
    writer cleans the rest.
    """
    if options.failed_writes is not FailedWritesPolicy.LAZY:
        return
    try:
        roll_back_dead_writers(table, options)
    except LakehouseError as error:
        _log.warning("failed writes are left to the next writer: error=%s", error)


def _end_rollbacks(table: Table, timeline: Timeline, options: WriteOptions) -> None:
    for instant in timeline.pending():
        if instant.action is Action.ROLLBACK:
            resume(table, instant.requested_at, options)


def roll_back_dead_writers(table: Table, options: WriteOptions) -> list[RollbackOutcome]:
    """Roll dead writers back and return these rollbacks; remove the files of instants that are not
    pending. Idempotent; any number of writers may do it concurrently (bug B1). Raises LockTimeout.

    With the policy NEVER decided instants are completed, and dead writers stay.
    """
    traces = _Traces.load(table)
    if traces.is_peaceful(table):
        _sweep(table, traces)
        return []
    publish_decided(table, options)
    _end_rollbacks(table, table.timeline(), options)
    if options.failed_writes is FailedWritesPolicy.NEVER:
        return []
    outcomes = []
    for instant, reason in _find_dead_writers(table):
        request = RollbackRequest(instant.requested_at, by=BY, reason=reason, is_only_pending=True)
        try:
            outcome = rollback(table, request, options)
        except RollbackRefused as refused:
            # It beat again, or was decided, before the lock was held.
            _log.info("left alone: instant=%s reason=%s", instant.requested_at, refused)
            continue
        _log.warning("rolled back: instant=%s reason=%s", instant.requested_at, reason)
        outcomes.append(outcome)
    _drop_half_made_savepoints(table, options)
    for file in find_stale_temp_files(table.storage, table.ports.clock.now_ms(), below=HOODIE):
        table.storage.delete(file.path)
    _sweep(table, _Traces.load(table))
    return outcomes


def publish_decided(table: Table, options: WriteOptions) -> None:
    """Publish what crashed writers had decided. Takes the lock only if there is such a decision."""
    for instant in table.timeline().pending():
        decision = decisions.read(table.storage, instant.requested_at)
        if isinstance(decision, CommitDecision):
            with table_lock(table, options).hold():
                load_published_timeline(table)
            return


def find_orphaned_markers(table: Table) -> tuple[InstantTime, ...]:
    """Return the instants that have markers and are not pending, sorted. One with a live heartbeat
    is not among them: its writer may be deleting its markers now.
    """
    return _find_orphaned(_Traces.load(table), table.ports.clock.now_ms())


def _find_orphaned(traces: _Traces, now_ms: int) -> tuple[InstantTime, ...]:
    pending = {instant.requested_at for instant in traces.timeline.pending()}

    def is_live(instant: InstantTime) -> bool:
        beat = traces.beats.get(instant)
        return beat is not None and not beat.is_expired(now_ms)

    return tuple(
        instant for instant in traces.marked if instant not in pending and not is_live(instant)
    )


def _drop_half_made_savepoints(table: Table, options: WriteOptions) -> None:
    """Delete pending savepoints under the lock, which the writer of a savepoint holds."""
    if any(instant.action is Action.SAVEPOINT for instant in table.timeline().pending()):
        with table_lock(table, options).hold():
            for instant in table.timeline().pending():
                if instant.action is Action.SAVEPOINT:
                    transitions.delete_savepoint(table.storage, instant)


def _find_dead_writers(table: Table) -> list[tuple[Instant, str]]:
    beats = {beat.instant: beat for beat in read_heartbeats(table.storage)}
    now_ms = table.ports.clock.now_ms()
    dead = []
    # Heartbeats are read before the timeline: an instant that begins in between shows neither.
    for instant in table.timeline().pending():
        if not (instant.action.writes_data or instant.action.is_rewrite):
            continue
        beat = beats.get(instant.requested_at)
        reason = _find_death_reason(table, instant, beat, now_ms)
        if reason is not None:
            dead.append((instant, reason))
    return dead


def _find_death_reason(
    table: Table, instant: Instant, beat: Heartbeat | None, now_ms: int
) -> str | None:
    decision = decisions.read(table.storage, instant.requested_at)
    if isinstance(decision, CommitDecision):
        return "undone" if decisions.is_undone(table.storage, instant.requested_at) else None
    if decision is not None:
        return decision.reason
    if instant.action.is_rewrite:
        return None  # The plan outlives its executor (bug B9); only a fenced one goes.
    if beat is None:
        fresh = heartbeats.read_heartbeat(table.storage, instant.requested_at)
        return "no heartbeat" if fresh is None else None
    if beat.is_expired(now_ms):
        age_s = (now_ms - beat.beat_ms) / 1000
        return f"heartbeat is {age_s:.0f} s old, bound {beat.bound_ms / 1000:.0f} s"
    return None


@dataclass(frozen=True, slots=True)
class _Traces:
    """The files of writers next to the table, and the timeline as it was after they were listed: an
    instant that begins in between has none here.
    """

    beats: Mapping[InstantTime, Heartbeat]
    marked: Sequence[InstantTime]
    waiting: Sequence[FileInfo]
    timeline: Timeline

    @classmethod
    def load(cls, table: Table) -> _Traces:
        storage = table.storage
        return cls(
            {beat.instant: beat for beat in read_every_heartbeat(storage)},
            list(pending_marker_instants(storage)),
            list(decisions.load_staged_metadata(storage)),
            table.timeline(),
        )

    def is_peaceful(self, table: Table) -> bool:
        """Check that every active writer lives, and that no decided instant has to be completed
        first.

        A write that decided to commit holds the lock and publishes; if it dies before, the next
        writer publishes it. A plan of a rewrite must not be taken for one that is to be executed.
        """
        now_ms = table.ports.clock.now_ms()
        pending = list(self.timeline.pending())
        for pending_instant in pending:
            beat = self.beats.get(pending_instant.requested_at)
            if beat is None or beat.is_expired(now_ms):
                return False
            if pending_instant.action in (Action.ROLLBACK, Action.SAVEPOINT):
                return False
        rewrites = {instant.requested_at for instant in pending if instant.action.is_rewrite}
        decided = decisions.read_all(table.storage, [instant.requested_at for instant in pending])
        return not any(
            instant in rewrites or isinstance(decision, RollbackDecision)
            for instant, decision in decided.items()
        )


def _sweep(table: Table, traces: _Traces) -> None:
    """Remove heartbeats, markers and staged metadata whose instants are not pending."""
    storage, now_ms = table.storage, table.ports.clock.now_ms()
    beats, timeline = traces.beats, traces.timeline
    pending = {instant.requested_at for instant in timeline.pending()}
    _unpublish_undone(table, timeline)
    finish_archiving(table, timeline)
    for instant, beat in beats.items():
        if instant not in pending and beat.is_expired(now_ms):
            is_unknown = timeline.find(instant) is None
            if is_unknown and not (beat.is_given_up or decisions.is_decided(storage, instant)):
                record_beginner(storage, instant, beat.process)  # It stalled before it had begun.
            heartbeats.delete_heartbeat(storage, instant)
    for instant in _find_orphaned(traces, now_ms):
        delete_markers(storage, instant)
    for file in traces.waiting:
        if _get_instant(file) not in pending:
            decisions.delete_metadata(storage, file.path)


def _unpublish_undone(table: Table, timeline: Timeline) -> None:
    """Unpublish undone instants again: a writer that stalled during the undo may have published
    them.
    """
    for requested_at in decisions.undone_instants(table.storage):
        instant = timeline.find(requested_at)
        if instant is None or not instant.is_completed:
            continue
        by = decisions.find_rollback_instant(table.storage, requested_at)
        undoing = timeline.find(by) if by else None
        if by is not None and (undoing is None or undoing.is_completed):
            transitions.unpublish(table.storage, instant)
            transitions.discard(table.storage, requested_at, instant.action)


def delete_late_files(table: Table, view: FileSystemView) -> list[str]:
    """Delete files that tasks of rolled-back writers wrote after the rollback had listed them (bug
    D11).

    Deletes only files whose instant has a rollback decision, however old: any other may belong to a
    live writer.
    """
    pending = {instant.requested_at for instant in view.timeline.pending()}
    is_rolled_back: dict[InstantTime, bool] = {}
    deleted = []
    for instant, path in view.uncommitted:
        if instant in pending:
            continue
        if instant not in is_rolled_back:
            is_rolled_back[instant] = is_gone(table.storage, instant) or decisions.is_undone(
                table.storage, instant
            )
        if is_rolled_back[instant]:
            table.storage.delete(path)
            deleted.append(path)
    return deleted


def _get_instant(file: FileInfo) -> InstantTime:
    return file.name.partition(".")[0]
