"""Driver programs as operations start them: streams, rivals, resumption, duplicates, refusals."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.expiry import await_expiry
from tests.support.invariants import leftovers, orphan_files
from tests.support.referee import assert_referee_agrees
from workers.clock import SystemClock
from workers.concurrency.outcome import Committed
from workers.demo.ad_requests import (
    CLOCKS,
    COLUMN_GROUPS,
    IS_DELETED,
    KEY,
    PARTITION,
    STREAMS,
    TABLE_SCHEMA,
    AdRequests,
)
from workers.jobs import JsonScalar, WriteJob
from workers.lakehouse import LakehouseTable, create_table
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.spark.connect_server import ConnectServer
from workers.spark.input_modules import INPUTS_VARIABLE
from workers.spark.process import ENDING_FILE, is_driver, kill_driver, launch, read_pid
from workers.table.schema_history import read_instant
from workers.table.view import FileSystemView
from workers.tasks import launch_write
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision
from workers.timeline.instant import State
from workers.timeline.metadata import ATTEMPTS_KEY, OPERATION_KEY, STREAM_KEY
from workers.write.client import WriteClient
from workers.write.handles import write_file_groups
from workers.write.prepare import prepare
from workers.write.status import TaskIds

pytestmark = pytest.mark.spark

ROUNDS = 3
REQUESTS = AdRequests(seed=7, run=1_767_225_600, rounds=ROUNDS, requests_per_round=20, pace_ms=200)
NON_BLOCKING = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.markers.type": "direct",
    "hoodie.client.heartbeat.interval_in_ms": "5000",
}
OPTIMISTIC = {**NON_BLOCKING, "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}


@dataclass(frozen=True)
class Node:
    """What a node gives its drivers: roots, a Spark address, a place for run directories."""

    table: LakehouseTable
    home: Path
    environment: Mapping[str, str]

    def job(self, source: Mapping[str, JsonScalar], writer: str, **values: Any) -> WriteJob:
        operation_id = str(uuid.uuid4())
        mode = NON_BLOCKING if values.get("stream") else OPTIMISTIC
        return WriteJob(
            operation_id=operation_id,
            table=self.table.location,
            source=source,
            options={**mode, "sluice.writer.name": writer},
            spark_conf={"spark.sql.shuffle.partitions": "2"},
            session_id=str(uuid.uuid4()),
            run_dir=str(self.home / "run" / operation_id),
            **values,
        )

    def stream(self, stream: str, *, rounds: int = ROUNDS) -> WriteJob:
        source: dict[str, JsonScalar] = {
            "kind": "demo_stream",
            "stream": stream,
            "seed": REQUESTS.seed,
            "run": REQUESTS.run,
            "rounds": rounds,
            "requests_per_round": REQUESTS.requests_per_round,
            "pace_s": 0.2,
        }
        return self.job(source, stream, stream=stream)

    def launch(self, job: WriteJob) -> int:
        pid = launch(job, self.environment)
        assert pid is not None
        return pid

    def endings(self, *jobs: WriteJob) -> list[dict[str, Any]]:
        """How they ended, in order; fails with the log of one that does not end."""
        directories = [Path(job.run_dir) for job in jobs]
        for directory in directories:
            wait_until((directory / ENDING_FILE).exists, said=(directory / "driver.log").read_text)
        return [json.loads((directory / ENDING_FILE).read_text()) for directory in directories]


@pytest.fixture
def node(tmp_path: Path, server: ConnectServer) -> Node:
    table = create_table(
        tmp_path / "tables" / "ad_requests",
        name="ad_requests",
        schema=TABLE_SCHEMA,
        record_key=[KEY],
        partition_by=[PARTITION],
        table_type="MERGE_ON_READ",
        options={
            "hoodie.multistream.groups": COLUMN_GROUPS,
            "hoodie.bucket.index.num.buckets": "2",
        },
    )
    environment = {
        **os.environ,
        "SLUICE_TABLE_ROOTS": str(tmp_path / "tables"),
        "SLUICE_SPARK_REMOTE": server.remote,
        INPUTS_VARIABLE: "workers.demo.inputs",
    }
    return Node(table, tmp_path, environment)


def joined() -> list[dict[str, Any]]:
    """What the three streams say together, each by the newest of its own clock."""
    rows: dict[str, dict[str, Any]] = {}
    alive: set[str] = set()
    for stream, clock in CLOCKS.items():
        newest: dict[str, dict[str, Any]] = {}
        for number in range(ROUNDS):
            for row in REQUESTS.events(stream, number).to_pylist():
                if row[KEY] not in newest or row[clock] >= newest[row[KEY]][clock]:
                    newest[row[KEY]] = row
        for key, row in newest.items():
            wide = rows.setdefault(key, dict.fromkeys(TABLE_SCHEMA.names) | {KEY: key})
            wide[PARTITION] = row[PARTITION]
            if row.pop(IS_DELETED, False):
                wide[clock] = row[clock]
            else:
                wide |= row
                alive.add(key)
    return [rows[key] for key in sorted(alive)]


def by_key(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: str(row[KEY]))


@pytest.mark.slow
def test_three_streams_at_once_become_one_table_of_joined_rows(node: Node) -> None:
    jobs = [node.stream(stream) for stream in STREAMS]

    for job in jobs:
        node.launch(job)
    endings = node.endings(*jobs)

    assert [ending["state"] for ending in endings] == ["succeeded"] * 3
    assert by_key(node.table.read()) == joined()
    assert_referee_agrees(node.table.location)


@pytest.mark.slow
def test_a_job_compacts_inline_when_its_options_say_so(node: Node) -> None:
    plain = node.stream("click", rounds=1)
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    job = replace(plain, options={**plain.options, **inline})

    node.launch(job)
    [ending] = node.endings(job)

    assert ending["state"] == "succeeded", ending
    view = FileSystemView.load(node.table.table)
    assert view.slices
    assert all(one.base_file and not one.log_files for one in view.slices)


@pytest.mark.slow
def test_stream_killed_mid_write_goes_on_behind_its_last_commit(node: Node) -> None:
    release = node.home / "release"
    order = {"point": "after_data", "writer": "click", "action": "pause", "release": str(release)}
    stops = {"SLUICE_ALLOW_STOP_POINTS": "1", "SLUICE_STOP_POINTS": json.dumps([order])}
    first = node.stream("click", rounds=1)
    node.launch(first)
    node.endings(first)
    victim = node.stream("click")
    pid = launch(victim, {**node.environment, **stops})
    wait_until((node.home / "release.reached").exists)

    assert kill_driver(Path(victim.run_dir), pid, SystemClock())
    await_expiry(node.table.table.storage)
    again = node.stream("click")
    node.launch(again)
    [ending] = node.endings(again)

    assert ending["state"] == "succeeded", ending
    commits = committed(node.table)
    assert [extra[OPERATION_KEY] for extra in commits] == [
        first.operation_id,
        *[again.operation_id] * (ROUNDS - 1),
    ]
    rounds = [json.loads(extra["sluice.source.position"])["round"] for extra in commits]
    assert rounds == list(range(ROUNDS))
    actions = [one.action.value for one in node.table.timeline()]
    assert actions.count("rollback") == 1
    assert all(one.state is State.COMPLETED for one in node.table.timeline())


@pytest.mark.slow
def test_two_optimistic_backfills_meet_and_exactly_one_loses(node: Node) -> None:
    jobs = [
        node.job({"kind": "demo_backfill", "seed": seed, "hold_s": 0.2}, f"backfill-{letter}")
        for seed, letter in ((1, "a"), (2, "b"))
    ]
    for job in jobs:
        node.launch(job)
    endings = node.endings(*jobs)

    states = sorted(ending["state"] for ending in endings)
    assert states == ["conflicted", "succeeded"], endings
    [lost] = [ending for ending in endings if ending["state"] == "conflicted"]
    [won] = [ending for ending in endings if ending["state"] == "succeeded"]
    assert lost["outcome"]["kind"] == "write"
    assert lost["outcome"]["rival"] == won["instant"]
    assert {lost["outcome"]["writer"], lost["outcome"]["rival_writer"]} == {
        "backfill-a",
        "backfill-b",
    }
    assert lost["outcome"]["file_groups"]


@pytest.mark.slow
def test_a_stream_that_looks_for_rivals_writes_its_round_again_once_the_older_writer_is_done(
    node: Node,
) -> None:
    first, second = node.stream("click", rounds=1), node.stream("impression", rounds=1)
    node.launch(first)
    node.endings(first)
    current_rows = node.table.read()
    older = WriteClient(node.table.table, write_options(OPTIMISTIC)).begin(current_rows.schema)
    context = older.context
    storage = node.table.table.storage
    statuses = write_file_groups(context, prepare(context, current_rows), TaskIds(), storage)
    enable = "hoodie.write.concurrency.early.conflict.detection.enable"
    stream = replace(second, options={**second.options, **OPTIMISTIC, enable: "true"})

    node.launch(stream)
    wait_until(lambda: bool(conflicts(node.table)))
    outcome = older.commit(statuses)
    [ending] = node.endings(stream)

    assert isinstance(outcome, Committed), outcome
    assert ending["state"] == "succeeded", ending
    assert [one["detected"] for one in conflicts(node.table)] == ["early"]
    assert [one["sluice.writer.name"] for one in committed(node.table)] == ["click", "impression"]
    assert committed(node.table)[-1][ATTEMPTS_KEY] == "2"


@pytest.mark.slow
def test_every_writing_of_a_round_counts_whether_it_met_a_rival_or_was_rolled_back(
    node: Node,
) -> None:
    """Without retries of its own; what the driver does by itself counts as well."""
    release = node.home / "release"
    reached = node.home / "release.reached"
    order = {"point": "after_data", "writer": "click", "action": "pause", "release": str(release)}
    stops = {"SLUICE_ALLOW_STOP_POINTS": "1", "SLUICE_STOP_POINTS": json.dumps([order])}
    plain = node.stream("click", rounds=1)
    job = replace(plain, options={**plain.options, **OPTIMISTIC})
    rows = REQUESTS.events("impression", 0)

    launch(job, {**node.environment, **stops})
    wait_until(reached.exists)
    faster = {**OPTIMISTIC, "sluice.writer.name": "faster"}
    rival = node.table.write(rows, stream="impression", options=faster)
    reached.unlink()
    release.touch()
    wait_until(lambda: bool(conflicts(node.table)))
    release.unlink()  # The driver rests before it writes the round again.
    wait_until(reached.exists)
    [second] = [one for one in node.table.timeline() if not one.is_completed]
    request = RollbackRequest(second.requested_at, by="operator", reason="stop", is_forced=True)
    rollback(node.table.table, request, write_options(OPTIMISTIC))
    release.touch()
    [ending] = node.endings(job)

    assert isinstance(rival, Committed)
    assert ending["state"] == "succeeded", ending
    assert ending["message"].endswith("at attempt 3")
    [lost] = conflicts(node.table)
    assert (lost["rival"], lost["rival_writer"]) == (rival.instant, "faster")
    assert (lost["lost"]["attempt"], lost["lost"]["attempts_max"]) == (1, 4)
    assert [one.get(ATTEMPTS_KEY) for one in committed(node.table)] == [None, "3"]
    assert orphan_files(node.table.table) == leftovers(node.table.table) == []


def conflicts(table: LakehouseTable) -> list[Mapping[str, Any]]:
    storage = table.table.storage
    all_decisions = [
        decisions.read(storage, one) for one in decisions.list_decided_instants(storage)
    ]
    return [
        one.conflict for one in all_decisions if isinstance(one, RollbackDecision) and one.conflict
    ]


@pytest.mark.slow
def test_two_writers_that_add_different_columns_meet_and_one_loses_the_schema(node: Node) -> None:
    jobs = [
        node.job({"kind": "demo_evolve", "variant": one, "hold_s": 0.2}, f"evolve-{one}")
        for one in ("a", "b")
    ]
    for job in jobs:
        node.launch(job)
    endings = node.endings(*jobs)

    assert sorted(ending["state"] for ending in endings) == ["conflicted", "succeeded"], endings
    [lost] = [ending for ending in endings if ending["state"] == "conflicted"]
    assert lost["outcome"]["kind"] == "schema"
    added = [name for name in node.table.schema().names if name.startswith("experiment_1_")]  # type: ignore[union-attr]
    assert len(added) == 1


def test_job_delivered_twice_has_one_driver(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in node.environment.items():
        monkeypatch.setenv(name, value)
    job = node.stream("impression", rounds=1)

    launch_write(job.to_message())
    pid = read_pid(Path(job.run_dir))
    assert launch(job, node.environment) == pid
    node.endings(job)
    assert pid is not None
    wait_until(lambda: not is_driver(pid, Path(job.run_dir)))
    launch_write(job.to_message())

    assert read_pid(Path(job.run_dir)) == pid
    assert len(committed(node.table)) == 1


@pytest.mark.slow
def test_sigterm_ends_a_stream_after_its_round(node: Node) -> None:
    job = node.stream("impression", rounds=200)
    pid = node.launch(job)
    wait_until(lambda: len(committed(node.table)) >= 2)

    os.kill(pid, signal.SIGTERM)
    [ending] = node.endings(job)

    assert ending["state"] == "cancelled"
    assert ending["message"].startswith(f"stopped after {len(committed(node.table))} of 200")
    assert all(one.state is State.COMPLETED for one in node.table.timeline())


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"table": "/somewhere/else"}, "outside the configured roots"),
        ({"spark_conf": {"spark.jars": "evil.jar"}}, "allow-list"),
        ({"options": {"hoodie.write.markers": "direct"}}, "unknown write option"),
        ({"source": {"kind": "demo_stream", "stream": "view"}}, "no such stream"),
        ({"source": {"kind": "pickle"}}, "source kind is unknown"),
    ],
)
def test_job_that_breaks_a_rule_is_refused_and_writes_nothing(
    node: Node, values: dict[str, Any], said: str
) -> None:
    body = node.stream("click").to_message()
    job = WriteJob.from_message({**body, **values})

    launch(job, node.environment)
    [ending] = node.endings(job)

    assert ending["state"] == "failed"
    assert said in ending["message"]
    assert committed(node.table) == []


def committed(table: LakehouseTable) -> list[dict[str, str]]:
    """Extra metadata of the streams' commits, in the order of completion."""
    every = (
        read_instant(table.table, one).extra_metadata
        for one in table.table.timeline().list_completed_writes()
    )
    return [dict(extra) for extra in every if STREAM_KEY in extra]


def wait_until(
    is_true: Callable[[], bool], *, timeout_s: float = 120, said: Callable[[], str] = str
) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline, f"waited too long: {said()}"
        time.sleep(0.05)
