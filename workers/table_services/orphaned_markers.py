"""Delete orphaned markers: marker directories of instants that are no longer pending.

A writer deletes its markers after its commit, a rollback those of a dead writer. A crash in between
leaves them, and every listing of pending markers reads them again. The next writer deletes them as
well. This service does so on a table that no process writes.
"""

from __future__ import annotations

from collections.abc import Mapping

from workers.clock import InstantTime, parse_instant
from workers.errors import InvalidInput
from workers.markers.marker import markers_directory
from workers.markers.store import delete_markers, read_names
from workers.options.write_options import WriteOptions
from workers.recovery.failed_writes import find_orphaned_markers
from workers.table.table import Table
from workers.table_services.confirmed_plans import check_or_resume, delete_plans, store_plan
from workers.table_services.orphan_files import format_age
from workers.table_services.service import (
    PlanItem,
    Progress,
    ServiceOutcome,
    ServicePlan,
    ServiceRequest,
)


class DeleteMarkers:
    """The service `delete_markers`."""

    name = "delete_markers"

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """Plan the deletion; parameters are refused."""
        _check_parameters(parameters)
        return _plan(table, find_orphaned_markers(table))

    def run(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        on_progress: Progress | None = None,
    ) -> ServiceOutcome:
        """Holds no lock: an instant that is over does not become pending again. See Service."""
        _check_parameters(request.parameters)
        table.check_writable()
        instants = find_orphaned_markers(table)
        plan = _plan(table, instants)
        check_or_resume(table.storage, plan, request)
        if not plan.is_empty:
            store_plan(table.storage, plan, request)
        for done, instant in enumerate(instants):
            if on_progress is not None:
                on_progress(done, len(instants))
            delete_markers(table.storage, instant)
        delete_plans(table.storage)
        if on_progress is not None:
            on_progress(len(instants), len(instants))
        summary = f"deleted the markers of {len(instants)} instants"
        return ServiceOutcome(self.name, None, summary, plan.figures)


def _plan(table: Table, instants: tuple[InstantTime, ...]) -> ServicePlan:
    items = tuple(_item(table, instant) for instant in instants)
    figures = {"instants": len(items), "bytes": sum(item.bytes for item in items)}
    summary = f"delete the markers of {len(items)} instants" if items else "no orphaned markers"
    refusal = table.write_refusal if items else ""
    blockers = (refusal,) if refusal else ()
    return ServicePlan(DeleteMarkers.name, summary, items=items, blockers=blockers, figures=figures)


def _item(table: Table, instant: InstantTime) -> PlanItem:
    storage, directory = table.storage, markers_directory(instant)
    count = len(read_names(storage, instant).all())
    age_ms = table.ports.clock.now_ms() - parse_instant(instant)
    return PlanItem(
        directory,
        "delete",
        sum(info.size for info in storage.list_tree(directory)),
        f"{count} markers of an instant that is not pending, {format_age(age_ms)}",
    )


def _check_parameters(parameters: Mapping[str, str]) -> None:
    for key in parameters:
        raise InvalidInput("deleting orphaned markers takes no parameters", key=key)
