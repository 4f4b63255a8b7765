"""No request says where a node connects, and none has it open what lies outside its roots."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from controlplane.errors import InvalidRequest
from controlplane.operations.actions import do_request_write, do_start_sink
from controlplane.operations.kinds.sink import launch_again
from controlplane.operations.models import Operation
from controlplane.operations.schedules import do_update_service_setting
from tests.controlplane.lake import Lake
from tests.controlplane.sink_jobs import OPTIONS, start
from workers.errors import InvalidInput
from workers.jobs import SinkJob, WriteJob
from workers.ports import system_ports
from workers.reporting import SilentReporter
from workers.spark.driver import Driver
from workers.spark.sink_driver import SinkDriver

SOURCE = {"kind": "csv", "path": "/data/weather.csv"}


@dataclass
class Canary:
    """An address that somebody waits at for a token."""

    port: int
    callers: list[str] = field(default_factory=list)

    def options(self) -> list[dict[str, str]]:
        return [
            {"sluice.marker.url": f"http://127.0.0.1:{self.port}"},
            {"sluice.marker.url": f"http://[::ffff:127.0.0.1]:{self.port}"},
            {
                "hoodie.write.lock.provider": "redis",
                "sluice.lock.url": f"redis://127.0.0.1:{self.port}/0",
            },
            {
                "hoodie.write.lock.provider": "database",
                "sluice.lock.url": f"postgresql://127.0.0.1:{self.port}/x",
            },
            {"sluice.lock.url": "", "sluice.marker.url": ""},
        ]


@pytest.fixture
def canary() -> Iterator[Canary]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        canary = Canary(listener.getsockname()[1])

        def listen() -> None:
            while True:
                try:
                    connection, caller = listener.accept()
                except OSError:
                    return
                canary.callers.append(str(caller))
                connection.close()

        threading.Thread(target=listen, daemon=True).start()
        yield canary
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("number", range(5))
def test_no_request_says_where_the_node_connects(
    lake: Lake, operator: User, client: Client, canary: Canary, number: int
) -> None:
    options = canary.options()[number]
    client.force_login(operator)
    before = start(lake, operator)
    body = before.parameters["job"]
    body["sink_options"] = {**body["sink_options"], **options}
    before.state = "succeeded"
    before.save()

    written = client.post(
        f"/api/v1/tables/{lake.row.slug}/operations/",
        {"source": SOURCE, "options": options},
        "application/json",
    )
    sunk = client.post(
        f"/api/v1/tables/{lake.row.slug}/sinks/",
        {"sink_options": {**OPTIONS, "hoodie.sink.id": "b", **options}},
        "application/json",
    )
    with pytest.raises(InvalidRequest):
        do_update_service_setting(
            table=lake.row, service="clean", enabled=True, parameters=options, by=operator
        )

    if "" not in options.values():  # A sink's form sends what was left empty.
        assert sunk.status_code == 400
        assert "SLUICE_" in sunk.json()["detail"]
        with pytest.raises(InvalidRequest, match="must not name an address"):
            launch_again(before, by=operator, reason="")
        assert Operation.objects.count() == 1
    assert written.status_code == 400
    assert canary.callers == []


def test_a_job_from_before_the_check_is_refused_by_its_driver(lake: Lake, canary: Canary) -> None:
    """It may lie in the queue, or in the database to be sent again."""
    common: dict[str, Any] = {
        "operation_id": "old",
        "table": lake.row.location,
        "session_id": "b7a4f4de-4f0e-4b62-a9a2-3b8f3cf10d0c",
        "run_dir": "/tmp/old",
    }
    parts: dict[str, Any] = {
        "reporter": SilentReporter(),
        "ports": system_ports(),
        "remote": f"sc://127.0.0.1:{canary.port}",
        "environment": {"SLUICE_TABLE_ROOTS": lake.row.location.rpartition("/")[0]},
    }

    for options in canary.options():
        with pytest.raises(InvalidInput, match="must not name an address"):
            Driver(job=WriteJob(source=SOURCE, options=options, **common), **parts).run()
        with pytest.raises(InvalidInput, match="must not name an address"):
            SinkDriver(job=SinkJob(sink_options={**OPTIONS, **options}, **common), **parts)

    assert canary.callers == []


def test_brokers_that_the_node_names_are_all_that_requests_may_name(
    lake: Lake, operator: User, settings: Settings
) -> None:
    settings.SLUICE_KAFKA_BROKERS = ("a.example:9093", "SLUICE_KAFKA_ORDERS=b.example:9093")

    def start_at(brokers: str) -> Operation:
        return do_start_sink(lake.row, {**OPTIONS, "bootstrap.servers": brokers}, by=operator)

    with pytest.raises(InvalidRequest, match="SLUICE_KAFKA_BROKERS"):
        start_at("a.example:9093,c.example:9093")

    assert start_at("b.example:9093, A.example:9093").state == "queued"


@pytest.mark.parametrize(
    "parameters",
    [
        {"source": {"kind": "csv", "path": "/etc/passwd"}},
        {"source": {"kind": "parquet", "path": "/data/../etc/rows.parquet"}},
        {"source": {"kind": "csv", "path": "rows.csv"}},
        {"source": SOURCE, "options": {"sluice.dead.letter.path": "/etc/cron.d"}},
        {
            "source": SOURCE,
            "options": {
                "hoodie.write.lock.provider": "filesystem",
                "hoodie.write.lock.filesystem.path": "file:///etc",
            },
        },
    ],
    ids=["file", "dots", "relative", "letters", "lock"],
)
def test_what_lies_outside_the_roots_is_refused_before_anything_is_stored(
    lake: Lake, operator: User, parameters: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest):
        do_request_write(table=lake.row, parameters=parameters, by=operator)
    if "options" in parameters:
        with pytest.raises(InvalidRequest):
            do_start_sink(lake.row, {**OPTIONS, **parameters["options"]}, by=operator)

    assert not Operation.objects.exists()
