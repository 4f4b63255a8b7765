"""Dead letters of a table in a bucket go to their topic again: by the shell, REST and a worker."""

from __future__ import annotations

import os

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_record_report, do_start_sink
from controlplane.operations.models import Operation
from controlplane.operations.queries import operation_checks
from tests.controlplane.lake import Lake
from tests.controlplane.sink_resets.test_shell_replays import replay, topic
from tests.controlplane.test_tables_in_buckets import as_admin, lake, root
from tests.support.sinks import SINK
from workers.jobs import ReplayJob
from workers.ports import system_ports
from workers.reporting import RecordingReporter
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.topics import Topics
from workers.storage.roots import storage_under_root
from workers.table.table import open_
from workers.tasks.replay import carry_out_replay

__all__ = ["as_admin", "lake", "root", "topic"]

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_shell_replays_dead_letters_of_a_bucket_once(
    lake: Lake, kafka: Broker, topic: str, topics: Topics
) -> None:
    plan = replay(kafka, topic, "trips")
    answer = replay(kafka, topic, "trips", "--yes", "--reason", "a test")
    again = replay(kafka, topic, "trips", "--yes")

    assert f"1 dead letters of {SINK} in {lake.row.location}-dead-letters" in plan
    assert f"1 sent to {topic} again" in answer
    assert "1 more were already replayed" in again
    [operation] = Operation.objects.all()
    assert operation.state == "succeeded"
    assert {check.name: check.is_proved for check in operation_checks(operation.pk)}["letters"]
    assert topics.facts(topic).watermarks[0][1] > 2


def test_replay_over_rest_is_sent_by_a_worker_once_and_proved(
    lake: Lake, kafka: Broker, topic: str, as_admin: Client, admin: User
) -> None:
    options = {
        "hoodie.kafka.topic": topic,
        "hoodie.sink.id": SINK,
        "bootstrap.servers": kafka.bootstrap,
        "hoodie.kafka.control.topic": f"{topic}-control",
    }
    do_start_sink(lake.row, options, by=admin)
    sync_table(lake.row)
    address = f"/api/v1/tables/trips/sinks/{SINK}/dead-letters/"
    [commit] = as_admin.get(address).json()
    page = as_admin.get(f"{address}{commit['instant']}/").json()
    body = {"letters": ["0:1"], "reason": "a test"}

    requested = as_admin.post(f"{address}replay/", body, "application/json")
    assert requested.status_code == 202, requested.content
    operation = Operation.objects.get(pk=requested.json()["row"]["id"])
    first, second = carry_out(operation), carry_out(operation)

    assert first == f"1 sent to {topic} again"
    assert second == f"0 sent to {topic} again, 1 had been sent before"
    operation.refresh_from_db()
    assert commit["records"] == 1
    assert "not JSON" in str(page)
    assert operation.state == "succeeded", operation.message
    assert {check.name: check.is_proved for check in operation_checks(operation.pk)}["letters"]
    assert as_admin.post(f"{address}replay/", body, "application/json").status_code == 409


def carry_out(operation: Operation) -> str:
    """Send the dead letters as a worker does, and return the message of the last report."""
    job = ReplayJob.from_message(operation.parameters["job"])
    reporter = RecordingReporter()
    table = open_(storage_under_root(job.table, os.environ), system_ports())
    carry_out_replay(job, table, reporter, os.environ)
    for report in reporter.reports:
        do_record_report(report.to_message())
    return reporter.reports[-1].message
