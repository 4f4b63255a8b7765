"""The end of the demo, and its beginning anew: for the command and for the page's button."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.contrib.auth.models import User

from controlplane.demo.prices import delete_prices
from controlplane.demo.sink import NoKafka, delete_orders, start_orders
from controlplane.demo.streams import DemoRun, StartedStreams, start_streams, table_location
from controlplane.demo.upkeep import CANCEL_WAIT_S, POLL_S, delete_files, keep_small
from controlplane.errors import NotAllowedNow
from controlplane.operations.actions import do_request_cancel
from controlplane.operations.kinds import write
from controlplane.operations.models import Operation
from controlplane.operations.states import OPEN, OperationState
from controlplane.tables.models import Table as TableRow
from workers.clock import Clock

Report = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedDemo:
    """What a start of the demo started."""

    streams: StartedStreams
    bootstrap: str
    """Where its Kafka broker listens; empty without one."""
    problem: str
    """Why it has no Kafka sink; empty with one."""


def start_all(by: User, wanted: DemoRun, clock: Clock, report: Report) -> StartedDemo:
    """Start streams, their upkeep, and orders where there is a Kafka. Safe to run again.
    `report` gets a line before a download that may take minutes.

    Raises ControlPlaneError, LakehouseError.
    """
    started = start_streams(by, wanted)
    keep_small(started.table, by)
    try:
        bootstrap = start_orders(by, clock, report)
    except NoKafka as error:
        return StartedDemo(streams=started, bootstrap="", problem=str(error))
    return StartedDemo(streams=started, bootstrap=bootstrap, problem="")


def delete_all(by: User, clock: Clock) -> None:
    """End every writer of the demo, and delete its three tables with their files.

    Raises ControlPlaneError, NotAllowedNow when a writer does not end, NoKafka when the sink stays,
    StorageFailed.
    """
    delete_orders(clock)
    delete_prices()
    row = TableRow.objects.filter(location=table_location()).first()
    if row is not None:
        _cancel_all(row, by, clock)
        row.delete()
    delete_files(table_location())


def _cancel_all(row: TableRow, by: User, clock: Clock) -> None:
    still_open = Operation.objects.filter(table=row, state__in=sorted(OPEN))
    for operation in still_open.filter(kind=write.KIND.name):
        if operation.state != OperationState.CANCELLING.value:
            do_request_cancel(operation=operation, by=by, reason="the demo is reset")
    deadline_s = clock.monotonic_s() + CANCEL_WAIT_S
    while still_open.exists():
        if clock.monotonic_s() > deadline_s:
            raise NotAllowedNow(
                "the demo's writers did not stop; check that the node runs", table=row.slug
            )
        clock.sleep(POLL_S)
