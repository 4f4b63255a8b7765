"""Reports are hints: late, doubled and disordered ones do no harm, malformed ones are refused."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest
from controlplane.operations.actions import do_record_report, do_request_write, do_start_sink
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from controlplane.writers.models import Report
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import ask_rollback, begun

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}


@pytest.fixture
def operation(synced: Table, admin: User) -> Operation:
    parameters = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
    return do_request_write(table=synced, parameters=parameters, by=admin)


@pytest.fixture
def instant(lake: Lake, operation: Operation) -> str:
    """What the operation's driver has committed."""
    return lake.commit(OSLO, operation_id=str(operation.pk))


def report(operation: Operation, state: str, **more: Any) -> dict[str, Any]:
    return {"operation_id": str(operation.pk), "state": state, **more}


def test_a_run_is_told_from_start_to_end(operation: Operation, instant: str) -> None:
    do_record_report(report(operation, "running", pid=4711, message="started"))
    do_record_report(
        report(operation, "progress", progress={"done": 3, "total": 40, "unit": "rounds"})
    )
    do_record_report(report(operation, "succeeded", instant=instant))

    operation.refresh_from_db()
    assert operation.state == "succeeded"
    assert (operation.pid, operation.instant) == (4711, instant)
    assert (operation.progress_done, operation.progress_total) == (3, 40)
    assert operation.started_at is not None
    assert operation.finished_at is not None


@pytest.mark.parametrize(
    "order",
    list(itertools.permutations(["running", "progress", "succeeded"])),
    ids=" ".join,
)
@pytest.mark.usefixtures("instant")
def test_any_order_ends_in_the_final_state(operation: Operation, order: tuple[str, ...]) -> None:
    for state in (*order, *order):
        do_record_report(report(operation, state))

    operation.refresh_from_db()
    assert operation.state == "succeeded"


def test_a_late_running_report_does_not_reopen_what_failed(operation: Operation) -> None:
    do_record_report(report(operation, "failed", message="out of memory"))
    do_record_report(report(operation, "running", message="started"))

    operation.refresh_from_db()
    assert (operation.state, operation.message) == ("failed", "out of memory")


def test_progress_is_not_kept_as_a_report_of_its_own(operation: Operation) -> None:
    do_record_report(report(operation, "progress", progress={"done": 1, "total": 2, "unit": "t"}))

    assert not Report.objects.exists()


def test_a_report_about_nothing_we_know_is_told_so(operation: Operation) -> None:
    unknown = {"operation_id": str(uuid.uuid4()), "state": "running"}

    assert do_record_report(unknown) is False


@pytest.mark.parametrize(
    "broken",
    [
        {"state": "done"},
        {"state": 1},
        {"operation_id": "not-a-uuid"},
        {"instant": "../../etc"},
        {"pid": -1},
        {"pid": True},
        {"progress": "half"},
        {"progress": {"done": 10**12, "total": 1, "unit": "x"}},
    ],
    ids=str,
)
def test_a_malformed_report_changes_nothing(operation: Operation, broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        do_record_report(report(operation, "running") | broken)

    operation.refresh_from_db()
    assert operation.state == "queued"


def test_a_claim_that_storage_does_not_show_leaves_a_write_open(
    lake: Lake, operation: Operation
) -> None:
    write = lake.begin(OSLO, operation_id=str(operation.pk))
    do_record_report(report(operation, "unknown", instant=write.instant))

    do_record_report(report(operation, "succeeded", instant=write.instant))

    operation.refresh_from_db()
    assert operation.state == "unknown"
    assert "storage does not confirm" in operation.message
    write.commit()
    do_record_report(report(operation, "succeeded", instant=write.instant))
    operation.refresh_from_db()
    assert operation.state == "succeeded"


def test_a_commit_of_another_operation_proves_nothing(lake: Lake, operation: Operation) -> None:
    foreign = lake.commit(OSLO, operation_id=str(uuid.uuid4()))

    do_record_report(report(operation, "succeeded", instant=foreign))

    operation.refresh_from_db()
    assert operation.state == "queued"


@pytest.mark.parametrize("claim", ["failed", "rolled_back", "conflicted"])
def test_a_write_that_storage_shows_as_committed_has_succeeded_whatever_was_reported(
    operation: Operation, instant: str, claim: str
) -> None:
    do_record_report(report(operation, claim, message="no luck"))

    operation.refresh_from_db()
    assert (operation.state, operation.instant) == ("succeeded", instant)


def test_a_claim_about_a_rollback_does_not_end_it_nor_change_its_target(
    lake: Lake, admin: User
) -> None:
    target = lake.commit(OSLO)
    rollback = ask_rollback(lake, target, admin)

    do_record_report(report(rollback, "running", instant="20300101000000000"))
    do_record_report(report(rollback, "succeeded"))

    rollback.refresh_from_db()
    assert (rollback.state, rollback.instant) == ("running", target)


def test_a_claim_about_a_service_does_not_end_it(lake: Lake, operator: User) -> None:
    lake.commit(OSLO)
    lake.commit(OSLO)
    compaction = begun(lake, "compaction", operator)

    do_record_report(report(compaction, "succeeded"))

    compaction.refresh_from_db()
    assert compaction.state == "running"


def test_a_sink_that_nobody_asked_to_stop_has_not_stopped(lake: Lake, admin: User) -> None:
    sink = do_start_sink(lake.row, {"hoodie.kafka.topic": "t", "hoodie.sink.id": "s"}, by=admin)

    do_record_report(report(sink, "succeeded"))

    sink.refresh_from_db()
    assert sink.state == "queued"
