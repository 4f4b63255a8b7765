"""The live stream: one open answer that says which kinds of rows changed, never what they hold.

Whoever hears it asks again for what he shows, from the same addresses as before, so that the stream
needs no permission of its own beyond the table's. Whoever does not see every table hears of those
that he sees and of no other; where that changes the stream ends. Every stream ends after
`STREAM_S_MAX`; a browser comes back, and is asked again who it is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import redis.asyncio as redis
from django.conf import settings
from django.http import StreamingHttpResponse

from controlplane.live.hub import Ear, hub_at
from controlplane.live.seats import NoStream, Seat, free_seat, take_seat
from controlplane.live.watching import Listener, Watched, watch_of

CONTENT_TYPE = "text/event-stream"
PING_S = 4.0
"""Below the ten seconds after which a page calls itself stale, with room for one lost ping."""
COALESCE_S = 0.15
STREAM_S_MAX = 600.0
RETRY_MS = 2_000
GONE = "gone"
"""Under this slug there is no table any more: it was renamed or unregistered."""


def stream_to(listener: Listener, watched: Watched) -> StreamingHttpResponse:
    """The open answer. Raises NoStream without Redis, or when the node has no more streams, NoSeat
    when this person has none: whoever asks falls back on asking every few seconds.
    """
    if not settings.SLUICE_REDIS_URL:
        raise NoStream("live events need Redis")
    events = _event_stream(take_seat(listener.user_key), listener, watched)
    response = StreamingHttpResponse(events, content_type=CONTENT_TYPE)
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"
    return response


async def _event_stream(seat: Seat, listener: Listener, watched: Watched) -> AsyncIterator[str]:
    """`start` once every later change is heard; `ping` at least every few seconds; `change` with
    the kinds that changed, many at once when they come fast. A stream of one table may end with
    `gone`.

    What changed before `start`, since the page was made or since the last stream ended, was told to
    nobody: at `start` the page asks for everything again.
    """
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + STREAM_S_MAX
    hub, ear, watch = hub_at(settings.SLUICE_REDIS_URL), Ear(watched), watch_of(listener, watched)
    try:
        await hub.join(ear)
        yield f"retry: {RETRY_MS}\n{_event('start', {})}"
        while loop.time() < ends_at:
            kinds = await ear.changes(wait_s=PING_S, coalesce_s=COALESCE_S)
            if ear.is_deaf or not await watch.holds():
                return
            if GONE in kinds and listener.slug:
                yield _event(GONE, {})
                return
            yield _event("change", {"kinds": sorted(kinds)}) if kinds else _event("ping", {})
    except redis.RedisError:
        # Ending the answer is the message: the page says it is stale and asks by itself.
        return
    finally:
        free_seat(seat)
        hub.leave(ear)


def _event(name: str, body: dict[str, object]) -> str:
    return f"event: {name}\ndata: {json.dumps(body)}\n\n"
