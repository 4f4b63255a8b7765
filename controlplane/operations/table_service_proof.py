"""Did the service do what its plan said? Asked of storage, not of the worker or the mirror."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controlplane.errors import ControlPlaneError
from controlplane.mirror.storage import engine_table
from controlplane.operations.models import Operation
from controlplane.operations.own_instants import OwnInstant, named_instant, own_instant
from controlplane.operations.table_service_effects import Effect, Item, gaps
from workers.clock import InstantTime
from workers.errors import LakehouseError
from workers.table.table import Table
from workers.timeline.instant import Action
from workers.timeline.savepoint_metadata import read_restore_targets
from workers.timeline.timeline import Timeline

ITEMS_CHECKED_MAX = 2000
LEFT_SHOWN_MAX = 20
_REPLACING = frozenset({Action.REPLACECOMMIT})
_ACTIONS = {
    "clean": frozenset({Action.CLEAN}),
    "clustering": _REPLACING,
    "compaction": frozenset({Action.COMMIT}),
    "delete": frozenset({Action.COMMIT, Action.DELTACOMMIT}),
    "delete_partition": _REPLACING,
    "insert_overwrite": _REPLACING,
    "insert_overwrite_table": _REPLACING,
}
"""Of what carries the operation's id. Others are known by what they hold, or leave no instant."""
_NO_INSTANT = frozenset(
    {
        "adopt",
        "archive",
        "delete_markers",
        "delete_savepoint",
        "repair",
        "rollback_several",
        "upgrade",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceProof:
    instant: InstantTime | None
    """The service's own, as storage shows it."""
    is_on_timeline: bool | None
    """Whether its instant is completed there; None for a service that leaves none, and for one that
    had nothing to do.
    """
    items_checked: int
    left_count: int | None
    """What is not as planned; None when storage did not answer."""
    left: tuple[str, ...]
    """The first of it, in sentences."""

    @property
    def is_proved(self) -> bool:
        return self.is_on_timeline is not False and self.left_count == 0


def service_proof(operation: Operation) -> ServiceProof:
    """One look at storage per planned file."""
    planned: list[dict[str, Any]] = list(operation.plan.get("items", []))[:ITEMS_CHECKED_MAX]
    try:
        table = engine_table(operation.table)
        timeline = table.timeline()
        own = _own(table, timeline, operation)
        if own is not None and _made_its_own_plan(operation):
            planned = []
        left = gaps(operation.service, _effect(table, timeline, operation, planned, own))
    except (LakehouseError, ControlPlaneError, OSError):
        return _unread(operation, len(planned))
    is_here = None if operation.service in _NO_INSTANT else own is not None
    if own is None and not planned and not operation.instant:
        is_here = None
    return ServiceProof(
        instant=own.instant.requested_at if own else None,
        is_on_timeline=is_here,
        items_checked=len(planned),
        left_count=len(left),
        left=tuple(left[:LEFT_SHOWN_MAX]),
    )


def _made_its_own_plan(operation: Operation) -> bool:
    """What is not bound to the plan that was shown plans anew when it runs: the table has moved on
    by then, and its own instant says what it did.
    """
    return operation.service in _ACTIONS and not operation.is_bound_to_plan


def _effect(
    table: Table,
    timeline: Timeline,
    operation: Operation,
    planned: list[dict[str, Any]],
    own: OwnInstant | None,
) -> Effect:
    items = [
        Item(str(one["what"]), str(one["effect"]), str(one.get("detail", ""))) for one in planned
    ]
    job = operation.parameters.get("job", {})
    return Effect(table, timeline, items, dict(job.get("parameters", {})), own)


def _own(table: Table, timeline: Timeline, operation: Operation) -> OwnInstant | None:
    match operation.service:
        case "savepoint":
            return named_instant(table, timeline, operation.instant, Action.SAVEPOINT)
        case "restore":
            return _restore(table, timeline, operation)
        case service if service in _ACTIONS:
            own = own_instant(table, timeline, operation, _ACTIONS[service])
            planned = str(operation.plan.get("instant") or "")
            if own is not None or not planned:
                return own
            # The pending plan that it was to carry out, which somebody else did meanwhile.
            [action] = _ACTIONS[service]
            return named_instant(table, timeline, planned, action)
        case _:
            return None


def _restore(table: Table, timeline: Timeline, operation: Operation) -> OwnInstant | None:
    """The newest one that names everything which the plan was to take back."""
    items = operation.plan.get("items", [])
    undone = {str(one["what"]) for one in items if one["effect"] == "undo"}
    named = operation.instant or str(operation.plan.get("instant") or "")
    if not undone:
        return named_instant(table, timeline, named, Action.RESTORE)
    for instant in reversed(list(timeline.iterate_completed())):
        if instant.action is Action.RESTORE:
            content = table.storage.read(table.layout.path(instant))
            if undone <= set(read_restore_targets(content)):
                return OwnInstant(instant, content)
    return named_instant(table, timeline, named, Action.RESTORE)


def _unread(operation: Operation, items: int) -> ServiceProof:
    return ServiceProof(
        instant=operation.instant or None,
        is_on_timeline=None,
        items_checked=items,
        left_count=None,
        left=(),
    )
