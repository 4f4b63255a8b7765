"""What Redis tells of changes reaches each stream of this process over one connection, and is read
once however many listen.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import redis.asyncio as redis

from controlplane.events import CHANNEL_PREFIX, channel
from controlplane.live.watching import Watched

log = logging.getLogger(__name__)

_CONFIRM_S = 5.0
_LEFT_S = 1.0
"""Nobody is cancelled while Redis connects or reads: a cancellation can be swallowed there (by
Python's `wait_for` before 3.12). Whoever listens for nobody notices it so soon.
"""


class Ear:
    """Kinds of rows that changed and that one stream has not said yet."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.is_deaf = False
        """Redis does not answer any more: nothing will be heard."""
        self._kinds: set[str] = set()
        self._news = asyncio.Event()

    def hear(self, kind: str) -> None:
        self._kinds.add(kind)
        self._news.set()

    def go_deaf(self) -> None:
        self.is_deaf = True
        self._news.set()

    async def changes(self, *, wait_s: float, coalesce_s: float) -> set[str]:
        """The kinds named within `coalesce_s` of the first; empty when none came for `wait_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._news.wait()
        if self._kinds:
            await asyncio.sleep(coalesce_s)
        kinds, self._kinds = self._kinds, set()
        if not self.is_deaf:
            self._news.clear()
        return kinds


class Hub:
    """All streams of one event loop. It listens from the first of them to the last."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._ears: set[Ear] = set()
        self._listening: asyncio.Task[None] | None = None
        self._is_subscribed = asyncio.Event()

    async def join(self, ear: Ear) -> None:
        """Returns once every later change is heard. Raises RedisError."""
        self._ears.add(ear)
        if self._listening is None:
            self._is_subscribed.clear()
            self._listening = asyncio.create_task(self._listen())
        subscribed = asyncio.create_task(self._is_subscribed.wait())
        try:
            await asyncio.wait(
                {subscribed, self._listening},
                timeout=_CONFIRM_S,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            subscribed.cancel()
        if ear.is_deaf or not self._is_subscribed.is_set():
            raise redis.ConnectionError("Redis does not answer")

    def leave(self, ear: Ear) -> None:
        self._ears.discard(ear)

    async def _listen(self) -> None:
        client = redis.Redis.from_url(self._address)
        try:
            async with client.pubsub() as pubsub:
                await pubsub.psubscribe(channel("*"))
                while self._ears:
                    message = await pubsub.get_message(timeout=_LEFT_S)
                    if message is not None and message["type"] == "psubscribe":
                        self._is_subscribed.set()
                    elif message is not None:
                        self._announce(message)
        except redis.RedisError as error:
            log.warning("live streams end, Redis does not answer: error=%s", error)
        finally:
            self._end()
            with suppress(redis.RedisError):
                await client.aclose()

    def _end(self) -> None:
        """Streams that are still there end, which is the message: pages say they are stale, and
        come again.
        """
        self._listening = None
        while self._ears:
            self._ears.pop().go_deaf()

    def _announce(self, message: dict[str, Any]) -> None:
        kind = _kind(message)
        if not kind:
            return
        topic = bytes(message["channel"]).decode(errors="replace").removeprefix(CHANNEL_PREFIX)
        for ear in self._ears:
            if ear.watched.is_all or topic in ear.watched.topics:
                ear.hear(kind)


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Hub]] = WeakKeyDictionary()


def hub_at(address: str) -> Hub:
    """The hub of the running event loop and this Redis; made when it is first wanted."""
    hubs = _hubs.setdefault(asyncio.get_running_loop(), {})
    if address not in hubs:
        hubs[address] = Hub(address)
    return hubs[address]


def _kind(message: dict[str, Any]) -> str:
    """Empty for what is none of our messages."""
    try:
        kind = json.loads(message["data"]).get("kind", "")
    except (ValueError, AttributeError, TypeError):
        return ""
    return kind if isinstance(kind, str) else ""
