"""What the shell carries out in its own process is an operation as any other: the same checks, a
row, an audit, a proof.
"""

from __future__ import annotations

import re
from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.audit.models import AuditEvent
from controlplane.operations.actions import do_reconcile
from controlplane.operations.ask import Requester
from controlplane.operations.kinds.table_service import ServiceAsk
from controlplane.operations.queries import operation_checks, recent_operations
from controlplane.operations.requesting import Given, do_request
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import begun, sent_jobs
from workers.lakehouse import LakehouseTable

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
BERGEN = {"id": "2", "ts": 1, "city": "Bergen"}


def run(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def cities(lake: Lake) -> list[str]:
    return sorted(LakehouseTable(lake.table).read().column("city").to_pylist())


def test_what_the_shell_carries_out_is_an_operation_with_a_proof_and_no_worker_gets_it(
    lake: Lake,
) -> None:
    lake.commit(OSLO)
    newest = lake.commit(BERGEN)
    sent_jobs()

    run("rollback", "trips", newest, "--yes")
    run("table", "delete", "trips", "city = 'Oslo'", "--yes", "--reason", "asked for")

    rows = {row.kind: row for row in recent_operations(lake.row, None)}
    words = {(event.what, event.result): event for event in AuditEvent.objects.all()}
    assert {row.state for row in rows.values()} == {"succeeded"}
    assert all(row.requested_by.endswith("(shell)") for row in rows.values())
    assert all(check.is_proved for row in rows.values() for check in operation_checks(row.id))
    assert rows["service"].reason == "asked for"
    assert {"operation.rollback", "service.delete"} <= {what for what, _ in words}
    for what in ("operation.rollback", "service.delete"):
        assert words[what, "requested"].who == words[what, "succeeded"].who
    assert sent_jobs() == []


def test_shell_is_refused_what_the_page_is_refused(lake: Lake, admin: User) -> None:
    lake.commit(OSLO)
    lake.commit(BERGEN)
    shown = run("table", "delete", "trips", "city = 'Oslo'")
    [plan_hash] = re.findall(r"--plan-hash (\S+)", shown)
    lake.commit({"id": "9", "ts": 9, "city": "Oslo"})

    with pytest.raises(CommandError, match="the table changed since the plan was shown"):
        run("table", "delete", "trips", "city = 'Oslo'", "--plan-hash", plan_hash)
    begun(lake, "delete", admin, parameters={"predicate": "city = 'Oslo'"})
    with pytest.raises(CommandError, match="this service is under way"):
        run("table", "delete", "trips", "city = 'Oslo'", "--yes")

    assert cities(lake) == ["Bergen", "Oslo", "Oslo"]


def test_what_a_dead_shell_left_is_given_to_no_worker(
    lake: Lake, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    lake.commit(OSLO)
    lake.commit(OSLO)
    ask = ServiceAsk(lake.row, "compaction", {}, is_shell=True)
    shell = Requester(None, "ada (shell)", is_shell=True)
    sent_jobs()

    with django_capture_on_commit_callbacks(execute=True):
        operation = do_request(ask, shell, Given(reason="tidy up"))
        do_reconcile(now=timezone.now() + timedelta(minutes=1))

    operation.refresh_from_db()
    assert (operation.state, operation.message) == (
        "failed",
        "the shell that was at it has ended",
    )
    assert sent_jobs() == []
