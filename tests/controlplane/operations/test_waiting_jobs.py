"""Jobs that wait behind others: nobody sends them again or gives them up, and what has ended is not
begun any more, however many messages of it are still there.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import redis
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from bench.support.redis_server import RedisServer, redis_server
from controlplane.celery import app
from controlplane.operations.actions import do_give_leave, do_reconcile
from controlplane.operations.engine_queue import QUEUE
from controlplane.operations.models import Operation
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import ask

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
TURNS = [timedelta(seconds=25 * turn) for turn in range(1, 15)]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server("of-a-queue") as started:
        yield started


@pytest.fixture
def queue(server: RedisServer, settings: Settings) -> Iterator[redis.Redis]:
    """The queue is in a Redis, as on a node."""
    before = app.conf.broker_url
    settings.SLUICE_REDIS_URL = server.address
    _send_to(server.address)
    with redis.Redis.from_url(server.address) as client:
        yield client
        client.flushall()
    _send_to(before)


def _send_to(broker: str) -> None:
    app.conf.broker_url = app.conf.broker_write_url = app.conf.broker_read_url = broker
    app._after_fork()  # Forgets the connections that it has.


@pytest.fixture
def waiting(
    queue: redis.Redis,
    lake: Lake,
    admin: User,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> Operation:
    lake.commit(OSLO)
    with django_capture_on_commit_callbacks(execute=True):
        operation = ask(lake, "savepoint", admin)
    operation.refresh_from_db()
    assert operation.sent_at is not None
    return operation


def taken(queue: redis.Redis) -> int:
    """How many messages waited; none does now."""
    count = queue.llen(QUEUE)
    queue.delete(QUEUE)
    assert isinstance(count, int)
    return count


def reconciled(
    operation: Operation,
    callbacks: DjangoCaptureOnCommitCallbacks,
) -> Operation:
    for after in TURNS:
        with callbacks(execute=True):
            do_reconcile(now=timezone.now() + after)
    operation.refresh_from_db()
    return operation


@pytest.mark.parametrize("state", ["queued", "running"])
def test_job_whose_message_waits_is_neither_sent_again_nor_given_up(
    state: str,
    queue: redis.Redis,
    waiting: Operation,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    """Running: its worker died, and it was sent again."""
    Operation.objects.filter(pk=waiting.pk).update(state=state)

    seen = reconciled(waiting, django_capture_on_commit_callbacks)

    assert (seen.state, seen.attempts, taken(queue)) == (state, 0, 1)


def test_job_whose_message_is_lost_is_sent_again_behind_younger_ones(
    queue: redis.Redis,
    waiting: Operation,
    lake: Lake,
    admin: User,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    assert taken(queue) == 1
    with django_capture_on_commit_callbacks(execute=True):
        ask(lake, "delete", admin, parameters={"predicate": "city = 'Oslo'"})

    with django_capture_on_commit_callbacks(execute=True):
        do_reconcile(now=timezone.now() + TURNS[0])

    waiting.refresh_from_db()
    assert (waiting.state, waiting.attempts, taken(queue)) == ("queued", 1, 2)


def test_what_waits_where_nobody_sent_it_as_we_do_is_sent_again(
    queue: redis.Redis,
    waiting: Operation,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    """A message of an older version, or of somebody else, tells nothing."""
    assert taken(queue) == 1
    queue.lpush(QUEUE, b'{"body": "", "headers": {}}')

    with django_capture_on_commit_callbacks(execute=True):
        do_reconcile(now=timezone.now() + TURNS[0])

    waiting.refresh_from_db()
    assert waiting.attempts == 1


def test_worker_gets_no_leave_for_what_has_ended(lake: Lake, admin: User) -> None:
    """Its requester was told that it failed, and may have asked again."""
    lake.commit(OSLO)
    operation = ask(lake, "savepoint", admin)
    assert do_give_leave(operation.pk) is True

    for ended in ("failed", "cancelled", "succeeded", "refused"):
        Operation.objects.filter(pk=operation.pk).update(state=ended)
        assert do_give_leave(operation.pk) is False
