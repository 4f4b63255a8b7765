"""Carry a pending plan out, one process at a time. After a crash at any point the next claim
continues.

claim:  lock: properties unchanged -> publish decided instants -> no live attempt -> own heartbeat
        -> inflight; then delete the files of dead attempts.
work:   `confirm` before each effect; markers first.
finish: delete unreferenced files -> lock: publish decided instants -> attempt is still current
        -> after a lapsed heartbeat, no decision about the plan -> content (validates)
        -> properties unchanged -> confirm lease -> decision -> completed file -> check the
        properties again; unreferenced files again, markers, heartbeat.

A plan is never rolled back because its executor died. It is discarded only when it can no longer be
carried out: what it was made from is gone, or a takeover of the table lock fenced its instant.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from workers import failpoints
from workers.clock import InstantTime, next_instant
from workers.concurrency.heartbeat import delete_heartbeat, read_heartbeat
from workers.concurrency.lapsed_heartbeat import decide_foreign_rollback
from workers.concurrency.lock_takeover import load_published_timeline, table_lock
from workers.concurrency.locks.lease import format_lease_metadata
from workers.concurrency.transaction import reject_during_restore
from workers.errors import (
    InstantRolledBack,
    LakehouseError,
    LeaseLost,
    NotFound,
    PlanOvertaken,
    ServiceBusy,
    ServiceRefused,
    StorageFailed,
    WriteOutcomeUnknown,
)
from workers.markers.store import delete_markers, files_of_markers, read_markers
from workers.options.write_options import WriteOptions
from workers.recovery.archive_cleanup import finish_archiving
from workers.recovery.failed_writes import publish_decided
from workers.recovery.plan import find_files
from workers.recovery.rollback import RollbackRequest, rollback
from workers.storage.base import Storage
from workers.table.external_changes import find_external_change
from workers.table.table import Table
from workers.table_services.attempt import AttemptHeartbeat, is_current, read_current_heartbeat
from workers.timeline import decisions, transitions
from workers.timeline.decisions import CommitDecision, RollbackDecision
from workers.timeline.instant import Action, Instant, State
from workers.timeline.pending_plans import plan_content
from workers.timeline.timeline import Timeline

_LEASES_MAX = 3
_Plan = TypeVar("_Plan")
_log = logging.getLogger(__name__)

PlanMaker = Callable[[Timeline, InstantTime], bytes | None]
"""(published timeline, the instant that the plan will get) -> its durable form; None when there is
nothing to do.
"""
ContentMaker = Callable[[Timeline], bytes]
"""Published timeline -> the completed file. Raises PlanOvertaken when the plan must not be carried
out.
"""


def schedule(
    table: Table,
    options: WriteOptions,
    action: Action,
    make_plan: PlanMaker,
    *,
    is_new: bool = True,
) -> Instant | None:
    """Make a durable plan and nothing else. Its instant is later than all that the plan was made
    from, and than what others wrote until it was durable: the plan of a stalled process is
    discarded.

    Raises LockTimeout, LeaseLost, for a new plan ServiceBusy during a restore, UnsupportedTable and
    TableChanged, and what `make_plan` raises.
    """
    planned: Instant | None = None
    try:
        with table_lock(table, options).hold() as lease:
            if is_new:
                table.check_writable()
            timeline = load_published_timeline(table)
            if is_new:
                reject_during_restore(timeline)
            requested_at = next_instant(table.ports.clock, timeline.last_time)
            try:
                plan = make_plan(timeline, requested_at)
            except NotFound:
                lease.confirm()  # Else others cleaned what this process was reading.
                raise
            if plan is None:
                return None
            lease.confirm()
            planned = transitions.request(table.storage, requested_at, action, plan)
            lease.confirm()  # Others may have gone on between that look and the file.
    except LeaseLost:
        if planned is not None:
            reason = "the process that planned it lost the table lock"
            discard_plan(table, options, planned, reason=reason)
        raise
    return planned


def resume_pending_plans(
    table: Table, options: WriteOptions, action: Action, read_plan: Callable[[bytes], _Plan | None]
) -> Iterator[tuple[Instant, _Plan]]:
    """Yield every pending plan of `action`, oldest first, for the caller to carry out; also those
    that appear during the loop. A plan that cannot be parsed never began and is discarded (bug A8).
    A plan that was decided already was carried out, and is only published.

    Raises LockTimeout.
    """
    publish_decided(table, options)
    yielded: set[InstantTime] = set()
    while pending := [
        plan_instant
        for plan_instant in table.timeline().pending()
        if plan_instant.action is action and plan_instant.requested_at not in yielded
    ]:
        instant = pending[0]
        yielded.add(instant.requested_at)
        plan = read_plan(plan_content(table.storage, instant))
        if plan is None:
            discard_plan(table, options, instant, reason="its plan is empty or torn")
        else:
            yield instant, plan


class Claim:
    """The right to carry one plan out, until `confirm` raises."""

    def __init__(
        self,
        table: Table,
        options: WriteOptions,
        instant: Instant,
        timeline: Timeline,
        heartbeat: AttemptHeartbeat,
    ) -> None:
        self.table = table
        self.instant = instant
        self.timeline = timeline
        """The timeline of the claim, with all decided instants published."""
        self.plan = plan_content(table.storage, instant)
        """The requested file."""
        self._options = options
        self._heartbeat = heartbeat
        self._may_be_decided = False
        self.warnings: tuple[str, ...] = ()
        """Known once it is finished."""
        self.holding_text = ""
        """The lock metadata of its commit; set before a ContentMaker is called."""

    @property
    def attempt(self) -> str:
        """The token that names this attempt in its heartbeat, its markers and its files."""
        return self._heartbeat.attempt

    def confirm(self) -> None:
        """Check the claim before each effect. Raises ServiceBusy when another attempt took the plan
        over, InstantRolledBack when the instant is decided.
        """
        confirm_attempt(self.table.storage, self.instant.requested_at, self.attempt)

    def finish(self, content: ContentMaker, files: Collection[str] = ()) -> Instant:
        """Complete the instant, of whose data files only `files` stay.

        Raises ServiceBusy, InstantRolledBack, LockTimeout, LeaseLost, WriteOutcomeUnknown,
        UnsupportedTable, TableChanged, and what `content` raises.
        """
        self._delete_unreferenced(files)
        done = self._decide(content, sorted(files))
        self.warnings = find_external_change(self.table, done.requested_at)
        self._heartbeat.stop()
        self._tidy(files)
        return done

    def _decide(self, content: ContentMaker, files: Sequence[str]) -> Instant:
        for _ in range(_LEASES_MAX - 1):
            try:
                return self._decide_once(content, files)
            except LeaseLost:
                _log.warning("lease lost, trying again: instant=%s", self.instant.requested_at)
        return self._decide_once(content, files)

    def _decide_once(self, content: ContentMaker, files: Sequence[str]) -> Instant:
        requested_at, writer = self.instant.requested_at, self._options.writer or None
        with table_lock(self.table, self._options).hold(completing=requested_at) as lease:
            failpoints.hit_failpoint("before_validate", writer=writer)
            timeline = load_published_timeline(self.table)
            self.confirm()
            instant = timeline.find(requested_at)
            if instant is None:
                raise InstantRolledBack("another engine discarded the plan", instant=requested_at)
            if instant.is_completed:
                raise ServiceBusy("another process carried the plan out", instant=requested_at)
            self._check_lapsed_heartbeat(timeline, files)
            self.holding_text = format_lease_metadata(lease)
            body = content(timeline)
            self.table.check_writable()
            lease.confirm()  # It may have run out while the content was made.
            failpoints.hit_failpoint("before_publish", writer=writer)
            done = instant.complete(next_instant(self.table.ports.clock, timeline.last_time))
            nonce = self.table.ports.ids.token()
            completion = transitions.Completion(done, body, nonce, writer)
            self._may_be_decided = True
            published = transitions.complete(self.table.storage, completion)
            failpoints.hit_failpoint("after_publish", writer=writer)
            return published

    def drop_former(self) -> None:
        """Delete the files and markers of former attempts. They are listed first, then the claim is
        confirmed: the markers of a successor have other names. Raises ServiceBusy,
        InstantRolledBack.
        """
        markers = files_of_markers(self.table.storage, self.instant.requested_at)
        self._delete_unreferenced(referenced=())  # Data before the markers that name it (bug B3).
        self.table.storage.delete_many(markers)

    def _delete_unreferenced(self, referenced: Collection[str]) -> None:
        """Delete the files that former attempts and this one left. They are listed first, then the
        claim is confirmed: a process that stalled in between has no file of its successor in its
        list. Raises ServiceBusy, InstantRolledBack.
        """
        strays = _find_unreferenced(self.table, self.instant.requested_at, referenced)
        self.confirm()
        self.table.storage.delete_many(strays)

    def _check_lapsed_heartbeat(self, timeline: Timeline, files: Sequence[str]) -> None:
        """Check that no process decided about the plan while the heartbeat of this attempt was
        lapsed. Raises PlanOvertaken if the plan was decided to be discarded.
        """
        if not (self.instant.action.is_rewrite and self._heartbeat.has_lapsed):
            return
        requested_at = self.instant.requested_at
        rolled_back = decide_foreign_rollback(self.table, requested_at, timeline, files)
        if rolled_back is not None:
            raise PlanOvertaken(rolled_back.reason, instant=requested_at)

    def _tidy(self, files: Collection[str]) -> None:
        """The instant is complete whatever happens here; the next writer sweeps the rest."""
        storage, requested_at = self.table.storage, self.instant.requested_at
        try:
            # Decided for us: no other attempt's file will ever count.
            storage.delete_many(_find_unreferenced(self.table, requested_at, files))
            delete_markers(storage, requested_at)
            delete_heartbeat(storage, requested_at)
            _delete_waiting(storage, requested_at)
        except (StorageFailed, WriteOutcomeUnknown) as error:
            _log.warning("completed, not tidied: instant=%s error=%s", requested_at, error)

    def release(self) -> None:
        """Delete the remains after a failure and let the next attempt have the plan. Where the
        outcome may be decided already nothing is deleted: the next attempt reads the decision.
        """
        if self._may_be_decided:
            self._heartbeat.stop()
            return
        try:
            self._delete_unreferenced(referenced=())
        except (LakehouseError, OSError) as error:  # The next claim does it.
            requested_at = self.instant.requested_at
            _log.warning("left to the next attempt: instant=%s error=%s", requested_at, error)
        self._heartbeat.give_up()


@contextmanager
def claim_plan(
    table: Table, options: WriteOptions, requested_at: InstantTime, action: Action, *, service: str
) -> Iterator[Claim]:
    """Carry out the pending plan of `action` in this block; it stays pending when the block fails.

    Raises ServiceBusy when another process carries it out, ServiceRefused when it is not pending,
    InstantRolledBack when it was fenced, LockTimeout, LeaseLost, UnsupportedTable, TableChanged. A
    fenced plan is discarded; one that deletes is pending again under another instant.
    """
    try:
        claim = _claim(table, options, requested_at, action, service)
    except InstantRolledBack as fenced:
        plan = Instant(requested_at, action, State.REQUESTED)
        if not action.is_rewrite:
            _replan(table, options, plan)
        discard_plan(table, options, plan, reason=fenced.message)
        raise
    try:
        yield claim
    finally:
        claim.release()


def _replan(table: Table, options: WriteOptions, fenced: Instant) -> None:
    """The same plan as a new instant: its effects may have begun, and must stay on record. Not if
    others have carried it out or planned it again since.
    """
    content = plan_content(table.storage, fenced)

    def make_plan(timeline: Timeline, _: InstantTime) -> bytes | None:
        pending = timeline.find(fenced.requested_at)
        return content if pending is not None and not pending.is_completed else None

    if content:
        schedule(table, options, fenced.action, make_plan, is_new=False)


def _claim(
    table: Table, options: WriteOptions, requested_at: InstantTime, action: Action, service: str
) -> Claim:
    with ExitStack() as undo:
        with table_lock(table, options).hold() as lease:
            table.check_writable(begins_to_write=True)
            timeline = load_published_timeline(table)
            instant = timeline.find(requested_at)
            if instant is None or instant.is_completed or instant.action is not action:
                raise ServiceRefused("plan is not pending", instant=requested_at, service=service)
            decision = decisions.read(table.storage, requested_at)
            if isinstance(decision, CommitDecision):  # Since the timeline was listed.
                raise ServiceBusy("another process carried the plan out", instant=requested_at)
            if decision is not None:
                raise InstantRolledBack("plan was fenced, schedule a new one", instant=requested_at)
            former = read_current_heartbeat(table.storage, requested_at)
            _check_not_busy(table, requested_at, options)
            heartbeat = AttemptHeartbeat(
                table.storage, table.ports, requested_at, service=service, options=options
            )
            undo.callback(heartbeat.give_up)
            heartbeat.start(former)
            if instant.state is State.REQUESTED:
                instant = transitions.start(table.storage, instant)
            lease.confirm()
        claim = Claim(table, options, instant, timeline, heartbeat)
        claim.drop_former()
        undo.pop_all()
    failpoints.hit_failpoint("after_start", writer=options.writer or None)
    return claim


def _check_not_busy(table: Table, requested_at: InstantTime, options: WriteOptions) -> None:
    """Check that no other operation carries the plan out. Raises ServiceBusy. An operation whose
    worker died continues at once: should the former worker still live, it finds another attempt in
    its place and publishes nothing.
    """
    beat = read_heartbeat(table.storage, requested_at)
    if beat is None or (beat.operation_id and beat.operation_id == options.operation_id):
        return
    if not beat.is_expired(table.ports.clock.now_ms()):
        raise ServiceBusy(
            "another process carries this plan out", instant=requested_at, by=beat.writer
        )


def confirm_attempt(storage: Storage, requested_at: InstantTime, attempt: str) -> None:
    """Check what `Claim.confirm` does, for executors, which have no claim. Raises ServiceBusy,
    InstantRolledBack.
    """
    if decisions.is_decided(storage, requested_at):
        raise InstantRolledBack("instant is decided already", instant=requested_at)
    if not is_current(storage, requested_at, attempt):
        raise ServiceBusy("another attempt took the plan over", instant=requested_at)


def _find_unreferenced(
    table: Table, requested_at: InstantTime, referenced: Collection[str]
) -> list[str]:
    """Return the data files of the instant that are not referenced: by markers, and by listing."""
    marked = {marker.data_path for marker in read_markers(table.storage, requested_at)}
    listed = {file.path for file in find_files(table, requested_at)}
    return sorted((marked | listed) - set(referenced))


def _delete_waiting(storage: Storage, requested_at: InstantTime) -> None:
    """Contents that dead attempts had laid down and not decided for."""
    for file in decisions.load_staged_metadata(storage):
        if file.name.startswith(f"{requested_at}."):
            decisions.delete_metadata(storage, file.path)


def discard_plan(
    table: Table, options: WriteOptions, plan: Instant, *, reason: str, by: str = "services"
) -> None:
    """Remove a pending plan permanently, with all that was written for it.

    A plan that rewrites file groups is removed by a rollback instant (bug B17). Any other plan
    leaves nothing to undo. Neither does one that another engine rolled back already, whose executor
    deletes its files. Raises RollbackRefused when it was completed in between, LockTimeout.
    """
    is_gone = table.timeline().find(plan.requested_at) is None
    if plan.action.is_rewrite and not is_gone:
        request = RollbackRequest(
            plan.requested_at, by=by, reason=reason, is_forced=True, is_only_pending=True
        )
        rollback(table, request, options)
        _delete_waiting(table.storage, plan.requested_at)
        return
    decision = RollbackDecision(by=by, nonce=table.ports.ids.token(), reason=reason)
    with table_lock(table, options).hold() as lease:
        timeline = load_published_timeline(table)
        instant = timeline.find(plan.requested_at)
        if instant is not None and not instant.is_completed:
            lease.confirm()
            decisions.decide(table.storage, plan.requested_at, decision)
            transitions.discard(table.storage, plan.requested_at, plan.action)
        finish_archiving(table, timeline)
    delete_heartbeat(table.storage, plan.requested_at)
    _delete_waiting(table.storage, plan.requested_at)
