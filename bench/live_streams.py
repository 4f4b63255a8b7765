"""A thousand listeners on one web process: how long after a change the last of them knows."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Final

import aiohttp
import redis.asyncio as redis

from bench.engine import JobFailed
from bench.lines import Goal, Line
from controlplane.events import channel

LISTENERS: Final = 1_000
OF_EACH: Final = 20
_EVENTS: Final = 20
_EVERY_S: Final = 1.0
_POLL_S: Final = 0.2
_AT_ONCE: Final = 50
_HEARD: Final = Goal(1, " s", is_least=False)


async def measured_streams(
    base: str, redis_url: str, slug: str, people: Sequence[Mapping[str, str]]
) -> list[Line]:
    """Of each of twenty changes of one table, when each listener to all of its tables heard of it.

    Raises JobFailed when a stream is refused, or ends.
    """
    heard_at: list[list[float]] = [[] for _ in range(LISTENERS)]
    connector = aiohttp.TCPConnector(limit=LISTENERS)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(base, connector=connector, timeout=timeout) as client:
        opening = asyncio.Semaphore(_AT_ONCE)
        ready = [asyncio.Event() for _ in range(LISTENERS)]
        listening = [
            asyncio.create_task(
                _listen(client, opening, people[number // OF_EACH], ready[number], heard)
            )
            for number, heard in enumerate(heard_at)
        ]
        while not all(event.is_set() for event in ready):
            await asyncio.sleep(_POLL_S)
            await asyncio.gather(*(task for task in listening if task.done()))
        sent_at = await _send(redis_url, slug)
        for task in listening:
            task.cancel()
        ended = await asyncio.gather(*listening, return_exceptions=True)
    if any(isinstance(end, JobFailed) for end in ended) or any(len(h) != _EVENTS for h in heard_at):
        raise JobFailed(f"streams ended, or events were lost: {ended[:3]}")
    waits_s = sorted(at - sent_at[number] for heard in heard_at for number, at in enumerate(heard))
    p95_s = waits_s[int(len(waits_s) * 0.95)]
    details = {"median_s": waits_s[len(waits_s) // 2], "max_s": waits_s[-1], "events": _EVENTS}
    name = f"event to {LISTENERS:,} live streams: p95"
    return [Line(name, "(a limit)", p95_s, None, p95_s, _HEARD, details)]


async def _listen(
    client: aiohttp.ClientSession,
    opening: asyncio.Semaphore,
    headers: Mapping[str, str],
    ready: asyncio.Event,
    heard: list[float],
) -> None:
    await opening.acquire()
    async with client.get("/api/v1/events/", headers=headers) as answer:
        opening.release()
        if answer.status != 200:
            raise JobFailed(f"{answer.status} {(await answer.read())[:200]!r}")
        async for line in answer.content:
            if line == b"event: start\n":
                ready.set()
            elif line == b"event: change\n":
                heard.append(time.perf_counter())
    raise JobFailed("a live stream ended")


async def _send(redis_url: str, slug: str) -> list[float]:
    sender, sent_at = redis.Redis.from_url(redis_url), []
    for _ in range(_EVENTS):
        sent_at.append(time.perf_counter())
        await sender.publish(channel(slug), json.dumps({"kind": "instants", "table": slug}))
        await asyncio.sleep(_EVERY_S)
    await sender.aclose()
    return sent_at
