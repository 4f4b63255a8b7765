"""What may go of what nobody misses: files of writes that were cut off, data files of instants that
were rolled back, a lock file of Apache Hudi that nobody can be holding any more.

Everything is shown with its evidence before it goes. Where there is none a warning says what a
person has to find out. No committed file is ever touched.
"""

from __future__ import annotations

from pathlib import Path

from workers.concurrency.heartbeat import read_heartbeats
from workers.concurrency.locks.binding import Binding, read_binding
from workers.concurrency.locks.hudi_file import FILE_NAME, file_holder
from workers.lock_config import LockProvider
from workers.services.service import PlanItem, ServiceOutcome, ServicePlan, ServiceRequest
from workers.storage.leftovers import leftovers
from workers.storage.lock_file import FoundFile, LockFile
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision

NAME = "repair"
LOCK_KEPT_MS = 3_600_000
"""A commit takes seconds; Hudi does not make its file young while it holds the lock."""
_CUT_OFF = "left by a write that did not end"
_DELETE = "delete"
_MINUTE_MS = 60_000


def plan_repair(table: Table) -> ServicePlan:
    """Changes nothing."""
    now_ms = table.ports.clock.now_ms()
    items = [
        PlanItem(file.path, _DELETE, file.size, f"{_CUT_OFF}, {_age(now_ms - file.modified_ms)}")
        for file in leftovers(table.storage, now_ms)
    ]
    orphans, warnings = _orphans(table)
    items += orphans
    lock = _left_lock(table, now_ms)
    if lock is not None and lock[1] is None:
        why = f"lock of Apache Hudi, {_age(now_ms - lock[0].modified_ms)}, and no writer lives"
        items.append(PlanItem(str(_lock_path(table)), _DELETE, len(lock[0].content), why))
    elif lock is not None:
        warnings.append(f"{_lock_path(table)} stays: {lock[1]}")
    count = len(items)
    return ServicePlan(
        NAME,
        f"delete {count} files that nobody misses" if items else "nothing is left behind",
        items=tuple(items),
        warnings=tuple(warnings),
        figures={"files": count, "bytes": sum(item.bytes for item in items)},
    )


def repair(table: Table, request: ServiceRequest) -> ServiceOutcome:
    """Carry out what the plan says now. Raises PlanChanged, ServiceRefused."""
    table.check_writable()
    plan = plan_repair(table)
    plan.check(request)
    lock_path = str(_lock_path(table))
    for item in plan.items:
        if item.what != lock_path:
            table.storage.delete(item.what)
        elif (lock := _left_lock(table, table.ports.clock.now_ms())) and lock[1] is None:
            LockFile(_lock_path(table)).remove(lock[0])
    return ServiceOutcome(NAME, None, f"deleted {len(plan.items)} files", plan.figures)


def _orphans(table: Table) -> tuple[list[PlanItem], list[str]]:
    """Data files that no commit counts, and what is not known of some."""
    view = FileSystemView.load(table)
    pending = {instant.requested_at for instant in view.timeline.pending()}
    items, unknown = [], []
    for instant, path in view.uncommitted:
        if instant in pending:
            continue
        decision = decisions.read(table.storage, instant)
        info = table.storage.info(path)
        if isinstance(decision, RollbackDecision) or decisions.is_undone(table.storage, instant):
            why = f"{instant} was rolled back"
            items.append(PlanItem(path, _DELETE, info.size if info else 0, why))
        else:
            unknown.append(f"{path} is of {instant}, which nobody completed or rolled back")
    return items, unknown


def _lock_path(table: Table) -> Path:
    binding = read_binding(table.storage) or Binding()
    if binding.provider != LockProvider.FILESYSTEM:
        return Path(table.storage.location, ".hoodie", FILE_NAME)
    return Path(binding.directory, FILE_NAME)


def _left_lock(table: Table, now_ms: int) -> tuple[FoundFile, str | None] | None:
    """Hudi's lock file, and why it may still be held; None where there is none."""
    found = file_holder(_lock_path(table).parent)
    if found is None:
        return None
    age_ms = now_ms - found.modified_ms
    if age_ms < LOCK_KEPT_MS:
        return found, f"it is {_age(age_ms)}, and a writer of Apache Hudi may hold it"
    alive = [one.instant for one in read_heartbeats(table.storage) if not one.is_expired(now_ms)]
    if alive:
        return found, f"writers live, of {', '.join(sorted(alive))}"
    return found, None


def _age(age_ms: int) -> str:
    return f"{age_ms // _MINUTE_MS} minutes old"
