"""Savepoints: hold the files of a completed commit until the savepoint is deleted.

They are created and deleted under the table lock, where the cleaner plans too, so the listed files
exist. Order: inflight file -> confirm the lease -> completed file. A process that lost its lease in
between deletes the savepoint, because a clean may have been planned without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from workers.clock import InstantTime, next_instant
from workers.concurrency.lock_takeover import load_published_timeline, table_lock
from workers.concurrency.transaction import reject_during_restore
from workers.errors import InvalidInput, LeaseLost
from workers.options.write_options import WriteOptions
from workers.table.cleaned_files import find_cleaned_files
from workers.table.savepoints import read_savepoints
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.table_services.service import (
    PlanItem,
    Progress,
    ServiceOutcome,
    ServicePlan,
    ServiceRequest,
)
from workers.timeline import decisions, transitions
from workers.timeline.instant import Action, Instant
from workers.timeline.savepoint_metadata import SavepointMetadata
from workers.timeline.timeline import Timeline

INSTANT_KEY = "instant"
COMMENT_KEY = "comment"
_COMMENT_CHARS_MAX = 500
_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class _Proposal:
    commit: Instant | None
    files_by_partition: Mapping[str, tuple[str, ...]]
    plan: ServicePlan


class Savepoint:
    """The service `savepoint`."""

    name = "savepoint"

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """Parameters: `instant` (the newest commit by default), `comment`."""
        return _build_proposal(table, table.timeline(), _check_parameters(parameters)).plan

    def run(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        on_progress: Progress | None = None,
    ) -> ServiceOutcome:
        """Run as `Service.run`, at once and under the table lock. Raises ServiceBusy during a
        restore, LeaseLost with the savepoint deleted.
        """
        parameters = _check_parameters(request.parameters)
        with table_lock(table, options).hold() as lease:
            table.check_writable()
            timeline = load_published_timeline(table)
            reject_during_restore(timeline)
            proposal = _build_proposal(table, timeline, parameters)
            proposal.plan.check(request)
            assert proposal.commit is not None, "a plan without a commit has a blocker"
            metadata = SavepointMetadata(
                by=request.by,
                at_ms=table.ports.clock.now_ms(),
                comment=parameters.get(COMMENT_KEY, "") or request.reason,
                names_by_partition=proposal.files_by_partition,
            )
            completed_at = next_instant(table.ports.clock, timeline.last_time)
            requested_at = proposal.commit.requested_at
            lease.confirm()
            done = transitions.put_savepoint(
                table.storage, requested_at, completed_at, metadata.encode()
            )
            try:
                lease.confirm()
            except LeaseLost:
                transitions.delete_savepoint(table.storage, done)
                raise
        files = len(metadata.paths)
        summary = f"savepoint of {requested_at} holds {files} files"
        return ServiceOutcome(self.name, requested_at, summary, {"files": files})


class DeleteSavepoint:
    """The service `delete_savepoint`."""

    name = "delete_savepoint"

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """Parameter: `instant`, that of the savepoint."""
        return _deletion(table, table.timeline(), _check_parameters(parameters))

    def run(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        on_progress: Progress | None = None,
    ) -> ServiceOutcome:
        """Run as `Service.run`, at once and under the table lock. Raises LeaseLost with nothing
        deleted.
        """
        parameters = _check_parameters(request.parameters)
        with table_lock(table, options).hold() as lease:
            table.check_writable()
            timeline = load_published_timeline(table)
            plan = _deletion(table, timeline, parameters)
            plan.check(request)
            lease.confirm()
            for instant in _find_savepoints(timeline, parameters.get(INSTANT_KEY, "")):
                transitions.delete_savepoint(table.storage, instant)
        return ServiceOutcome(self.name, plan.instant, f"deleted the savepoint of {plan.instant}")


def _check_parameters(parameters: Mapping[str, str]) -> Mapping[str, str]:
    valid_keys = (INSTANT_KEY, COMMENT_KEY)
    for key, value in parameters.items():
        if key not in valid_keys:
            raise InvalidInput("unknown parameter", key=key, known=valid_keys)
        if len(value) > _COMMENT_CHARS_MAX:
            raise InvalidInput("parameter is too long", key=key, chars_max=_COMMENT_CHARS_MAX)
    return parameters


def _build_proposal(table: Table, timeline: Timeline, parameters: Mapping[str, str]) -> _Proposal:
    writes = timeline.list_completed_writes()
    requested_at = parameters.get(INSTANT_KEY) or (writes[-1].requested_at if writes else "")
    commit = next((write for write in writes if write.requested_at == requested_at), None)
    if commit is None or commit.completed_at is None:
        return _Proposal(
            None,
            {},
            _build_refused_plan(
                requested_at, "only a completed commit of the active timeline is saved"
            ),
        )
    if decisions.is_undone(table.storage, requested_at):
        return _Proposal(
            commit, {}, _build_refused_plan(requested_at, "this commit is being rolled back")
        )
    if _find_savepoints(timeline, requested_at):
        refused = _build_refused_plan(requested_at, "this commit has a savepoint already")
        return _Proposal(commit, {}, replace(refused, is_done=True))
    view = FileSystemView.load(table, timeline=timeline, as_of=commit.completed_at)
    files = [(slice_.partition, path) for slice_ in view.slices for path in slice_.files]
    sizes = {path: info.size for _, path in files if (info := table.storage.info(path))}
    blockers = [table.write_refusal] if table.write_refusal else []
    lost = find_cleaned_files(table, timeline, commit.completed_at)
    lost += [path for _, path in files if path not in sizes]
    if lost:
        first_lost = ", ".join(lost[:_SHOWN_MAX])
        blockers.append(f"{len(lost)} of its files are cleaned away already: {first_lost}")
    by_partition: dict[str, list[str]] = {}
    for partition, path in files:
        by_partition.setdefault(partition, []).append(path.rpartition("/")[2])
    plan = ServicePlan(
        service=Savepoint.name,
        summary=f"hold {len(files)} files of commit {requested_at}",
        items=(
            PlanItem(requested_at, "keep", detail="the savepointed commit"),
            *(PlanItem(path, "keep", sizes.get(path, 0)) for _, path in files),
        ),
        instant=requested_at,
        blockers=tuple(blockers),
        warnings=("archiving stops before this commit until the savepoint is deleted",),
        figures={"files": len(files), "bytes": sum(sizes.values())},
    )
    return _Proposal(commit, {key: tuple(names) for key, names in by_partition.items()}, plan)


def _build_refused_plan(instant: InstantTime, why: str) -> ServicePlan:
    return ServicePlan(Savepoint.name, f"no savepoint of {instant or 'an empty table'}",
                       instant=instant or None, blockers=(why,))  # fmt: skip


def _find_savepoints(timeline: Timeline, requested_at: InstantTime) -> list[Instant]:
    return [
        instant
        for instant in timeline.iterate_completed()
        if instant.action is Action.SAVEPOINT and instant.requested_at == requested_at
    ]


def _deletion(table: Table, timeline: Timeline, parameters: Mapping[str, str]) -> ServicePlan:
    requested_at = parameters.get(INSTANT_KEY, "")
    savepoint = read_savepoints(table, timeline).get(requested_at)
    blockers = [table.write_refusal] if table.write_refusal else []
    if savepoint is None:
        blockers.append("there is no savepoint of this instant")
    items = (
        (PlanItem(requested_at, "delete", detail="the savepoint; no data file"),)
        if savepoint
        else ()
    )
    return ServicePlan(
        service=DeleteSavepoint.name,
        summary=f"delete the savepoint of {requested_at}",
        items=items,
        instant=requested_at or None,
        blockers=tuple(blockers),
        warnings=("the next clean may delete what it held",) if savepoint else (),
        figures={"files": len(savepoint.paths) if savepoint else 0},
        is_done=savepoint is None,
    )
