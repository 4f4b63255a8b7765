"""Restore: undo everything that became visible after a commit.

Order: plan durable -> pending writers and plans, which fences them (bug B14) -> completed writes,
newest first, compactions and clusterings included (bug B13) -> completed restore. Each step is a
rollback of its own, so a reader in between sees some earlier state of the table, and a rerun after
a crash continues with the rest. While a restore is pending no writer begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.concurrency.heartbeat import read_heartbeats
from workers.concurrency.republish import is_republication
from workers.errors import InvalidInput, LakehouseError, ServiceBusy, ServiceRefused
from workers.options.write_options import WriteOptions
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.plan import find_files, find_old_log_blocker
from workers.recovery.rollback import RollbackRequest, resume, rollback
from workers.storage.base import FileInfo
from workers.table.cleaned_files import find_cleaned_files
from workers.table.savepoints import read_savepoints
from workers.table.table import Table
from workers.table_services.clean import finish_pending_cleans
from workers.table_services.execution import Claim, claim_plan, resume_pending_plans, schedule
from workers.table_services.service import (
    PlanItem,
    Progress,
    ServiceOutcome,
    ServicePlan,
    ServiceRequest,
)
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import read_rolled_back
from workers.timeline.pending_plans import plan_content
from workers.timeline.savepoint_metadata import (
    RestorePlanFile,
    encode_restore_metadata,
    read_restore_plan,
)
from workers.timeline.timeline import Timeline

INSTANT_KEY = "instant"
_ROUNDS_MAX = 20
_SHOWN_MAX = 5


class _MoreToUndo(LakehouseError):
    """Something completed between the last look and the lock."""


class Restore:
    """The service `restore`."""

    name = "restore"

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """Parameter: `instant`, a savepoint's or a completed commit's, or a pending restore's own.
        A pending restore's plan when there is one.
        """
        target = _parse_target(parameters)
        timeline = table.timeline()
        for instant, stored in _pending(table, timeline):
            return _describe_plan(table, timeline, stored.target, pending=instant.requested_at)
        return _describe_plan(table, timeline, target)

    def run(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        on_progress: Progress | None = None,
    ) -> ServiceOutcome:
        """Carry pending restores out; then, unless one of them was what the caller confirmed or
        named, plan a new one and carry it out.

        Raises ServiceBusy while another process carries it out, ServiceRefused where other engines
        continue to write, and as `Service.run`.
        """
        target = _parse_target(request.parameters)
        table.check_writable()
        if request.expected_plan_hash is not None:
            self.plan(table, request.parameters).check(request)
        for instant, stored in resume_pending_plans(
            table, options, Action.RESTORE, read_restore_plan
        ):
            outcome = _carry_out(table, request, options, instant, on_progress)
            is_same_target = target in (stored.target, instant.requested_at)
            if is_same_target or request.expected_plan_hash is not None:
                return outcome
        finish_pending_cleans(table, options)
        roll_back_dead_writers(table, options)

        def make_plan(timeline: Timeline, _: InstantTime) -> bytes | None:
            plan = _describe_plan(table, timeline, target)
            plan.check(request)
            undone = tuple(
                (instant.requested_at, instant.action.value)
                for instant in _list_undone(table, timeline, target)
            )
            return RestorePlanFile(target, undone).encode() if undone else None

        planned = schedule(table, options, Action.RESTORE, make_plan)
        if planned is None:
            return ServiceOutcome(self.name, None, f"the table is at {target} already")
        return _carry_out(table, request, options, planned, on_progress)


def _parse_target(parameters: Mapping[str, str]) -> InstantTime:
    if unknown := set(parameters) - {INSTANT_KEY}:
        raise InvalidInput("unknown parameter", key=min(unknown), known=[INSTANT_KEY])
    if not parameters.get(INSTANT_KEY):
        raise InvalidInput("a restore needs the instant to go back to", key=INSTANT_KEY)
    return parameters[INSTANT_KEY]


def _pending(table: Table, timeline: Timeline) -> Iterator[tuple[Instant, RestorePlanFile]]:
    for instant in timeline.pending():
        if instant.action is Action.RESTORE:
            stored = read_restore_plan(plan_content(table.storage, instant))
            if stored is not None:
                yield instant, stored


def _list_undone(table: Table, timeline: Timeline, target: InstantTime) -> list[Instant]:
    """Pending writers and plans first, then what became visible later, newest first. What states
    the target again stays: other engines see the target only with it.
    """
    goal = timeline.find(target)
    if goal is None or goal.completed_at is None:
        return []
    pending = [
        instant
        for instant in timeline.pending()
        if instant.action.writes_data or instant.action.is_rewrite
    ]
    later = [
        write
        for write in timeline.list_completed_writes()
        if write.completed_at > goal.completed_at
    ]
    if later and is_republication(table, later[0], target):
        later = later[1:]
    return [*reversed(pending), *reversed(later)]


def _carry_out(
    table: Table,
    request: ServiceRequest,
    options: WriteOptions,
    planned: Instant,
    on_progress: Progress | None,
) -> ServiceOutcome:
    requested_at, started_ms = planned.requested_at, table.ports.clock.now_ms()
    with claim_plan(table, options, requested_at, Action.RESTORE, service=Restore.name) as claim:
        plan = read_restore_plan(claim.plan)
        if plan is None:
            raise ServiceBusy("another process discarded the plan", instant=requested_at)

        def content(timeline: Timeline) -> bytes:
            if _list_undone(table, timeline, plan.target):
                raise _MoreToUndo("more was written since", instant=requested_at)
            took_ms = max(0, table.ports.clock.now_ms() - started_ms)
            done = list(_rollbacks(table, timeline, since=requested_at))
            return encode_restore_metadata(started_at=requested_at, took_ms=took_ms, rollbacks=done)

        undo = _Undo(table, request, options, claim, plan.target, on_progress)
        for _ in range(_ROUNDS_MAX):
            undo.everything()
            try:
                claim.finish(content)
            except _MoreToUndo:
                continue
            count = undo.count
            summary = f"restored to {plan.target}: {count} instants undone"
            figures = {"instants": count}
            return ServiceOutcome(Restore.name, requested_at, summary, figures, claim.warnings)
    raise ServiceRefused("other writers are active; stop them first", instant=requested_at)


@dataclass(slots=True)
class _Undo:
    table: Table
    request: ServiceRequest
    options: WriteOptions
    claim: Claim
    target: InstantTime
    on_progress: Progress | None
    count: int = 0

    def everything(self) -> None:
        """Until nothing newer than the target is left; every step may be repeated."""
        for instant in list(self.table.timeline().pending()):
            if instant.action is Action.ROLLBACK:
                self.claim.confirm()
                resume(self.table, instant.requested_at, self.options)
        while todo := _list_undone(self.table, self.table.timeline(), self.target):
            self.claim.confirm()
            self._undo(todo[0])
            self.count += 1
            if self.on_progress is not None:
                self.on_progress(self.count, self.count + len(todo) - 1)

    def _undo(self, instant: Instant) -> None:
        rollback_request = RollbackRequest(
            instant.requested_at,
            by=self.request.by,
            reason=self.request.reason or f"restore to {self.target}",
            is_forced=True,
            in_restore=True,
        )
        rollback(self.table, rollback_request, self.options)


def _rollbacks(
    table: Table, timeline: Timeline, *, since: InstantTime
) -> Iterator[tuple[InstantTime, str, bytes]]:
    """(undone instant, its action, content of the completed rollback) of this restore."""
    for instant in timeline.iterate_completed():
        if instant.action is Action.ROLLBACK and instant.requested_at > since:
            content = table.storage.read(table.layout.path(instant))
            for target, action in read_rolled_back(content).items():
                yield target, action, content


def _describe_plan(
    table: Table, timeline: Timeline, target: InstantTime, *, pending: InstantTime | None = None
) -> ServicePlan:
    undone = _list_undone(table, timeline, target)
    files: list[FileInfo] = [
        file for instant in undone for file in find_files(table, instant.requested_at)
    ]
    items = tuple(
        PlanItem(instant.requested_at, "undo", detail=_describe_instant(instant))
        for instant in undone
    )
    items += tuple(PlanItem(file.path, "delete", file.size) for file in files)
    if pending is not None and not items:
        items = (PlanItem(pending, "complete"),)
    live = _live_writers(table, undone)
    warnings = [f"live writers are stopped and lose their work: {', '.join(live)}"] if live else []
    if plans := [instant.requested_at for instant in undone if instant.action.is_rewrite]:
        warnings.append(f"pending plans are discarded: {', '.join(plans)}")
    return ServicePlan(
        service=Restore.name,
        summary=f"take {len(undone)} instants back to {target}, deleting {len(files)} files",
        items=items,
        instant=pending,
        blockers=tuple(_find_blockers(table, timeline, target) if pending is None else ()),
        warnings=tuple(warnings),
        figures={
            "instants": len(undone),
            "files": len(files),
            "bytes": sum(file.size for file in files),
            "live_writers": len(live),
        },
    )


def _describe_instant(instant: Instant) -> str:
    return f"{instant.action} ({instant.state})"


def _live_writers(table: Table, undone: list[Instant]) -> list[str]:
    now_ms = table.ports.clock.now_ms()
    pending = {instant.requested_at for instant in undone if not instant.is_completed}
    return sorted(
        beat.writer or beat.instant
        for beat in read_heartbeats(table.storage)
        if beat.instant in pending and not beat.is_expired(now_ms)
    )


def _find_blockers(table: Table, timeline: Timeline, target: InstantTime) -> Iterator[str]:
    if table.write_refusal:
        yield table.write_refusal
    goal = timeline.find(target)
    if goal is None or goal.completed_at is None or not goal.action.writes_data:
        yield f"{target} is not a completed commit of the active timeline"
        return
    for instant in _list_undone(table, timeline, target):
        if reason := find_old_log_blocker(table, instant):
            yield reason
    completed_at = {
        write.requested_at: write.completed_at for write in timeline.list_completed_writes()
    }
    for savepoint in read_savepoints(table, timeline):
        if (completed_at.get(savepoint) or "") > goal.completed_at:
            yield f"the savepoint of {savepoint} is newer; delete it first"
    if lost := find_cleaned_files(table, timeline, goal.completed_at):
        named = ", ".join(lost[:_SHOWN_MAX])
        yield f"{len(lost)} files of that state were cleaned away: {named}"
