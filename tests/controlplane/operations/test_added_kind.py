"""A new kind of operation is one new file: requesting, sending, settling, correcting and showing
know it at once.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.audit.models import AuditEvent
from controlplane.errors import KeyReused, NotAllowedNow
from controlplane.operations import kinds as package
from controlplane.operations.actions import do_reconcile, do_record_report, do_request_cancel
from controlplane.operations.ask import Requester
from controlplane.operations.kinds.kind import kind_of, kinds
from controlplane.operations.models import Operation
from controlplane.operations.requesting import Given, do_request
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import sent_jobs
from tests.support.markup import compact

LATER = timedelta(minutes=1)


@pytest.fixture
def stamp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module, as if it lay in the folder of kinds."""
    folder = str(Path(__file__).parent / "added_kind")
    monkeypatch.setattr(package, "__path__", [*package.__path__, folder])
    kinds.cache_clear()
    yield importlib.import_module("controlplane.operations.kinds.stamp")
    del sys.modules["controlplane.operations.kinds.stamp"]
    kinds.cache_clear()


@pytest.fixture
def stamping(
    stamp: Any,
    lake: Lake,
    operator: User,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> Operation:
    sent_jobs()  # Of other tests.
    with django_capture_on_commit_callbacks(execute=True):
        return request(stamp, lake, operator)


def request(stamp: Any, lake: Lake, by: User, text: str = "seen", key: str = "k") -> Operation:
    given = Given(reason="to see it", idempotency_key=key)
    return do_request(stamp.StampAsk(lake.row, text), Requester.person(by), given)


def begun(operation: Operation) -> Operation:
    do_record_report({"operation_id": str(operation.pk), "state": "running", "message": "begins"})
    operation.refresh_from_db()
    return operation


def test_it_is_requested_once_by_who_may_and_launched(
    stamp: Any, stamping: Operation, lake: Lake, operator: User, viewer: User
) -> None:
    [(task, message)] = sent_jobs()

    assert (stamping.kind, stamping.state) == ("stamp", "queued")
    assert (task, message) == ("tests.put_stamp", stamping.parameters["job"])
    assert request(stamp, lake, operator).pk == stamping.pk
    with pytest.raises(KeyReused):
        request(stamp, lake, operator, text="another")
    with pytest.raises(PermissionDenied):
        request(stamp, lake, viewer)
    [requested] = AuditEvent.objects.filter(what="operation.stamp")
    assert (requested.who, requested.result) == (operator.username, "requested")


def test_one_whose_worker_died_is_settled_by_what_storage_shows(
    stamp: Any, stamping: Operation
) -> None:
    [(_, message)] = sent_jobs()
    begun(stamping)
    stamp.put_stamp(message)

    do_reconcile(now=timezone.now() + LATER)

    stamping.refresh_from_db()
    assert (stamping.state, stamping.message) == ("succeeded", "the stamp is there")
    assert AuditEvent.objects.filter(what="operation.stamp", result="succeeded").count() == 1


def test_one_that_died_without_its_effect_goes_to_another_worker(
    stamping: Operation, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    first = sent_jobs()
    begun(stamping)

    with django_capture_on_commit_callbacks(execute=True):
        do_reconcile(now=timezone.now() + LATER)

    assert sent_jobs() == first
    stamping.refresh_from_db()
    assert (stamping.state, stamping.attempts) == ("running", 1)


def test_a_claim_that_storage_does_not_bear_out_ends_nothing(stamping: Operation) -> None:
    do_record_report({"operation_id": str(stamping.pk), "state": "succeeded"})

    stamping.refresh_from_db()
    assert stamping.message == "its worker reported succeeded, but storage does not confirm it"
    assert stamping.state == "queued"


def test_it_is_cancelled_and_is_shown_with_its_proof(
    stamp: Any, stamping: Operation, operator: User, viewer: User, client: Client
) -> None:
    client.force_login(operator)
    page = f"/t/trips/operations/{stamping.pk}"
    waiting = compact(client.get(page).content.decode())
    begun(stamping)
    stamp.put_stamp(stamping.parameters["job"])
    do_record_report({"operation_id": str(stamping.pk), "state": "succeeded"})

    proved = compact(client.get(page).content.decode())
    listed = client.get("/api/v1/operations/?kinds=stamp").json()["results"]

    assert "A stamp for the table" in waiting
    assert "Stop run" in waiting
    assert waiting.count("</svg> waiting<") == 1
    assert proved.count("</svg> verified<") == 1
    assert "The stamp is there" in proved
    assert [row["id"] for row in listed] == [str(stamping.pk)]
    with pytest.raises(NotAllowedNow, match="has ended"):
        do_request_cancel(operation=read_again(stamping), by=operator)


def test_a_kind_of_another_version_stops_nobody_else(lake: Lake, operator: User) -> None:
    foreign = Operation.objects.create(table=lake.row, kind="dance", state="running")

    looked_at = do_reconcile(now=timezone.now() + LATER)

    assert looked_at == 1
    with pytest.raises(NotAllowedNow, match="unknown kind"):
        kind_of(foreign)


def read_again(operation: Operation) -> Operation:
    return Operation.objects.get(pk=operation.pk)
