"""Live events go out after the commit that caused them, to the table's own channel, through a real
Redis.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator

import pytest
import redis
from django.db import transaction
from pytest_django import Settings

from controlplane import events

WAIT_S_MAX = 60.0


@pytest.fixture
def listener(redis_url: str, settings: Settings) -> Iterator[redis.client.PubSub]:
    settings.SLUICE_REDIS_URL = redis_url
    settings.SLUICE_REDIS_TIMEOUT_S = WAIT_S_MAX
    subscription = redis.Redis.from_url(redis_url).pubsub(  # type: ignore[no-untyped-call]
        ignore_subscribe_messages=True
    )
    subscription.subscribe(events.channel("trips"))
    assert subscription.get_message(timeout=WAIT_S_MAX) is None, "the confirmation, not a message"
    yield subscription
    subscription.close()


def next_event(listener: redis.client.PubSub) -> object:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while (message := listener.get_message(timeout=1)) is None:
        assert time.monotonic() < deadline_s, "no event arrived"
    return json.loads(message["data"])


def assert_silent(listener: redis.client.PubSub, redis_url: str) -> None:
    """Check that nothing was sent before now: Redis keeps the order of what it receives."""
    mark = {"mark": uuid.uuid4().hex}
    with redis.Redis.from_url(redis_url) as client:
        assert client.publish(events.channel("trips"), json.dumps(mark)) == 1
    assert next_event(listener) == mark


@pytest.mark.django_db(transaction=True)
def test_an_event_is_heard_only_after_the_commit(
    listener: redis.client.PubSub, redis_url: str
) -> None:
    with transaction.atomic():
        events.publish_change("trips", "instants", count=2)
        assert_silent(listener, redis_url)

    assert next_event(listener) == {"kind": "instants", "table": "trips", "count": 2}


@pytest.mark.django_db(transaction=True)
def test_what_is_rolled_back_is_never_heard(listener: redis.client.PubSub, redis_url: str) -> None:
    with transaction.atomic():
        events.publish_change("trips", "instants")
        transaction.set_rollback(True)

    assert_silent(listener, redis_url)


@pytest.mark.django_db(transaction=True)
def test_another_tables_event_is_not_heard(listener: redis.client.PubSub, redis_url: str) -> None:
    events.publish_change("other", "instants")

    assert_silent(listener, redis_url)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("address", ["", "unix:///nowhere/r"])
def test_without_redis_nothing_breaks(address: str, settings: Settings) -> None:
    settings.SLUICE_REDIS_URL = address

    events.publish_change("trips", "instants")
