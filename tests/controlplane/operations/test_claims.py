"""Whoever has an operation's token may report what is not so: what storage does not show is not
believed, and what was believed too early is corrected.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.audit.models import AuditEvent
from controlplane.mirror.storage import storage_of
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import (
    do_reconcile,
    do_record_report,
    do_request_cancel,
    do_request_replay,
    do_request_write,
    do_start_sink,
    do_stop_sink,
)
from controlplane.operations.corrections import LOOKED_AT_FOR, correct_ends
from controlplane.operations.models import Operation
from controlplane.operations.run_dirs import run_dir
from tests.controlplane.lake import OPTIMISTIC, Lake
from tests.controlplane.left_out import leave_out
from tests.controlplane.service_jobs import ask_rollback, begun, work
from tests.controlplane.sink_jobs import OPTIONS
from tests.support.sinks import NOW_MS, SINK, TOPIC, stuck_state
from workers.clock import SystemClock
from workers.ports import system_ports
from workers.reporting.run_lock import hold_run_lock
from workers.sink.epoch import acquire_epoch
from workers.sink.replays import DeadLetterId, Replay, claim_letters, store_end
from workers.sink.runtime.launch import to_run_id
from workers.sink.state_file import put_state
from workers.sink.stop_request import StopKind, StopRequest, request_stop
from workers.spark.process import DRIVER_FILE, ENDING_FILE
from workers.tasks import rollback
from workers.timeline.extra_metadata import POSITION_KEY, Position

pytestmark = pytest.mark.sampled(every=2)

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
BERGEN = {"id": "1", "ts": 2, "city": "Bergen"}
CSV = {"kind": "csv", "path": "/data/weather.csv"}
ENDS = ["failed", "cancelled", "fenced", "rolled_back", "conflicted"]


def wrote(lake: Lake, by: User, **source: Any) -> Operation:
    return do_request_write(table=lake.row, parameters={"source": {**CSV, **source}}, by=by)


def stated(operation: Operation) -> str:
    operation.refresh_from_db()
    return operation.state


def say(operation: Operation, state: str, **more: Any) -> str:
    do_record_report({"operation_id": str(operation.pk), "state": state, **more})
    return stated(operation)


def corrected(operation: Operation, *, after: timedelta = timedelta(seconds=5)) -> str:
    sync_table(operation.table)
    correct_ends(timezone.now() + after)
    return stated(operation)


@pytest.mark.parametrize("claim", ENDS)
def test_a_write_whose_heart_beats_has_not_ended_and_ends_as_it_commits(
    lake: Lake, admin: User, claim: str
) -> None:
    operation = wrote(lake, admin)
    write = lake.begin(OSLO, operation_id=str(operation.pk))
    say(operation, "running", instant=write.instant)

    assert say(operation, claim, message="no luck") == "running"

    assert f"reported {claim}" in operation.message
    write.commit()
    assert say(operation, "succeeded") == "succeeded"


@pytest.mark.parametrize("claim", ENDS)
def test_a_driver_of_this_machine_has_not_ended_before_its_last_word(
    lake: Lake, claim: str, admin: User, running: Callable[..., Operation]
) -> None:
    """Of a sink; a write's driver is looked at in the same way."""
    operation = running()
    acquire_epoch(lake.table.storage, SINK, system_ports(), owner="another/c-2")

    assert say(operation, claim) == "running"

    ending = {"state": claim, "message": "no such topic", "instant": None}
    (Path(run_dir(operation.pk)) / ENDING_FILE).write_text(json.dumps(ending))
    ends = {"fenced": "fenced", "cancelled": "running"}  # Nobody asked it to stop.
    assert say(operation, claim, message="no such topic") == ends.get(claim, "failed")


@pytest.mark.parametrize("claim", ENDS)
def test_a_write_that_commits_after_it_was_believed_to_have_failed_has_succeeded(
    lake: Lake, admin: User, claim: str
) -> None:
    operation = wrote(lake, admin)
    assert say(operation, claim) == "failed"

    at = lake.commit(OSLO, operation_id=str(operation.pk))

    assert corrected(operation) == "succeeded"
    assert (operation.instant, at in operation.message) == (at, True)
    assert AuditEvent.objects.filter(what="operation.write", result="succeeded").exists()
    assert correct_ends(timezone.now()) == 0


def test_only_what_somebody_cancelled_is_cancelled(lake: Lake, admin: User) -> None:
    left_alone, cancelled = wrote(lake, admin), wrote(lake, admin)
    do_request_cancel(operation=cancelled, by=admin)

    assert say(left_alone, "cancelled", message="I stop") == "failed"
    assert left_alone.message == "its worker reported cancelled: I stop"
    assert say(cancelled, "cancelled") == "cancelled"


def test_a_cancelled_write_that_commits_after_all_says_so(lake: Lake, admin: User) -> None:
    operation = wrote(lake, admin)
    do_request_cancel(operation=operation, by=admin)
    assert say(operation, "cancelled", message="cancelled") == "cancelled"

    at = lake.commit(OSLO, operation_id=str(operation.pk))

    assert corrected(operation) == "cancelled"
    assert (operation.message, operation.instant) == (f"cancelled; {at} was committed", at)


def test_a_conflict_of_somebody_else_is_not_its_own(lake: Lake, admin: User) -> None:
    other, liar = wrote(lake, admin), wrote(lake, admin)
    loser = lake.begin(OSLO, mode=OPTIMISTIC, operation_id=str(other.pk))
    sync_table(lake.row)
    lake.begin(BERGEN, mode=OPTIMISTIC).commit()
    loser.commit()
    sync_table(lake.row)

    say(liar, "running", instant=loser.instant)

    assert liar.instant == ""
    assert say(liar, "conflicted", message="lost") == "failed"
    assert say(other, "conflicted", instant=loser.instant) == "conflicted"


def test_an_instant_that_is_not_there_hides_no_commit(lake: Lake, admin: User) -> None:
    operation = wrote(lake, admin)
    folder = Path(run_dir(operation.pk))
    folder.mkdir(parents=True)
    (folder / DRIVER_FILE).write_text(json.dumps({"pid": 2**22 - 1}))
    at = lake.commit(OSLO, operation_id=str(operation.pk))
    say(operation, "running", instant="99990101000000000")

    do_reconcile(now=timezone.now() + timedelta(minutes=1))

    assert stated(operation) == "succeeded"
    assert at in operation.message


def round_written(lake: Lake, operation: Operation, number: int) -> str:
    write = lake.begin(OSLO, operation_id=str(operation.pk))
    extra = ((POSITION_KEY, Position(0, number).encode()),)
    write.transaction._request = replace(write.transaction._request, extra=extra)
    write.commit()
    return write.instant


def test_rounds_are_counted_on_the_timeline(lake: Lake, admin: User) -> None:
    source = {"kind": "demo_stream", "stream": "clicks", "rounds": 2}
    operation = do_request_write(table=lake.row, parameters={"source": source}, by=admin)
    assert say(operation, "succeeded") == "queued", "nothing is written"
    round_written(lake, operation, 0)
    all_told = {"done": 2, "total": 2, "unit": "rounds"}

    assert say(operation, "progress", progress=all_told) == "running"
    assert say(operation, "succeeded") == "running"

    round_written(lake, operation, 1)
    assert say(operation, "succeeded") == "succeeded"


def test_progress_of_rounds_makes_no_failure_of_a_write_that_has_one(
    lake: Lake, admin: User
) -> None:
    operation = wrote(lake, admin)
    lake.commit(OSLO, operation_id=str(operation.pk))
    say(operation, "progress", progress={"done": 1, "total": 40, "unit": "rounds"})

    assert say(operation, "failed") == "succeeded"


@pytest.mark.parametrize("claim", ENDS)
def test_a_rollback_that_was_reported_as_failed_is_done_once_it_is(
    lake: Lake, admin: User, claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_TABLE_ROOTS", str(Path(lake.row.location).parent))
    target = lake.commit(OSLO)
    operation = ask_rollback(lake, target, admin)
    say(operation, "running")
    assert say(operation, claim) == "failed"

    rollback.apply(args=[operation.parameters["job"] | {"report_url": None}]).get()

    assert corrected(operation) == "succeeded"


@pytest.mark.parametrize("claim", ENDS)
def test_a_service_that_was_reported_as_failed_is_done_once_it_is(
    lake: Lake, operator: User, claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_TABLE_ROOTS", str(Path(lake.row.location).parent))
    lake.commit(OSLO)
    lake.commit(BERGEN)
    operation = begun(lake, "compaction", operator)
    assert say(operation, claim) == "failed"

    work(operation, report_url=None)

    assert corrected(operation, after=timedelta(hours=1)) == "succeeded"


def test_what_leaves_no_trace_is_looked_at_while_a_worker_is_at_it(lake: Lake, admin: User) -> None:
    do_start_sink(lake.row, OPTIONS, by=admin)
    operation = do_request_replay(lake.row, SINK, by=admin, instant=leave_out(lake.row), reason="x")
    assert say(operation, "failed") == "failed"
    later = LOOKED_AT_FOR * 2

    with hold_run_lock(run_dir(operation.pk), SystemClock()):
        assert corrected(operation, after=later) == "failed"
    sent_by(lake, operation, is_sent=True)

    assert corrected(operation, after=later + timedelta(seconds=5)) == "succeeded"


def sent_by(lake: Lake, operation: Operation, *, is_sent: bool) -> None:
    letters = (DeadLetterId(TOPIC, 0, 7), DeadLetterId(TOPIC, 0, 9))
    replay = Replay(1, str(operation.pk), "ada", NOW_MS, letters, ((0, 10),))
    assert claim_letters(storage_of(lake.row), SINK, replay)
    store_end(storage_of(lake.row), SINK, replay, is_sent=is_sent)


@pytest.mark.parametrize(
    ("token", "ends"), [("own", "succeeded"), ("another", "succeeded"), ("", "failed")]
)
def test_a_replay_has_succeeded_where_its_letters_are_marked_as_sent(
    lake: Lake, admin: User, token: str, ends: str
) -> None:
    do_start_sink(lake.row, OPTIONS, by=admin)
    operation = do_request_replay(lake.row, SINK, by=admin, instant=leave_out(lake.row), reason="x")
    if token:
        sender = operation if token == "own" else Operation(pk=start_again(lake, admin))
        sent_by(lake, sender, is_sent=True)

    assert say(operation, "succeeded") == ends


def start_again(lake: Lake, by: User) -> Any:
    return wrote(lake, by).pk


def test_a_sink_is_fenced_only_by_a_later_launch(lake: Lake, admin: User) -> None:
    storage, ports = storage_of(lake.row), system_ports()
    operation = do_start_sink(lake.row, OPTIONS, by=admin)
    assert say(operation, "fenced") == "failed", "no epoch stands"
    mine = do_start_sink(lake.row, OPTIONS, by=admin)
    acquire_epoch(storage, SINK, ports, owner=f"{to_run_id(str(mine.pk))}/c-1")
    assert say(mine, "fenced") == "failed", "the epoch is its own"
    fenced = do_start_sink(lake.row, OPTIONS, by=admin)
    acquire_epoch(storage, SINK, ports, owner=f"{to_run_id(str(fenced.pk))}/c-1")
    acquire_epoch(storage, SINK, ports, owner="another/c-2")

    assert say(fenced, "fenced", message="taken over") == "fenced"


def test_the_epoch_of_an_earlier_launch_is_no_fence(lake: Lake, admin: User) -> None:
    acquire_epoch(storage_of(lake.row), SINK, system_ports(), owner="before/c-1")
    operation = do_start_sink(lake.row, OPTIONS, by=admin)
    later = timezone.now() + timedelta(minutes=1)
    Operation.objects.filter(pk=operation.pk).update(requested_at=later)

    assert say(operation, "fenced") == "failed"


def test_a_stop_of_an_earlier_launch_ends_no_later_one_well(lake: Lake, admin: User) -> None:
    old = StopRequest(StopKind.HARD, "olaf", NOW_MS - 600_000)
    request_stop(storage_of(lake.row), SINK, old)
    operation = do_start_sink(lake.row, OPTIONS, by=admin)

    assert say(operation, "cancelled") == "queued"
    do_stop_sink(lake.row, SINK, by="olaf", is_hard=True)
    assert say(operation, "cancelled") == "cancelled"


def test_a_sink_that_tells_how_it_is_has_not_failed(lake: Lake, admin: User) -> None:
    operation = do_start_sink(lake.row, OPTIONS, by=admin)
    owner = f"{to_run_id(str(operation.pk))}/c-1"
    state = replace(stuck_state(), owner=owner, updated_ms=SystemClock().now_ms())
    put_state(storage_of(lake.row), state)

    assert say(operation, "failed") == "queued"
    put_state(storage_of(lake.row), replace(state, state="STOPPED"))
    assert say(operation, "failed") == "failed"
