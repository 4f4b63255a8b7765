"""Jobs of services that come again or are stopped: nothing is done twice or left half done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.mirror.queries.table_services import pending_plans, savepoints
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_record_report, do_request_cancel
from controlplane.operations.models import Operation
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import ask, begun, work
from workers.lakehouse import LakehouseTable
from workers.options.write_options import write_options
from workers.spark.process import forbid_launch, is_forbidden
from workers.table_services import local_runner, registry
from workers.table_services.rewrite_slice import rewrite_group
from workers.table_services.service import ServiceRequest

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
BERGEN = {"id": "1", "ts": 2, "city": "Bergen"}


@pytest.mark.usefixtures("working")
def test_a_job_that_comes_again_after_it_was_done_succeeds_with_nothing_left(
    lake: Lake, operator: User
) -> None:
    for _ in range(3):
        lake.commit(OSLO)
    operation = work(ask(lake, "compaction", operator))
    Operation.objects.filter(pk=operation.pk).update(state="running")

    again = work(operation, attempt=1)

    assert (again.state, again.message) == ("succeeded", "nothing is left to do")


@pytest.mark.usefixtures("working")
def test_a_compaction_is_held_to_the_plan_that_it_made_and_not_to_the_one_that_was_shown(
    lake: Lake, operator: User
) -> None:
    other = OSLO | {"id": "2"}
    lake.commit(OSLO, other)
    lake.commit(OSLO, other)
    operation = ask(lake, "compaction", operator, plan_hash="")
    registry.get_service("compaction").run(lake.table, ServiceRequest(by="x"), write_options({}))
    lake.commit(OSLO | {"ts": 9})

    work(operation, report_url=None)
    lake.commit(OSLO | {"ts": 10})
    do_record_report({"operation_id": str(operation.pk), "state": "succeeded"})
    operation.refresh_from_db()

    assert operation.plan["item_count"] == 2
    assert (operation.state, operation.message) == ("succeeded", "")


@pytest.mark.usefixtures("working")
def test_a_job_that_comes_again_carries_its_own_pending_plan_out(
    lake: Lake, operator: User
) -> None:
    for _ in range(3):
        lake.commit(OSLO)
    operation = ask(lake, "compaction", operator)
    # As far as a worker came that was killed right after its plan was durable.
    registry.get_service("compaction").run(
        lake.table,
        ServiceRequest(by="olaf", parameters={"schedule_only": "true"}),
        write_options({}),
    )
    sync_table(lake.row)
    planned = pending_plans(lake.row)

    ended = work(operation, attempt=1)

    assert ended.state == "succeeded", ended.message
    assert [one.action for one in planned] == ["compaction"]
    assert planned[0].file_groups == 1
    assert ended.instant == planned[0].instant


@pytest.mark.usefixtures("working")
def test_a_savepoint_that_is_sent_again_has_succeeded_and_stays_the_only_one(
    lake: Lake, operator: User
) -> None:
    kept = lake.commit(OSLO)
    operation = work(ask(lake, "savepoint", operator))
    lake.commit(BERGEN)
    Operation.objects.filter(pk=operation.pk).update(state="running")

    again = work(operation, attempt=1)
    sync_table(lake.row)

    assert (again.state, again.message) == ("succeeded", "nothing is left to do")
    assert [one.instant for one in savepoints(lake.row)] == [kept]


@pytest.mark.usefixtures("working")
def test_a_savepoint_that_was_never_made_and_cannot_be_any_more_fails(
    lake: Lake, operator: User
) -> None:
    lake.commit(OSLO)
    gone = lake.commit(BERGEN)
    operation = ask(lake, "savepoint", operator, parameters={"instant": gone})
    LakehouseTable(lake.table).rollback(gone, dry_run=False)

    again = work(operation, attempt=1)

    assert again.state == "failed"
    assert again.message.startswith("plan_changed")


@pytest.mark.usefixtures("working")
def test_an_overwrite_that_is_sent_again_replaces_once(
    lake: Lake, admin: User, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.commit(OSLO)
    path = source(tmp_path, settings, monkeypatch)
    operation = work(ask(lake, "insert_overwrite_table", admin, parameters={"path": path}))
    Operation.objects.filter(pk=operation.pk).update(state="running")

    again = work(operation, attempt=1)

    assert (again.state, again.message) == ("succeeded", "nothing is left to do")
    assert (
        len(lake.table.timeline().list_completed_writes()) == 3
    )  # with the one that made the table
    assert LakehouseTable(lake.table).read().column("city").to_pylist() == ["Turku"]


def source(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with one row, below a source root."""
    folder = tmp_path / "sources"
    folder.mkdir()
    settings.SLUICE_SOURCE_ROOTS = (str(folder),)
    monkeypatch.setenv("SLUICE_SOURCE_ROOTS", str(folder))
    (folder / "new.csv").write_text("id,ts,city\n7,9,Turku\n")
    return str(folder / "new.csv")


def test_a_file_outside_the_source_roots_is_not_opened(
    lake: Lake, admin: User, tmp_path: Path
) -> None:
    lake.commit(OSLO)
    (tmp_path / "secret.csv").write_text("id,ts,city\n7,9,Turku\n")

    with pytest.raises(InvalidRequest, match="outside the configured roots"):
        ask(lake, "insert_overwrite", admin, parameters={"path": f"{tmp_path}/secret.csv"})


@pytest.mark.usefixtures("working")
def test_a_service_that_runs_stops_between_two_file_groups_and_its_plan_is_taken_up_again(
    lake: Lake, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = wide(lake)
    operation = ask(lake, "compaction", operator)

    def stop_after_the_first(*given: Any) -> Any:
        written = rewrite_group(*given)
        forbid_launch(Path(operation.parameters["job"]["run_dir"]))
        return written

    monkeypatch.setattr(local_runner, "rewrite_group", stop_after_the_first)
    ended = work(operation)
    monkeypatch.undo()
    sync_table(lake.row)
    (plan,) = pending_plans(lake.row)

    assert ended.state == "cancelled"
    assert "its plan stays pending" in ended.message
    assert 0 < ended.progress_done < ended.progress_total
    assert ended.instant == plan.instant
    assert table.read().num_rows == ROWS
    outcome = registry.get_service("compaction").run(
        lake.table, ServiceRequest(by="olaf"), write_options({})
    )
    assert outcome.instant == plan.instant
    assert table.read().num_rows == ROWS


def test_asking_a_running_service_to_stop_tells_its_worker(
    lake: Lake,
    operator: User,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    lake.commit(OSLO)
    lake.commit(OSLO)
    operation = begun(lake, "compaction", operator)

    with django_capture_on_commit_callbacks(execute=True):
        stopping = do_request_cancel(operation=operation, by=operator, reason="not now")

    assert stopping.state == "cancelling"
    assert is_forbidden(Path(operation.parameters["job"]["run_dir"]))


ROWS = 40


def wide(lake: Lake) -> LakehouseTable:
    """The table with several file groups that all have logs."""
    rows = [OSLO | {"id": str(number), "ts": number} for number in range(ROWS)]
    for _ in range(2):
        lake.commit(*rows)
    return LakehouseTable(lake.table)


@pytest.mark.usefixtures("working")
def test_a_service_that_waits_is_cancelled_at_once_and_never_begins(
    lake: Lake,
    operator: User,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    lake.commit(OSLO)
    lake.commit(OSLO)
    operation = ask(lake, "compaction", operator)

    with django_capture_on_commit_callbacks(execute=True):
        do_request_cancel(operation=operation, by=operator)
    ended = work(operation)

    assert (ended.state, ended.message) == ("cancelled", "cancelled before it began")
    assert not list(lake.table.timeline().pending())


def test_a_restore_that_has_begun_is_not_cancelled(lake: Lake, admin: User) -> None:
    kept = lake.commit(OSLO)
    registry.get_service("savepoint").run(lake.table, ServiceRequest(by="x"), write_options({}))
    lake.commit(BERGEN)
    operation = begun(lake, "restore", admin, parameters={"instant": kept})

    with pytest.raises(NotAllowedNow, match="once it has started"):
        do_request_cancel(operation=operation, by=admin)
