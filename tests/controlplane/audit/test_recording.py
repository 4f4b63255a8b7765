"""When a row enters the chain: right after its transaction, never within it."""

from __future__ import annotations

import logging
from contextlib import suppress

import pytest
from django.db import OperationalError, transaction
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.audit.actions import do_record
from controlplane.audit.chain_walk import Link, walk_chain
from controlplane.audit.models import AuditEvent, AuditHead


def record(what: str) -> AuditEvent:
    return do_record(who="ada", what=what, subject="trips", result="done")


@pytest.mark.django_db(transaction=True)
def test_a_row_is_chained_once_its_caller_has_committed_and_a_rolled_back_one_leaves_no_gap(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "controlplane.audit")
    record("first")
    with transaction.atomic():
        within = record("second")
        is_chained_within = AuditEvent.objects.get(pk=within.pk).sequence is not None
        with suppress(ZeroDivisionError), transaction.atomic():
            record("taken back")
            raise ZeroDivisionError
    record("third")

    assert not is_chained_within
    rows = list(AuditEvent.objects.order_by("pk").values_list("what", "sequence"))
    assert rows == [("first", 1), ("second", 2), ("third", 3)]
    assert walk_chain(Link()).problem is None
    # The newest link stands in the log as well, outside the database.
    head = AuditHead.objects.get()
    assert f"audit row: sequence=3 hash={head.hash}" in caplog.messages[-1]


def test_a_database_that_does_not_take_the_link_costs_the_caller_nothing(
    db: None,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_args: object, **_given: object) -> None:
        raise OperationalError("database is locked")

    with monkeypatch.context() as patched:
        patched.setattr(AuditHead, "save", refuse)
        with django_capture_on_commit_callbacks(execute=True):
            record("first")
    waiting = AuditEvent.objects.get(what="first").sequence
    with django_capture_on_commit_callbacks(execute=True):
        record("second")

    assert waiting is None
    assert "audit rows are not chained yet: error=database is locked" in caplog.text
    rows = list(AuditEvent.objects.order_by("pk").values_list("what", "sequence"))
    assert rows == [("first", 1), ("second", 2)]
