"""Dead letters back to their topic, as an operation: who may, what is stored, what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.mirror.storage import storage_of
from controlplane.operations.actions import (
    do_reconcile,
    do_record_report,
    do_request_replay,
    do_start_sink,
    plan_replay,
)
from controlplane.operations.models import Operation
from controlplane.operations.queries import operation_checks
from tests.controlplane.lake import Lake
from tests.controlplane.left_out import leave_out, sent_again
from tests.controlplane.sink_jobs import OPTIONS
from tests.support.sinks import NOW_MS, SINK, TOPIC
from workers.jobs import ReplayJob
from workers.sink.replays import DeadLetterId, Replay, claim_letters, store_end


@pytest.fixture
def instant(lake: Lake, admin: User) -> str:
    """Of a commit that left two records out, by a sink that was launched here."""
    do_start_sink(lake.row, {**OPTIONS, "hoodie.compact.inline": "false"}, by=admin)
    return leave_out(lake.row)


def ask(lake: Lake, by: User, **how: Any) -> Operation:
    return do_request_replay(lake.row, SINK, by=by, **{"reason": "mended", **how})


def test_the_job_has_the_sinks_own_options_and_the_choice(
    lake: Lake, admin: User, instant: str
) -> None:
    operation = ask(lake, admin, instant=instant, letters=["0:9"])

    job = ReplayJob.from_message(operation.parameters["job"])
    assert job.sink_options == OPTIONS
    assert (job.instant, list(job.letters), job.by) == (instant, ["0:9"], "ada")
    assert job.directory == f"{lake.row.location}-dead-letters"
    event = AuditEvent.objects.get(what="sink.replay")
    assert (event.who, event.reason, event.details["letters"]) == ("ada", "mended", 1)


def test_the_plan_counts_what_would_go_and_what_went(lake: Lake, admin: User, instant: str) -> None:
    whole = plan_replay(lake.row, SINK, instant=instant)
    by_cause = plan_replay(lake.row, SINK, cause="not UTF-8")
    sent_again(lake.row, 9)
    later = plan_replay(lake.row, SINK, instant=instant)

    assert (whole.to_send, whole.already, whole.topic) == (2, 0, TOPIC)
    assert whole.causes == ["not JSON", "not UTF-8"]
    assert (by_cause.to_send, by_cause.is_partial) == (1, False)
    assert (later.to_send, later.already, later.last_sent_by) == (1, 1, "bob")


def test_what_is_no_request_is_refused_before_anything_is_stored(
    lake: Lake, admin: User, instant: str
) -> None:
    sent_again(lake.row, 7)
    refused: list[tuple[type[Exception], dict[str, Any], str]] = [
        (InvalidRequest, {"instant": instant, "reason": " "}, "is required"),
        (InvalidRequest, {}, "select the dead letters"),
        (InvalidRequest, {"instant": "yesterday"}, "invalid instant time"),
        (InvalidRequest, {"instant": "20200101000000000"}, "has no dead letters"),
        (InvalidRequest, {"letters": ["0-7"]}, "partition:offset"),
        (NotAllowedNow, {"letters": ["0:8"]}, "dead letter not found"),
        (NotAllowedNow, {"cause": "not JSON"}, "already replayed"),
    ]
    for error, how, said in refused:
        with pytest.raises(error, match=said):
            ask(lake, admin, **how)

    assert not Operation.objects.filter(kind="replay").exists()


def test_of_a_sink_that_was_not_launched_here_the_broker_is_not_known(
    lake: Lake, admin: User
) -> None:
    instant = leave_out(lake.row)

    with pytest.raises(NotAllowedNow, match=r"manage\.py sink replay"):
        ask(lake, admin, instant=instant)


def test_one_replay_of_a_sink_at_a_time(lake: Lake, admin: User, instant: str) -> None:
    first = ask(lake, admin, instant=instant, idempotency_key="k")

    assert ask(lake, admin, instant=instant, idempotency_key="k") == first
    with pytest.raises(NotAllowedNow, match="under way"):
        ask(lake, admin, instant=instant)


def test_a_silent_replay_is_sent_again_while_its_requester_is_an_admin(
    lake: Lake, admin: User, instant: str
) -> None:
    operation = ask(lake, admin, instant=instant)
    Operation.objects.filter(pk=operation.pk).update(state="running")

    do_reconcile(now=timezone.now() + timedelta(seconds=90))
    operation.refresh_from_db()
    assert (operation.state, operation.attempts) == ("running", 1)
    admin.groups.clear()
    do_reconcile(now=timezone.now() + timedelta(seconds=180))

    operation.refresh_from_db()
    assert (operation.state, "no longer authorized" in operation.message) == ("failed", True)


def test_a_replay_whose_first_worker_died_before_it_sent_anything_is_done_by_the_second(
    lake: Lake, admin: User, instant: str
) -> None:
    operation = ask(lake, admin, instant=instant)
    letters = tuple(DeadLetterId(TOPIC, 0, offset) for offset in (7, 9))
    token, storage = str(operation.pk), storage_of(lake.row)
    for number, is_sent in ((1, False), (2, True)):
        replay = Replay(number, token, "ada", NOW_MS, letters, ((0, 10),))
        assert claim_letters(storage, SINK, replay)
        store_end(storage, SINK, replay, is_sent=is_sent)

    do_record_report({"operation_id": token, "state": "succeeded"})

    operation.refresh_from_db()
    assert operation.state == "succeeded", operation.message
    [letters_check] = [one for one in operation_checks(operation.pk) if one.name == "letters"]
    assert (letters_check.is_proved, letters_check.words) == (True, "2 letters are marked as sent")
