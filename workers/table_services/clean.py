"""Cleaning: delete the files that no retained snapshot, savepoint, pending plan or reader needs.

Order: plan durable in the requested file -> inflight -> delete -> completed (bug G4). Deleting a
file that does not exist is a success (bug B12), so the next process after a crash carries the same
plan out to its end. A pending plan always comes before a new one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.errors import InstantRolledBack, ServiceBusy
from workers.options.service_keys import INSTANT
from workers.options.write_options import WriteOptions
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.storage.base import FileInfo
from workers.table.savepoints import list_savepoint_files
from workers.table.table import Table
from workers.table_services.clean_policy import (
    CleanableFile,
    CleanSettings,
    RetentionBound,
    find_cleanable_files,
    find_retention_bound,
    parse_clean_settings,
)
from workers.table_services.execution import claim_plan, resume_pending_plans, schedule
from workers.table_services.service import (
    PlanItem,
    Progress,
    ServiceOutcome,
    ServicePlan,
    ServiceRequest,
)
from workers.timeline.clean_metadata import CleanPlanFile, encode_clean_metadata, read_clean_plan
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import OPERATION_KEY
from workers.timeline.pending_plans import pending_plan_files, plan_content
from workers.timeline.timeline import Timeline

_CONFIRM_EVERY = 50


class Clean:
    """The service `clean`."""

    name = "clean"

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """Return what a clean would delete; a pending clean's own plan when there is one."""
        settings = parse_clean_settings(parameters)
        timeline = table.timeline()
        for instant in list_pending_cleans(timeline):
            stored = read_clean_plan(plan_content(table.storage, instant))
            if stored is not None:
                return _pending_plan(table, instant, stored.paths)
        return _describe_plan(table, _build_proposal(table, timeline, settings))

    def run(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        on_progress: Progress | None = None,
    ) -> ServiceOutcome:
        """Carry pending cleans out; then, unless one of them was what the caller confirmed or
        named, plan a new one and carry it out. Raises ServiceBusy, and as `Service.run`.
        """
        settings = parse_clean_settings(request.parameters)
        table.check_writable()
        if request.expected_plan_hash is not None:
            self.plan(table, request.parameters).check(request)
        finished = finish_pending_cleans(table, options, on_progress)
        if finished and request.expected_plan_hash is not None:
            return finished[-1]  # The plan that was confirmed was that of the pending clean.
        if request.parameters.get(INSTANT):
            return finished[-1] if finished else ServiceOutcome(self.name, None, "nothing pending")
        roll_back_dead_writers(table, options)

        def make_plan(timeline: Timeline, _: InstantTime) -> bytes | None:
            proposal = _build_proposal(table, timeline, settings)
            plan = _describe_plan(table, proposal)
            plan.check(request)
            return None if plan.is_empty else _encode_plan(table, timeline, proposal, settings)

        planned = schedule(table, options, Action.CLEAN, make_plan)
        if planned is None:
            return finished[-1] if finished else ServiceOutcome(self.name, None, "nothing to clean")
        return _carry_out(table, options, planned, on_progress)


def list_pending_cleans(timeline: Timeline) -> list[Instant]:
    """Return the pending cleans, oldest first."""
    return [instant for instant in timeline.pending() if instant.action is Action.CLEAN]


def finish_pending_cleans(
    table: Table, options: WriteOptions, on_progress: Progress | None = None
) -> list[ServiceOutcome]:
    """Carry every pending clean out.

    Raises ServiceBusy when another process is on it, LockTimeout.
    """
    outcomes = []
    for instant, _ in resume_pending_plans(table, options, Action.CLEAN, read_clean_plan):
        # A fenced one is pending again by then, under another instant.
        with suppress(InstantRolledBack):
            outcomes.append(_carry_out(table, options, instant, on_progress))
    return outcomes


def _carry_out(
    table: Table, options: WriteOptions, planned: Instant, on_progress: Progress | None
) -> ServiceOutcome:
    requested_at, started_ms = planned.requested_at, table.ports.clock.now_ms()
    with claim_plan(table, options, requested_at, Action.CLEAN, service=Clean.name) as claim:
        plan = read_clean_plan(claim.plan)
        if plan is None:
            raise ServiceBusy("another process discarded the plan", instant=requested_at)
        step = table.storage.deletes_at_once
        for start in range(0, len(plan.paths), step):
            if step > 1 or start % _CONFIRM_EVERY == 0:
                claim.confirm()
            some = plan.paths[start : start + step]
            table.storage.delete_many(some)
            if on_progress is not None:
                on_progress(start + len(some), len(plan.paths))
        extra = {OPERATION_KEY: options.operation_id} if options.operation_id else {}

        def content(_: Timeline) -> bytes:
            took_ms = max(0, table.ports.clock.now_ms() - started_ms)
            return encode_clean_metadata(
                plan, started_at=requested_at, took_ms=took_ms, extra=extra
            )

        claim.finish(content)
    files = len(plan.paths)
    summary = f"deleted {files} files"
    return ServiceOutcome(Clean.name, requested_at, summary, {"files": files}, claim.warnings)


@dataclass(frozen=True, slots=True)
class _Proposal:
    bound: RetentionBound
    doomed: tuple[CleanableFile, ...]
    held: tuple[CleanableFile, ...]
    """No snapshot needs them, but a savepoint or a pending plan does (bugs G2, G5)."""


def _build_proposal(table: Table, timeline: Timeline, settings: CleanSettings) -> _Proposal:
    bound = find_retention_bound(table, timeline, settings)
    held = set(list_savepoint_files(table, timeline))
    for files in pending_plan_files(table.storage, timeline).values():
        held |= files
    unneeded = list(find_cleanable_files(table, timeline, settings, bound))
    return _Proposal(
        bound,
        tuple(entry for entry in unneeded if entry.file.path not in held),
        tuple(entry for entry in unneeded if entry.file.path in held),
    )


def _describe_plan(table: Table, proposal: _Proposal) -> ServicePlan:
    doomed, bound = proposal.doomed, proposal.bound
    items = tuple(
        PlanItem(entry.file.path, "delete", entry.file.size, entry.why) for entry in doomed
    )
    partitions = {entry.partition for entry in doomed}
    summary = f"delete {len(items)} files in {len(partitions)} partitions"
    warnings = []
    if proposal.held:
        held_count = len(proposal.held)
        warnings.append(f"{held_count} old files stay: savepoints or pending plans need them")
    if bound.earliest is not None and items:
        since = bound.earliest.requested_at
        warnings.append(f"snapshots from before commit {since} cannot be read any more")
    return ServicePlan(
        service=Clean.name,
        summary=summary if items else "nothing to clean",
        items=items,
        blockers=(table.write_refusal,) if table.write_refusal else (),
        warnings=tuple(warnings),
        figures={
            "files": len(items),
            "bytes": sum(item.bytes for item in items),
            "partitions": len(partitions),
            "held_files": len(proposal.held),
        },
    )


def _pending_plan(table: Table, instant: Instant, paths: list[str]) -> ServicePlan:
    files_left: list[FileInfo] = [info for path in paths if (info := table.storage.info(path))]
    items = tuple(PlanItem(file.path, "delete", file.size) for file in files_left)
    return ServicePlan(
        service=Clean.name,
        summary=f"finish the clean of {instant.requested_at}: {len(items)} files are left",
        items=items or (PlanItem(instant.requested_at, "complete"),),
        instant=instant.requested_at,
        blockers=(table.write_refusal,) if table.write_refusal else (),
        figures={"files": len(items), "bytes": sum(item.bytes for item in items)},
    )


def _encode_plan(
    table: Table, timeline: Timeline, proposal: _Proposal, settings: CleanSettings
) -> bytes:
    by_partition: dict[str, list[str]] = defaultdict(list)
    for unneeded in proposal.doomed:
        by_partition[unneeded.partition].append(unneeded.file.path)
    writes = timeline.list_completed_writes()
    plan = CleanPlanFile(
        policy=settings.policy.value,
        paths_by_partition={key: tuple(paths) for key, paths in by_partition.items()},
        earliest_to_retain=proposal.bound.earliest,
        last_completed=writes[-1].requested_at if writes else "",
    )
    return plan.encode(table.storage.location)
