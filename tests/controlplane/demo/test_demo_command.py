"""The demo starts once, goes on where it was, begins anew when it is done, and can be deleted."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from pytest_django import Settings

from controlplane.demo.upkeep import LIMITS, SERVICES
from controlplane.monitoring.thresholds import get_threshold_row
from controlplane.operations.models import Operation, ServiceSetting
from controlplane.operations.states import OperationState
from controlplane.tables.models import Table
from controlplane.tables.scopes import Scope
from workers import open_table
from workers.demo.ad_requests import STREAMS, AdRequests, Stream
from workers.lakehouse import write_arrow
from workers.timeline.extra_metadata import POSITION_KEY, Position
from workers.write.client import WriteRequest


def demo(*words: str) -> str:
    out = StringIO()
    call_command("demo", *words, stdout=out)
    return out.getvalue()


def sources() -> list[dict[str, Any]]:
    operations = Operation.objects.order_by("requested_at")
    return [operation.parameters["job"]["source"] for operation in operations]


def end_all(state: OperationState) -> None:
    Operation.objects.update(state=state.value)


def commit_rounds(root: Path, stream: Stream, run: int, *, rounds: int) -> None:
    table = open_table(root / "ad_requests").table
    requests = AdRequests(seed=7, run=run, rounds=rounds)
    for number in range(rounds):
        extra = ((POSITION_KEY, Position(run, number).encode()),)
        request = WriteRequest("upsert", stream, extra)
        options = {"hoodie.write.markers.type": "direct"}
        write_arrow(table, requests.events(stream, number), request, options)


def test_start_registers_the_table_and_asks_for_three_streams_of_one_run(
    root: Path, admin: User
) -> None:
    said = demo("--start", "--rounds", "4", "--pace", "0.5")

    assert "/t/ad-requests/live" in said
    assert Table.objects.get(slug="ad-requests").location == str(root / "ad_requests")
    started = sources()
    assert [source["stream"] for source in started] == list(STREAMS)
    assert len({source["run"] for source in started}) == 1
    assert all(source["rounds"] == 4 and source["pace_s"] == 0.5 for source in started)
    modes = {one.parameters["job"]["options"]["hoodie.write.concurrency.mode"] for one in ops()}
    assert modes == {"NON_BLOCKING_CONCURRENCY_CONTROL"}


def test_without_a_node_there_are_streams_and_no_sink(root: Path, admin: User) -> None:
    said = demo("--start")

    assert "the demo has no sink: the node does not run on this machine" in said
    assert "everything else runs" in said
    assert not Table.objects.filter(slug="shop-orders").exists()
    assert "orders      never started" in demo("--status")


def test_start_while_it_runs_starts_nothing(root: Path, admin: User) -> None:
    demo("--start")

    assert "the demo runs" in demo("--start")
    assert len(sources()) == 3


def test_start_after_a_stop_goes_on_with_the_same_run(root: Path, admin: User) -> None:
    demo("--start", "--rounds", "2")
    run = sources()[0]["run"]
    commit_rounds(root, "impression", run, rounds=2)
    end_all(OperationState.CANCELLED)

    demo("--start", "--rounds", "9")

    assert [source["run"] for source in sources()] == [run] * 6
    assert {source["rounds"] for source in sources()} == {2}


def test_start_after_the_end_begins_a_new_run(root: Path, admin: User) -> None:
    demo("--start", "--rounds", "1")
    run = sources()[0]["run"]
    for stream in STREAMS:
        commit_rounds(root, stream, run, rounds=1)
    end_all(OperationState.SUCCEEDED)

    demo("--start", "--rounds", "3")

    assert [source["rounds"] for source in sources()[3:]] == [3, 3, 3]


def test_status_counts_the_rounds_that_the_table_holds(root: Path, admin: User) -> None:
    assert "never started" in demo("--status")
    demo("--start", "--rounds", "3")
    commit_rounds(root, "click", sources()[0]["run"], rounds=2)

    lines = demo("--status").splitlines()

    assert [line.split()[:4] for line in lines[:3]] == [
        ["impression", "0", "of", "3"],
        ["click", "2", "of", "3"],
        ["conversion", "0", "of", "3"],
    ]


def test_reset_deletes_table_and_row(root: Path, admin: User) -> None:
    demo("--start")
    end_all(OperationState.CANCELLED)

    demo("--reset")

    assert not (root / "ad_requests").exists()
    assert not Table.objects.exists()


def test_reset_deletes_the_brokers_data_of_its_own_node_only(
    root: Path, admin: User, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "another-home"
    monkeypatch.setenv("SLUICE_HOME", str(other))
    ours, theirs = (home / "kafka" / "data" for home in (Path(settings.SLUICE_HOME), other))
    for data in (ours, theirs):
        data.mkdir(parents=True)

    demo("--reset")

    assert (ours.exists(), theirs.exists()) == (False, True)


def test_upkeep_of_the_demo_comes_long_before_its_table_is_shown_as_unhealthy(
    root: Path, admin: User
) -> None:
    demo("--start")

    table = Table.objects.get()
    for service, name in (("compaction", "compaction-commits"), ("archive", "active-commits")):
        assert ServiceSetting.objects.get(table=table, service=service).is_enabled
        row = get_threshold_row(name, Scope(table=table))
        assert row.amount == LIMITS[name] > 2 * SERVICES[service][1]


def ops() -> list[Operation]:
    return list(Operation.objects.all())
