"""Roll one instant back: a plan first, durable before the first effect, restartable at every step.

Order: requested file with the plan -> decision (or undo) -> inflight -> [completed target: remove
its file] -> delete data -> list again -> completed rollback -> the target's own files -> markers ->
heartbeat (RB5) -> [completed target: check the table's properties again]. A target whose commit was
decided since then is completed instead, and the rollback instant is discarded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from workers import failpoints
from workers.clock import InstantTime, next_instant
from workers.concurrency import heartbeat as heartbeats
from workers.concurrency import late_writers
from workers.concurrency.lock_takeover import load_published_timeline, table_lock
from workers.errors import InstantRolledBack, LeaseLost, NotFound, PlanChanged, RollbackRefused
from workers.files.partition import drop_empty_directories, hides_directories
from workers.files.partition_paths import directories_above
from workers.markers.store import delete_markers
from workers.options.write_options import WriteOptions
from workers.recovery.plan import RollbackPlan, find_files, find_sequence_blockers, plan_rollback
from workers.table.external_changes import find_external_change
from workers.table.table import Table
from workers.timeline import decisions, transitions
from workers.timeline.decision_lookup import find_decision
from workers.timeline.decisions import RollbackDecision
from workers.timeline.instant import Action, Instant, State
from workers.timeline.metadata import (
    RollbackPlanFile,
    encode_rollback_metadata,
    read_rollback_plan,
)
from workers.timeline.timeline import Timeline

Progress = Callable[[int, int], None]
"""(files done, files in all)."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """The instant to roll back, the requester, the reason, and the conditions."""

    target: InstantTime
    by: str
    reason: str
    expected_plan_hash: str | None = None
    """Reject a plan that is not the one that the user confirmed."""
    is_forced: bool = False
    """Also a pending instant whose writer is alive: one's own, or on a person's word."""
    is_only_pending: bool = False
    """Leave a target alone that turns out to be complete (RB6)."""
    conflict: dict[str, Any] | None = None
    writer: str | None = None
    writer_has_ended: bool = False
    """The writer requests it and writes no longer, or it was ended before."""
    in_restore: bool = False
    """One of many that a restore rolls back, newest first."""
    is_in_turn: bool = False
    """One of several that a person chose: everything newer is to be gone by now."""


@dataclass(frozen=True, slots=True)
class RollbackOutcome:
    """The end of a rollback: the target is rolled back, or was committed before."""

    target: InstantTime
    rollback_instant: InstantTime | None
    """None when the target turned out to be committed, or was gone already."""
    files_deleted: int = 0
    is_committed: bool = False
    was_already_rolled_back: bool = False
    """Another rollback was decided before, and has completed or will be executed by the next
    writer; files that appeared later still exist.
    """
    warnings: tuple[str, ...] = ()
    """Changes by another engine during the rollback of a commit: see `check_external_changes`."""


def rollback(
    table: Table,
    request: RollbackRequest,
    options: WriteOptions,
    *,
    on_progress: Progress | None = None,
) -> RollbackOutcome:
    """Roll one instant back. Running it again ends in the same state (RB1).

    Raises RollbackRefused, PlanChanged, LockTimeout, LeaseLost.
    """
    table.check_opened_writable()
    prepared = _prepare(table, request, options)
    if isinstance(prepared, RollbackOutcome):
        return prepared
    return execute(table, prepared, options, on_progress=on_progress)


def resume(table: Table, rollback_instant: InstantTime, options: WriteOptions) -> None:
    """Resume a pending rollback instant, or discard it if nothing was decided for it."""
    plan = _load_plan(table, rollback_instant)
    with table_lock(table, options).hold():
        timeline = load_published_timeline(table)
        instant = timeline.find(rollback_instant)
        if instant is None or instant.is_completed:
            return
        is_void = decisions.read(table.storage, rollback_instant) is not None
        by = _find_decider(table, plan.target) if plan else None
        prepared = _find_current_rollback(table, timeline, plan.target, by) if plan and by else None
        is_mine = prepared is not None and prepared.rollback_instant == rollback_instant
        if plan is None or is_void or not is_mine:
            transitions.discard(table.storage, rollback_instant, Action.ROLLBACK)
            return
        requested = Instant(rollback_instant, Action.ROLLBACK, State.REQUESTED)
        try:
            transitions.start(table.storage, requested)
        except LeaseLost:
            return  # Others carried it out while this process was stalled.
    execute(table, _Prepared(rollback_instant, plan), options)


@dataclass(frozen=True, slots=True)
class _Prepared:
    rollback_instant: InstantTime
    plan: RollbackPlanFile


def _prepare(
    table: Table, request: RollbackRequest, options: WriteOptions
) -> _Prepared | RollbackOutcome:
    with table_lock(table, options).hold() as lease:
        timeline = load_published_timeline(table)
        target = timeline.find(request.target)
        if target is None:
            return _build_gone_outcome(table, request)
        if target.is_completed and request.is_only_pending:
            return RollbackOutcome(request.target, None, is_committed=True)
        if target.is_completed:
            # What is still pending no other engine has taken into its own metadata.
            table.check_writable()
        by = _find_decider(table, request.target)
        if by and (prepared := _find_current_rollback(table, timeline, request.target, by)):
            return prepared
        plan = plan_rollback(
            table,
            request.target,
            in_restore=request.in_restore or request.is_in_turn,
            by_markers=options.rolls_back_by_markers,
        )
        if by is None:
            _check_plan(plan, request)
            if request.is_in_turn and (blockers := find_sequence_blockers(table, timeline, plan)):
                raise RollbackRefused("; ".join(blockers), instant=request.target)
        requested_at = next_instant(table.ports.clock, timeline.last_time)
        _record_writer(table, target, request)
        plan_file = _build_plan_file(plan)
        content = plan_file.encode(table.storage.location)
        requested = transitions.request(table.storage, requested_at, Action.ROLLBACK, content)
        if target.is_completed:
            lease.completes(f"{request.target}+{requested_at}")
        lease.confirm()
        if by is None and not _decide(table, target, requested_at, request):
            transitions.discard(table.storage, requested_at, Action.ROLLBACK)
            if target.is_completed:
                raise LeaseLost("the table lock ran out before the undo", instant=request.target)
            if (first := find_rollback_instant(table, request.target)) is not None:
                return RollbackOutcome(request.target, first, was_already_rolled_back=True)
            return RollbackOutcome(request.target, None, is_committed=True)
        failpoints.hit_failpoint("rollback_after_decision", writer=request.by)
        transitions.start(table.storage, requested)
    return _Prepared(requested_at, plan_file)


def _record_writer(table: Table, target: Instant, request: RollbackRequest) -> None:
    """Record the target's writer before the fence is set: a process that checked just before may
    still write a file.
    """
    if target.is_completed or request.writer_has_ended:
        return
    heartbeat = heartbeats.read_heartbeat(table.storage, target.requested_at)
    was_begun = heartbeat is not None or target.action.writes_data
    if was_begun:  # No process executes a plan that has no heartbeat.
        process = heartbeat.process if heartbeat else None
        late_writers.record_beginner(table.storage, target.requested_at, process)


def _find_current_rollback(
    table: Table, timeline: Timeline, target: InstantTime, by: InstantTime
) -> _Prepared | None:
    """Return the rollback of `target` on the timeline, pending or complete: never a second one
    (RB2). Among several, whose writers died before they decided, the decided one comes first, else
    a complete one.
    """
    candidates: list[tuple[bool, bool, _Prepared]] = []
    for instant in timeline.instants:
        if instant.action is Action.ROLLBACK and instant.requested_at > target:
            plan = _load_plan(table, instant.requested_at)
            if plan is not None and plan.target == target:
                prepared = _Prepared(instant.requested_at, plan)
                candidates.append((instant.requested_at == by, instant.is_completed, prepared))
    return max(candidates, key=lambda candidate: candidate[:2], default=(False, False, None))[2]


def _find_decider(table: Table, target: InstantTime) -> InstantTime | None:
    """Return the rollback instant (or `takeover`) that was decided for the target; None without a
    decision.
    """
    decision = decisions.read(table.storage, target)
    if isinstance(decision, RollbackDecision):
        return decision.by
    return decisions.find_rollback_instant(table.storage, target)


def _build_gone_outcome(table: Table, request: RollbackRequest) -> RollbackOutcome:
    """Return the outcome of a rollback that has completed and removed the target's files: running
    it again is a success.
    """
    by = find_rollback_instant(table, request.target)
    if by is not None:
        return RollbackOutcome(request.target, by, was_already_rolled_back=True)
    raise RollbackRefused("instant is not on the active timeline", instant=request.target)


def find_rollback_instant(table: Table, target: InstantTime) -> InstantTime | None:
    """Return the rollback instant (or `takeover`) that was decided for the target, also if the
    decision was archived since; None without a decision.
    """
    by = _find_decider(table, target)
    if by is None and isinstance(
        decision := find_decision(table.storage, target), RollbackDecision
    ):
        return decision.by
    return by


def _check_plan(plan: RollbackPlan, request: RollbackRequest) -> None:
    if request.expected_plan_hash not in (None, plan.plan_hash):
        raise PlanChanged(
            "the table changed since the plan was shown",
            instant=request.target,
            shown=request.expected_plan_hash,
            now=plan.plan_hash,
        )
    if plan.blockers:
        raise RollbackRefused("; ".join(plan.blockers), instant=request.target)
    if plan.is_live and not request.is_forced:
        raise RollbackRefused("its writer is alive", instant=request.target)


def _decide(table: Table, target: Instant, by: InstantTime, request: RollbackRequest) -> bool:
    """Decide the rollback. Returns False if the target's commit was decided first, which the lock
    prevents for a live lease.
    """
    if target.is_completed:
        assert not request.is_only_pending, target  # RB6: a failed write never completed.
        return decisions.undo(table.storage, target.requested_at, by=by, reason=request.reason)
    decision = RollbackDecision(
        by=by,
        nonce=table.ports.ids.token(),
        reason=request.reason,
        writer=request.writer,
        conflict=request.conflict,
    )
    return decisions.decide(table.storage, target.requested_at, decision)


def _build_plan_file(plan: RollbackPlan) -> RollbackPlanFile:
    by_partition = _group_by_partition(file.path for file in plan.files)
    files = {partition: tuple(paths) for partition, paths in by_partition.items()}
    return RollbackPlanFile(plan.target, plan.action, files)


def _group_by_partition(paths: Iterable[str]) -> dict[str, list[str]]:
    paths_by_partition: dict[str, list[str]] = {}
    for path in paths:
        paths_by_partition.setdefault(path.rpartition("/")[0], []).append(path)
    return paths_by_partition


def _load_plan(table: Table, rollback_instant: InstantTime) -> RollbackPlanFile | None:
    requested = Instant(rollback_instant, Action.ROLLBACK, State.REQUESTED)
    try:
        content = table.storage.read(table.layout.path(requested))
    except NotFound:
        return None
    return read_rollback_plan(content, table.storage.location)


def execute(
    table: Table,
    prepared: _Prepared,
    options: WriteOptions,
    *,
    on_progress: Progress | None = None,
) -> RollbackOutcome:
    """Execute a prepared rollback, from its durable plan to the end. Every step may be repeated."""
    started_ms = table.ports.clock.now_ms()
    plan = prepared.plan
    _unpublish_if_completed(table, plan)
    deleted = _delete_data(table, plan, options, on_progress)
    failpoints.hit_failpoint("rollback_after_delete")
    _complete(table, prepared, deleted, started_ms, options)
    transitions.discard(table.storage, plan.target, Action(plan.target_action))
    delete_markers(table.storage, plan.target)
    heartbeats.delete_heartbeat(table.storage, plan.target)
    mine = prepared.rollback_instant
    # What was still pending no other engine has taken into its own metadata.
    was_committed = decisions.find_rollback_instant(table.storage, plan.target) is not None
    return RollbackOutcome(
        plan.target,
        mine,
        sum(len(paths) for paths in deleted.values()),
        warnings=find_external_change(table, mine, undone=plan.target) if was_committed else (),
    )


def _unpublish_if_completed(table: Table, plan: RollbackPlanFile) -> None:
    target = table.timeline().find(plan.target)
    if target is not None and target.is_completed:
        # First, so that no reader sees the instant while its files go.
        transitions.unpublish(table.storage, target)


def _delete_data(
    table: Table, plan: RollbackPlanFile, options: WriteOptions, on_progress: Progress | None
) -> dict[str, list[str]]:
    """Delete the files of the plan, then list again for files that late tasks wrote since."""
    paths = sorted(path for paths in plan.files_by_partition.values() for path in paths)
    step = table.storage.deletes_at_once
    for start in range(0, len(paths), step):
        some = paths[start : start + step]
        table.storage.delete_many(some)
        if on_progress is not None:
            on_progress(start + len(some), len(paths))
    late = find_files(table, plan.target, by_markers=options.rolls_back_by_markers)
    table.storage.delete_many([file.path for file in late])
    deleted = _group_by_partition([*paths, *(file.path for file in late)])
    _drop_hidden(table, deleted)
    return deleted


def _drop_hidden(table: Table, partitions: Iterable[str]) -> None:
    """Delete the empty directories of partitions inside another one: no write to them commits any
    longer.
    """
    storage, depth_min = table.storage, len(table.config.partition_by)
    if table.config.url_encode or not storage.is_local:
        return
    for partition in partitions:
        for outer, inner in pairwise([*directories_above(partition, depth_min), partition]):
            if hides_directories(storage.list_names(outer)):
                drop_empty_directories(storage, [inner])


def _complete(
    table: Table,
    prepared: _Prepared,
    deleted: dict[str, list[str]],
    started_ms: int,
    options: WriteOptions,
) -> None:
    mine = prepared.rollback_instant
    with table_lock(table, options).hold(completing=mine) as lease:
        timeline = load_published_timeline(table)
        instant = timeline.find(mine)
        if instant is None or instant.is_completed:
            return  # Another process completed the same rollback.
        completed_at = next_instant(table.ports.clock, timeline.last_time)
        content = encode_rollback_metadata(
            prepared.plan,
            rollback_instant=mine,
            deleted_by_partition=deleted,
            took_ms=max(0, table.ports.clock.now_ms() - started_ms),
            location=table.storage.location,
        )
        lease.confirm()
        done = instant.complete(completed_at)
        try:
            transitions.complete(
                table.storage, transitions.Completion(done, content, table.ports.ids.token())
            )
        except InstantRolledBack:
            _log.info("rollback was completed by another: instant=%s", mine)
