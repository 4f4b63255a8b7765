"""The live stream: one open answer per browser tab that says which kinds of rows changed, never
what they hold.

A page fetches its own fragments again, from the same addresses as before, so the stream needs no
permission of its own beyond the table's. Whoever does not see every table hears of those that he
sees and of no other. What he may hear is looked at again every `LOOK_AGAIN_S`: where it differs the
stream ends. Every stream ends after `STREAM_S_MAX`; the browser comes back, and is asked again who
it is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import redis.asyncio as redis
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_GET

from controlplane.events import EVERYWHERE, channel
from controlplane.tables.access import (
    Permission,
    access_table,
    may_everywhere,
    may_see_some,
    visible_tables,
)
from web.stream_seats import NoSeat, Seat, free_seat, take_seat

PING_S = 4.0
"""Below the ten seconds after which a page calls itself stale, with room for one lost ping."""
COALESCE_S = 0.15
LOOK_AGAIN_S = 10.0
"""A role that was taken away is heard with for no longer than this and a ping."""
STREAM_S_MAX = 600.0
RETRY_MS = 2_000
GONE = "gone"
"""Under this slug there is no table any more: it was renamed or unregistered."""
FULL_RETRY_S = 10


@dataclass(frozen=True, slots=True)
class Watched:
    """What a stream listens to."""

    channels: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    is_of_one_table: bool = False


Look = Callable[[], Watched]
"""What somebody may listen to now. Raises PermissionDenied, Http404."""


@require_GET
async def table_events(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Changes of one table."""

    def look(user_key: int) -> Watched:
        access_table(_user(user_key), slug, Permission.VIEW)
        return Watched(channels=(channel(slug), channel(EVERYWHERE)), is_of_one_table=True)

    return await _answer(request, look)


@require_GET
async def all_events(request: HttpRequest) -> HttpResponseBase:
    """Changes of every table that the listener sees."""
    return await _answer(request, _watched_of)


def _watched_of(user_key: int) -> Watched:
    user = _user(user_key)
    if may_everywhere(user, Permission.VIEW):
        return Watched(patterns=(channel("*"),))
    if not may_see_some(user):
        raise PermissionDenied("this needs the role viewer")
    slugs = visible_tables(user).values_list("slug", flat=True)
    return Watched(channels=(*(channel(slug) for slug in slugs), channel(EVERYWHERE)))


def _user(key: int) -> User | AnonymousUser:
    """As the database knows this user now; anonymous once there is none."""
    return User.objects.filter(pk=key).first() or AnonymousUser()


async def _answer(request: HttpRequest, look: Callable[[int], Watched]) -> HttpResponseBase:
    user = await request.auser()
    if not user.is_authenticated:
        return HttpResponse("sign in first", status=401)
    look_again = partial(look, user.pk)
    try:
        watched = await sync_to_async(look_again)()
    except PermissionDenied as error:
        return HttpResponse(str(error), status=403)
    except Http404 as error:
        return HttpResponse(str(error), status=404)
    return _stream(user.pk, watched, look_again)


def _stream(user: object, watched: Watched, look: Look) -> HttpResponseBase:
    if not settings.SLUICE_REDIS_URL:
        # The page falls back on asking every few seconds.
        return HttpResponse("live events need Redis", status=503)
    try:
        seat = take_seat(user)
    except NoSeat as full:
        status = 503 if full.is_of_node else 429
        return HttpResponse(str(full), status=status, headers={"Retry-After": str(FULL_RETRY_S)})
    events = _event_stream(seat, watched, look)
    response = StreamingHttpResponse(events, content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"
    return response


async def _event_stream(seat: Seat, watched: Watched, look: Look) -> AsyncIterator[str]:
    """`start` once every later change is heard; `ping` at least every few seconds; `change` with
    the kinds that changed, many at once when they come fast. A stream of one table may end with
    `gone`.

    What changed before `start`, since the page was made or since the last stream ended, was told to
    nobody: at `start` the page asks for everything again.
    """
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + STREAM_S_MAX
    client = redis.Redis.from_url(settings.SLUICE_REDIS_URL)
    try:
        async with client.pubsub(ignore_subscribe_messages=True) as pubsub:
            if watched.channels:
                await pubsub.subscribe(*watched.channels)
            if watched.patterns:
                await pubsub.psubscribe(*watched.patterns)
            _end_if_cancelled()
            yield f"retry: {RETRY_MS}\n{_event('start', {})}"
            look_at = loop.time() + LOOK_AGAIN_S
            while loop.time() < ends_at:
                kinds = await _changes(pubsub)
                if loop.time() >= look_at:
                    if not await sync_to_async(_is_still)(watched, look):
                        return
                    look_at = loop.time() + LOOK_AGAIN_S
                _end_if_cancelled()
                if GONE in kinds and watched.is_of_one_table:
                    yield _event(GONE, {})
                    return
                yield _event("change", {"kinds": sorted(kinds)}) if kinds else _event("ping", {})
    except redis.RedisError:
        # Ending the answer is the message: the page says it is stale and asks by itself.
        return
    finally:
        free_seat(seat)
        with suppress(redis.RedisError):
            await client.aclose()


def _is_still(watched: Watched, look: Look) -> bool:
    """Whether the same may be listened to as when the stream began."""
    try:
        return look() == watched
    except (PermissionDenied, Http404):
        return False


def _end_if_cancelled() -> None:
    """A cancellation that comes while Redis connects or subscribes can be swallowed on the way
    (Python's `wait_for` before 3.12): a browser that went away kept its seat for ten minutes."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _changes(pubsub: Any) -> set[str]:
    """The kinds named within a short moment of the first; empty when none came for `PING_S`."""
    kinds: set[str] = set()
    loop = asyncio.get_running_loop()
    until = loop.time() + PING_S
    while (left := until - loop.time()) > 0:
        message = await pubsub.get_message(timeout=left)
        kind = _kind(message)
        if kind and not kinds:
            until = loop.time() + COALESCE_S
        if kind:
            kinds.add(kind)
    return kinds


def _kind(message: Any) -> str:
    if not message or message.get("type") not in ("message", "pmessage"):
        return ""
    try:
        kind = json.loads(message["data"]).get("kind", "")
    except (ValueError, AttributeError):
        return ""
    return kind if isinstance(kind, str) else ""


def _event(name: str, body: dict[str, object]) -> str:
    return f"event: {name}\ndata: {json.dumps(body)}\n\n"
