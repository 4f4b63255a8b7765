"""Repair: delete what no reader or writer needs. Files of writes that were cut off, data files of
instants that will never count, pending files of archived instants, a stale lock file of Apache
Hudi. Restore missing partition metadata, without which other engines do not read a partition.

Every item is shown with its evidence first (`orphan_files.py`). No committed file is ever deleted.
A confirmed plan is durable before its first effect, so a rerun after a crash continues with the
rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workers.errors import InvalidInput, PlanChanged
from workers.files.names import parse_name_instant
from workers.files.partition import ensure_partition, metadata_path
from workers.options.write_options import WriteOptions
from workers.storage.base import Storage, get_size
from workers.storage.lock_file import LockFile
from workers.storage.temp_files import find_stale_temp_files
from workers.table.table import Table
from workers.table_services.confirmed_plans import check_or_resume, delete_plans, store_plan
from workers.table_services.orphan_files import (
    OrphanFiles,
    find_orphan_files,
    find_stale_lock_file,
    find_stale_plans,
    format_age,
    get_lock_path,
)
from workers.table_services.service import (
    PlanItem,
    Progress,
    ServiceOutcome,
    ServicePlan,
    ServiceRequest,
)
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision

UNLOCK = "unlock"
"""The effect on a lock file, which may be outside of the table and be created again at any time."""
_CUT_OFF = "left by a write that did not end"
_DELETE = "delete"
_LAY = "lay"
_UNMARKED = "partition metadata is missing, so other engines do not read the partition"
_REASON = "repair found files of it, and it was neither on the timeline nor in its history"


class Repair:
    """The service `repair`."""

    name = "repair"

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """Plan a repair. It takes no parameters."""
        _check_parameters(parameters)
        return _build_proposal(table).plan

    def run(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        on_progress: Progress | None = None,
    ) -> ServiceOutcome:
        """Run as `Service.run`, without the table lock: that may be what a writer left behind."""
        _check_parameters(request.parameters)
        table.check_writable()
        proposal = _build_proposal(table)
        plan = proposal.plan
        check_or_resume(table.storage, plan, request)
        total = len(plan.items)
        if on_progress is not None:
            on_progress(0, total)
        if not plan.is_empty:
            store_plan(table.storage, plan, request)
        _fence(table, proposal.strangers, request.by)
        table.storage.delete_many([item.what for item in plan.items if item.effect == _DELETE])
        for partition in sorted(proposal.strangers.unmarked):
            _restore(table.storage, partition)
        if any(item.effect == UNLOCK for item in plan.items):
            _unlock(table)
        delete_plans(table.storage)
        if on_progress is not None:
            on_progress(total, total)
        deleted = total - len(proposal.strangers.unmarked)
        done = f"deleted {deleted} files"
        if deleted < total:
            done += f", restored the metadata of {total - deleted} partitions"
        return ServiceOutcome(self.name, None, done, plan.figures)


@dataclass(frozen=True, slots=True)
class _Proposal:
    plan: ServicePlan
    strangers: OrphanFiles


def _build_proposal(table: Table) -> _Proposal:
    strange_files = find_orphan_files(table)
    now_ms = table.ports.clock.now_ms()
    items = [
        PlanItem(
            file.path, _DELETE, file.size, f"{_CUT_OFF}, {format_age(now_ms - file.modified_ms)}"
        )
        for file in find_stale_temp_files(table.storage, now_ms)
    ]
    items += [
        PlanItem(path, _DELETE, get_size(table.storage, path), why)
        for path, why in sorted({**strange_files.evidence, **find_stale_plans(table)}.items())
    ]
    locks, warnings = _lock_items(table, now_ms)
    items += locks
    summary = (
        f"delete {len(items)} files that no process needs" if items else "nothing is left behind"
    )
    if unmarked := sorted(strange_files.unmarked):
        summary += f"; restore the metadata of {len(unmarked)} partitions"
        items += [PlanItem(metadata_path(partition), _LAY, 0, _UNMARKED) for partition in unmarked]
    plan = ServicePlan(
        Repair.name,
        summary,
        items=tuple(items),
        blockers=(table.write_refusal,) if items and table.write_refusal else (),
        warnings=(*strange_files.warnings, *warnings),
        figures={"files": len(items), "bytes": sum(item.bytes for item in items)},
    )
    return _Proposal(plan, strange_files)


def _lock_items(table: Table, now_ms: int) -> tuple[list[PlanItem], list[str]]:
    lock = find_stale_lock_file(table)
    if lock is None:
        return [], []
    file, held_by = lock
    path = str(get_lock_path(table))
    if held_by is not None:
        return [], [f"{path} stays: {held_by}"]
    why = f"lock of Apache Hudi, {format_age(now_ms - file.modified_ms)}, and no writer lives"
    return [PlanItem(path, UNLOCK, len(file.content), why)], []


def _fence(table: Table, strange_files: OrphanFiles, by: str) -> None:
    """Decide that these instants are rolled back, so that a stalled writer of one publishes
    nothing. Raises PlanChanged.
    """
    for instant in sorted(strange_files.undecided):
        decision = RollbackDecision(by=by, nonce=table.ports.ids.token(), reason=_REASON)
        if not decisions.decide(table.storage, instant, decision):
            former_decision = decisions.read(table.storage, instant)
            if not isinstance(former_decision, RollbackDecision):
                raise PlanChanged("an instant of the plan was decided since", instant=instant)


def _restore(storage: Storage, partition: str) -> None:
    """Write the metadata as the writer of the partition's first file would have."""
    instants = filter(None, map(parse_name_instant, storage.list_names(partition)))
    ensure_partition(storage, partition, min(instants))


def _unlock(table: Table) -> None:
    """Check the lock file again before deleting it: a process that changed or created it may hold
    it.
    """
    lock = find_stale_lock_file(table)
    if lock is not None and lock[1] is None:
        LockFile(get_lock_path(table)).remove(lock[0])


def _check_parameters(parameters: Mapping[str, str]) -> None:
    for key in parameters:
        raise InvalidInput("a repair takes no parameters", key=key)
