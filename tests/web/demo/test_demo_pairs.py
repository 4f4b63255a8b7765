"""Any two of the demo's buttons in any order: each shows what it promises, and leaves no alert.

The writers are carried out here, in this process: all of a button begin and write before the first
of them commits, which is what the demo's own wait for each other arranges.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.demo.actions import (
    do_start_demo_conflict,
    do_start_demo_early_conflict,
    do_start_demo_late_clicks,
    do_start_demo_schema_conflict,
)
from controlplane.demo.streams import DemoRun, start_streams
from controlplane.mirror.sync import sync_table
from controlplane.monitoring.events import event_checks
from controlplane.monitoring.thresholds import table_checks
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from workers import open_table
from workers.concurrency.outcome import Committed
from workers.demo.ad_requests import AdRequests
from workers.demo.late import REQUESTS
from workers.demo.rivals import backfill_rows, evolve_rows, next_experiment
from workers.errors import EarlyConflict
from workers.options.write_options import write_options
from workers.write.client import WriteClient, WriteRequest
from workers.write.handles import write_file_groups
from workers.write.prepare import prepare
from workers.write.read_set import build_read_set
from workers.write.status import TaskIds

BUTTONS: dict[str, Callable[[Table, User], tuple[Operation, Operation]]] = {
    "conflict": do_start_demo_conflict,
    "early": do_start_demo_early_conflict,
    "schema": do_start_demo_schema_conflict,
    "late": do_start_demo_late_clicks,
}
LOST_BY = {"conflict": "write", "early": "write", "schema": "schema"}
IN_THE_GATE = {("conflict", "schema"), ("schema", "early")}
PAIRS = [
    pytest.param(pair, id="-".join(pair), marks=() if pair in IN_THE_GATE else pytest.mark.slow)
    for pair in product(BUTTONS, repeat=2)
]


@pytest.fixture
def ads(root: Path, admin: User) -> Table:
    """The demo's table, whose streams have ended."""
    table = start_streams(admin, DemoRun(rounds=2)).table
    Operation.objects.update(state="succeeded", finished_at=timezone.now())
    return table


def build_rows(table: Table, operation: Operation) -> pa.Table:
    source = operation.parameters["job"]["source"]
    match source["kind"]:
        case "demo_backfill":
            return backfill_rows(source["seed"])
        case "demo_evolve":
            return evolve_rows(source["variant"], next_experiment(open_table(table.location).table))
        case _:
            requests = AdRequests(7, source["run"], rounds=1, requests_per_round=REQUESTS)
            return requests.events(source["stream"], 0)


def carry_out(table: Table, operations: tuple[Operation, Operation]) -> None:
    """What their drivers do: both begin, both write, then both commit."""
    begun = []
    for operation in operations:
        job = operation.parameters["job"]
        options = write_options({**job["options"], "sluice.operation.id": str(operation.pk)})
        batch, stored = build_rows(table, operation), open_table(table.location).table
        transaction = WriteClient(stored, options).begin(
            batch.schema, WriteRequest("upsert", job["stream"])
        )
        begun.append((operation, stored, batch, transaction))
    for operation, stored, batch, transaction in begun:
        context = transaction.context
        prepared = prepare(context, batch)
        try:
            transaction.declare_reads(build_read_set(context, prepared, (), stored.storage))
            written = write_file_groups(context, prepared, TaskIds(), stored.storage)
        except EarlyConflict:
            outcome = transaction.lose_early()
        else:
            outcome = transaction.commit(written)
        state = "succeeded" if isinstance(outcome, Committed) else "conflicted"
        operation.state, operation.finished_at = state, timezone.now()
        operation.instant = transaction.instant
        operation.save()


@pytest.mark.parametrize("pair", PAIRS)
def test_second_button_shows_what_it_promises_whatever_came_first(
    pair: tuple[str, str], ads: Table, admin: User, as_admin: Client
) -> None:
    for button in pair:
        carry_out(ads, BUTTONS[button](ads, admin))
        sync_table(ads)

    lost = list(Conflict.objects.filter(table=ads).order_by("decided_at"))
    assert [conflict.kind for conflict in lost] == [
        LOST_BY[button] for button in pair if button in LOST_BY
    ]
    page = as_admin.get("/t/ad-requests/conflicts").content.decode()
    assert all(f"/t/ad-requests/conflicts/{conflict.loser_instant}" in page for conflict in lost)
    now = timezone.now()
    checks = [*table_checks(ads, now), *event_checks(ads, now, {})]
    assert [check for check in checks if check.verdict in ("warn", "bad")] == []
