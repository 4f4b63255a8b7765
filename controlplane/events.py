"""Live events: `publish` hands a small JSON value to whoever watches one table.

A hint to look again, never a fact: it may be lost, and no code may depend on its arrival. Events go
out only after the transaction that caused them has committed, so that whoever looks again sees the
change.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import cache
from typing import Literal

import redis
from django.conf import settings
from django.db import transaction

log = logging.getLogger(__name__)

Kind = Literal[
    "instants",
    "files",
    "writers",
    "conflicts",
    "markers",
    "locks",
    "streams",
    "sinks",
    "operations",
    "marker_server",
    "tables",
    "gone",
]
"""`gone` ends the stream of a slug under which no table is any more."""
CHANNEL_PREFIX = "sluice:events:"
EVERYWHERE = "*all"
"""The topic of what belongs to no single table. No slug can look like this."""
REGISTER = "*register"
"""The topic of which tables there are: heard by those alone who see every table."""


def channel(topic: str) -> str:
    return CHANNEL_PREFIX + topic


def publish(topic: str, payload: Mapping[str, object]) -> None:
    """Send `payload` on the channel of `topic` (a table's slug) once the current transaction has
    committed.
    """
    text = json.dumps(payload, default=str)
    transaction.on_commit(lambda: _send(topic, text))


def publish_change(topic: str, kind: Kind, **values: object) -> None:
    """Tell watchers of `topic` that rows of one kind changed."""
    publish(topic, {"kind": kind, "table": topic, **values})


def _send(topic: str, text: str) -> None:
    if not settings.SLUICE_REDIS_URL:
        _warn_once()
        return
    try:
        client = _client(settings.SLUICE_REDIS_URL, settings.SLUICE_REDIS_TIMEOUT_S)
        client.publish(channel(topic), text)
    except redis.RedisError as error:
        log.warning("live event not sent: topic=%s error=%s", topic, error)


@cache
def _client(address: str, timeout_s: float) -> redis.Redis:
    return redis.Redis.from_url(address, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)


@cache
def _warn_once() -> None:
    log.warning("SLUICE_REDIS_URL is not set, so pages do not update automatically")
