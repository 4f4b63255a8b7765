"""Logs in the database: one INSERT per batch, each line once, masked, and limits that are said."""

from __future__ import annotations

import logging
import uuid
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from controlplane.operations import log_collecting, log_limits
from controlplane.operations.actions import do_append_lines, do_reconcile, do_request_write
from controlplane.operations.log_queries import log_as_text, log_page
from controlplane.operations.models import LogLine as StoredLine
from controlplane.operations.models import Operation
from controlplane.operations.run_dirs import run_dir
from controlplane.tables.models import Table
from workers.reporting.stored_lines import LogLine

NOW_MS = 1_700_000_000_000


@pytest.fixture
def operation(root: Path, admin: User) -> Operation:
    table = Table.objects.create(slug="trips", name="Trips", location=str(root / "trips"))
    parameters = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
    operation = do_request_write(table=table, parameters=parameters, by=admin)
    StoredLine.objects.all().delete()
    return operation


def line(number: int, message: str = "", *, level: int = logging.INFO) -> LogLine:
    return LogLine(number, NOW_MS + number, level, "workers.write", message or f"line {number}")


def append(operation: Operation, *lines: LogLine, stream: str = "worker-0.log") -> bool:
    return do_append_lines(operation.pk, lines, host="here", stream=stream)


def messages(operation: Operation) -> list[str]:
    return [row.message for row in log_page(operation.pk, is_whole=True, limit=1_000).rows]


def test_a_batch_is_one_query(operation: Operation) -> None:
    with CaptureQueriesContext(connection) as queries:
        append(operation, *(line(number) for number in range(90)))

    statements = [query["sql"] for query in queries if "SAVEPOINT" not in query["sql"]]
    assert len(statements) == 1, statements
    assert len(messages(operation)) == 90


def test_a_line_that_comes_twice_is_stored_once(operation: Operation) -> None:
    append(operation, line(0), line(80))
    append(operation, line(80), line(160))
    append(operation, line(0, "of another file"), stream="driver.log")

    assert messages(operation) == ["line 0", "line 80", "line 160", "of another file"]


@pytest.mark.django_db(transaction=True)
def test_lines_of_no_operation_are_told_so() -> None:
    assert not do_append_lines(uuid.uuid4(), [line(0)], host="here", stream="worker-0.log")
    assert not StoredLine.objects.exists()


def test_what_is_stored_has_no_secret_and_no_line_break(
    operation: Operation, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SLUICE_MARKER_SECRET = "c4nary-marker"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "c4nary-bucket")

    append(operation, line(0, "c4nary-marker\nc4nary-bucket \x1b[31m password=c4nary \u202e"))

    [message] = messages(operation)
    assert message == "***\\n*** \\x1b[31m password=*** \\u202e"


def test_a_long_log_keeps_its_ends_and_says_how_much_went(
    operation: Operation, settings: Settings
) -> None:
    settings.SLUICE_OPERATION_LOG_LINES = 100
    append(operation, *(line(number) for number in range(150)))
    log_limits.do_trim(operation.pk)
    append(operation, *(line(number) for number in range(150, 180)))
    log_limits.do_trim(operation.pk)

    kept = messages(operation)
    [gap] = StoredLine.objects.filter(dropped__gt=0)

    assert kept[:20] == [f"line {number}" for number in range(20)]
    assert kept[-70:] == [f"line {number}" for number in range(110, 180)]
    assert kept[20] == gap.message
    assert (len(kept), gap.dropped) == (91, 90)
    assert gap.message.startswith("90 lines were dropped here: a log keeps 100 lines")


def test_a_busy_log_is_kept_within_its_limit_as_it_grows(
    operation: Operation, settings: Settings
) -> None:
    settings.SLUICE_OPERATION_LOG_LINES = 100
    for batch in range(60):
        append(operation, *(line(at * 100) for at in range(batch * 90, (batch + 1) * 90)))

    counted = StoredLine.objects.filter(operation=operation)
    dropped = sum(counted.values_list("dropped", flat=True))

    assert counted.count() < 2_000
    assert counted.filter(dropped=0).count() + dropped == 60 * 90


def test_old_lines_go_and_long_logs_are_trimmed(operation: Operation, settings: Settings) -> None:
    settings.SLUICE_OPERATION_LOG_LINES = 10
    now = timezone.now()
    append(operation, *(line(number) for number in range(30)))
    StoredLine.objects.filter(number__gte=5).update(at=now)

    assert log_limits.forget_logs(now=now) == 5 + 15

    assert messages(operation)[0] == "line 5"
    assert StoredLine.objects.filter(dropped=16).exists()


def test_pages_lead_both_ways_and_find_by_level_and_text(operation: Operation) -> None:
    append(operation, *(line(number) for number in range(10)))
    append(operation, line(10, "slow disk", level=logging.WARNING))

    newest = log_page(operation.pk, is_whole=True, limit=4)
    older = log_page(operation.pk, is_whole=True, limit=4, before=newest.older)
    oldest = log_page(operation.pk, is_whole=True, limit=4, before=older.older)
    again = log_page(operation.pk, is_whole=True, limit=4, after=older.newer)

    assert [row.message for row in newest.rows] == ["line 7", "line 8", "line 9", "slow disk"]
    assert [row.message for row in oldest.rows] == ["line 0", "line 1", "line 2"]
    assert oldest.older is None
    assert again.rows == newest.rows
    assert log_page(operation.pk, is_whole=True, after=newest.newer).rows == []
    assert [row.message for row in log_page(operation.pk, is_whole=True, level="warning").rows] == [
        "slow disk"
    ]
    assert [row.message for row in log_page(operation.pk, is_whole=True, text="DISK").rows] == [
        "slow disk"
    ]
    assert len(log_page(operation.pk, is_whole=True, text="workers.wri").rows) == 11


def test_what_a_dead_process_had_not_reported_is_read_from_its_file(operation: Operation) -> None:
    folder = Path(run_dir(operation.pk))
    folder.mkdir(parents=True)
    (folder / "driver.log").write_text(
        "2026-01-01T00:00:00.000+00:00 INFO workers.spark wrote\n"
        "2026-01-01T00:00:01.000+00:00 ERROR workers.spark token=c4nary\n"
        "Killed"
    )
    log_collecting.do_collect([operation])
    (folder / "worker-3.log").write_text("2026-01-01T00:00:02.000+00:00 INFO workers.tasks again\n")
    log_collecting.do_collect([operation])

    assert log_collecting.do_collect([operation]) == 0
    rows = log_page(operation.pk, is_whole=True).rows
    assert [(row.message, row.level, row.attempt) for row in rows] == [
        ("wrote", "info", 1),
        ("token=***", "error", 1),
        ("Killed", "info", 1),
        ("again", "info", 4),
    ]


def test_a_process_elsewhere_that_is_gone_leaves_word_of_what_is_lost(
    operation: Operation,
) -> None:
    log_collecting.do_collect_of_gone(operation)
    log_collecting.do_collect_of_gone(operation)

    [message] = messages(operation)
    assert message.endswith("what it had not reported of its log is lost")


def test_the_log_tells_the_states_of_its_operation(operation: Operation) -> None:
    Operation.objects.filter(pk=operation.pk).update(
        requested_at=timezone.now() - timedelta(minutes=1), attempts=10
    )
    do_reconcile()

    [row] = log_page(operation.pk, is_whole=True).rows
    assert (row.message, row.level) == ("queued -> failed: no worker took it", "error")


def test_the_shell_reads_and_follows_a_log(
    operation: Operation, capsys: pytest.CaptureFixture[str]
) -> None:
    append(operation, line(0), line(1, "slow disk", level=logging.WARNING))
    Operation.objects.filter(pk=operation.pk).update(state="succeeded")

    call_command("operation", "log", str(operation.pk))
    whole = capsys.readouterr().out
    call_command("operation", "log", str(operation.pk), "--follow", "--level", "warning")
    followed = capsys.readouterr().out

    assert whole == "".join(log_as_text(operation.pk, is_whole=True))
    assert followed == "2023-11-14T22:13:20.001Z WARNING  here#1 workers.write slow disk\n"
    with pytest.raises(CommandError, match="not found"):
        call_command("operation", "log", str(uuid.uuid4()))
