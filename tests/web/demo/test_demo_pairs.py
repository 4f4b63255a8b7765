"""Any two of the demo's buttons in any order: each shows what it promises, and leaves no alert
but that of the rollback that a kill causes.

Writers run here, in this process: all of a button begin and write before the first of them commits,
as the demo's own wait for each other arranges. The processes that two buttons kill are real ones.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.demo import sink
from controlplane.demo.actions import (
    NON_BLOCKING,
    do_start_demo_conflict,
    do_start_demo_early_conflict,
    do_start_demo_late_clicks,
    do_start_demo_schema_conflict,
    kill_in_the_middle,
)
from controlplane.demo.participants import do_kill_demo_participant
from controlplane.demo.story import Progress, story
from controlplane.demo.streams import DemoRun, do_kill_stream, start_streams
from controlplane.mirror.sink_models import SinkParticipant, SinkRecord
from controlplane.mirror.sync import sync_table
from controlplane.monitoring.events import build_event_checks
from controlplane.monitoring.thresholds import check_table_health
from controlplane.operations.models import Operation
from controlplane.operations.run_dirs import run_dir
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from tests.controlplane.drivers import driver, run_dead
from tests.support.clocks import MortalProcess, MortalScheduler
from workers import open_table
from workers.clock import SystemClock
from workers.concurrency.heartbeat import heartbeat_path
from workers.concurrency.outcome import Committed
from workers.demo.ad_requests import AdRequests
from workers.demo.late import REQUESTS
from workers.demo.rivals import backfill_rows, evolve_rows, next_experiment
from workers.errors import EarlyConflict
from workers.options.write_options import write_options
from workers.ports import Ports, RandomIds
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.spark.process import JOB_FILE
from workers.write.client import Transaction, WriteClient, WriteRequest
from workers.write.handles import write_file_groups
from workers.write.prepare import prepare
from workers.write.read_set import build_read_set
from workers.write.status import TaskIds

__all__ = ["driver"]

PAIRED: dict[str, Callable[[Table, User], tuple[Operation, Operation]]] = {
    "conflict": do_start_demo_conflict,
    "early": do_start_demo_early_conflict,
    "schema": do_start_demo_schema_conflict,
    "late": do_start_demo_late_clicks,
}
BUTTONS = (*PAIRED, "kill", "participant")
LOST_BY = {"conflict": "write", "early": "write", "schema": "schema"}
IN_THE_GATE = {("conflict", "schema"), ("schema", "early")}
PAIRS = [
    pytest.param(pair, id="-".join(pair), marks=() if pair in IN_THE_GATE else pytest.mark.slow)
    for pair in product(BUTTONS, repeat=2)
]
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
print(child.wait(), flush=True)
"""


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


@dataclass
class Kills:
    """Presses the two buttons that kill, and does what follows on a node."""

    ads: Table
    admin: User
    driver: Callable[[Operation], int]
    starter: Callable[[str], subprocess.Popen[str]]
    killed: list[str] = field(default_factory=list)

    def press(self, button: str) -> None:
        if button == "kill":
            self.kill_stream()
        else:
            self.kill_participant()

    def kill_stream(self) -> None:
        """A stream's writer dies with files written; the next one rolls its instant back."""
        do_kill_stream(self.admin)
        request = Operation.objects.filter(state="queued").order_by("requested_at").first()
        assert request is not None
        self.driver(request)
        ports = Ports(SystemClock(), RandomIds(), MortalScheduler(), MortalProcess())
        transaction = write_files(self.ads, request, ports)
        assert kill_in_the_middle(self.ads, by=self.admin.get_username()) == request
        assert isinstance(ports.scheduler, MortalScheduler)
        assert isinstance(ports.processes, MortalProcess)
        ports.scheduler.stop_all()
        ports.processes.ends()
        os.utime(Path(self.ads.location) / heartbeat_path(transaction.instant), (0, 0))
        Operation.objects.filter(state__in=("queued", "running")).update(
            state="succeeded", finished_at=timezone.now()
        )
        roll_back_dead_writers(open_table(self.ads.location).table, write_options(NON_BLOCKING))
        sync_table(self.ads)
        assert progress(self.admin, "kill").subject == transaction.instant
        self.killed.append(transaction.instant)

    def kill_participant(self) -> None:
        """The transaction that was open is aborted, and one that began later commits."""
        location = f"{self.ads.location}-orders"
        orders, _ = Table.objects.get_or_create(
            slug=sink.SLUG,
            defaults={"name": "o", "location": location, "registered_by": self.admin},
        )
        running = Operation.objects.create(
            table=orders, kind="sink", sink_id=sink.SINK_ID, state="running"
        )
        parent = self.starter(str(Path(run_dir(running.pk)) / JOB_FILE))
        run_dead(running, parent.pid)
        assert parent.stdout is not None
        worker = f"{socket.gethostname()}:{int(parent.stdout.readline())}"
        record, _ = SinkRecord.objects.get_or_create(table=orders, sink_id=sink.SINK_ID)
        SinkParticipant.objects.update_or_create(
            sink=record, partition=2, defaults={"worker": worker}
        )

        do_kill_demo_participant(orders, self.admin)

        assert int(parent.stdout.readline()) == -signal.SIGKILL
        assert progress(self.admin, "participant").is_going_on
        killed_ms = SystemClock().now_ms()
        record.transactions = [
            {"outcome": outcome, "started_ms": killed_ms + after_ms, "ended_ms": killed_ms + 2}
            for after_ms, outcome in ((-9_000, "aborted"), (1, "committed"))
        ]
        record.save()
        assert progress(self.admin, "participant").is_done
        running.state, running.finished_at = "succeeded", timezone.now()
        running.save()


def progress(user: User, name: str) -> Progress:
    seen = story(user)
    assert seen is not None
    return next(step for step in seen.steps if step.name == name)


def write_files(table: Table, operation: Operation, ports: Ports) -> Transaction:
    """Begin a stream's write and write its files, without the commit."""
    job = operation.parameters["job"]
    options = write_options({**job["options"], "sluice.operation.id": str(operation.pk)})
    stored = open_table(table.location, ports=ports).table
    batch = AdRequests(7, job["source"]["run"], rounds=1).events(job["stream"], 0)
    transaction = WriteClient(stored, options).begin(
        batch.schema, WriteRequest("upsert", job["stream"])
    )
    context = transaction.context
    prepared = prepare(context, batch)
    transaction.declare_reads(build_read_set(context, prepared, (), stored.storage))
    write_file_groups(context, prepared, TaskIds(), stored.storage)
    return transaction


@pytest.fixture
def starter() -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts a process with a child, as a sink's driver has its workers."""
    running: list[subprocess.Popen[str]] = []

    def begin(job: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PARENT, job]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("pair", PAIRS)
def test_second_button_shows_what_it_promises_whatever_came_first(
    pair: tuple[str, str],
    ads: Table,
    admin: User,
    as_admin: Client,
    driver: Callable[[Operation], int],
    starter: Callable[[str], subprocess.Popen[str]],
) -> None:
    kills = Kills(ads, admin, driver, starter)
    for button in pair:
        if button in PAIRED:
            carry_out(ads, PAIRED[button](ads, admin))
            sync_table(ads)
        else:
            kills.press(button)

    lost = list(Conflict.objects.filter(table=ads).order_by("decided_at"))
    assert [conflict.kind for conflict in lost] == [
        LOST_BY[button] for button in pair if button in LOST_BY
    ]
    page = as_admin.get("/t/ad-requests/conflicts").content.decode()
    assert all(f"/t/ad-requests/conflicts/{conflict.loser_instant}" in page for conflict in lost)
    timeline = as_admin.get("/t/ad-requests/timeline").content.decode()
    assert all(instant in timeline for instant in kills.killed)
    now = timezone.now()
    checks = [*check_table_health(ads, now), *build_event_checks(ads, now, {})]
    caused = {"event-rollback"} if "kill" in pair else set()
    assert {check.name for check in checks if check.verdict in ("warn", "bad")} == caused
