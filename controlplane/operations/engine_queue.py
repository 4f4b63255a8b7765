"""Whether a job's message still waits in the queue of the workers. They take the oldest first, so a
message is there for as long as an older one is, or itself. Only Redis can be asked.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime
from functools import cache
from typing import Final

import redis
from django.conf import settings

from controlplane.operations.models import Operation

log = logging.getLogger(__name__)

QUEUE: Final = "engine"
SENT_AT: Final = "sluice_sent_at"
"""The header of a job's message that says when it was sent."""
_TIMEOUT_S: Final = 2


def waits_in_queue(operation: Operation) -> bool:
    """Whether the message that was sent last has not been taken: all workers are at other jobs, or
    there are none. False where the queue cannot be looked into.
    """
    oldest = _oldest_sent_at()
    return oldest is not None and operation.sent_at is not None and oldest <= operation.sent_at


def _oldest_sent_at() -> datetime | None:
    """Of the message that is taken next; None where none waits."""
    if not settings.SLUICE_REDIS_URL:
        return None
    try:
        # Celery puts in on the left.
        message = _client(settings.SLUICE_REDIS_URL).lindex(QUEUE, -1)
        return None if message is None else _sent_at(message)
    except (redis.RedisError, ValueError, KeyError, TypeError) as error:
        log.warning("the queue cannot be read: error=%s", error)
        return None


def _sent_at(message: bytes | str) -> datetime:
    at = datetime.fromisoformat(json.loads(message)["headers"][SENT_AT])
    if at.tzinfo is None:
        raise ValueError("expected a time with a time zone")
    return at


@cache
def _client(address: str) -> redis.Redis:
    return redis.Redis.from_url(
        address, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S
    )
