"""How often somebody may guess: for one account from one address, for one account from anywhere,
and for one address whatever the account.

An attempt is counted before the password is looked at and given back when it was right, so of many
at once no more are let through than one after another.

The counters are in the shared cache. While that does not answer each process counts by itself: who
guesses is slowed down all the same, and who knows the password gets in to see what is wrong.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol, TypeVar

from django.core.cache import cache
from django.core.cache.backends.locmem import LocMemCache
from django.utils import timezone
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Limit:
    """Failures within a window that slides: of the last whole one as much counts as it still
    covers.
    """

    scope: str
    failures_max: int
    window_s: int


PAIR = Limit("pair", 5, 60)
ACCOUNT = Limit("account", 20, 600)
"""Above the pair's, so that one who guesses does not shut the account's owner out alone."""
ADDRESS = Limit("address", 20, 60)

Counted = list[str]
"""The counters that an attempt has raised."""

COUNTERS_MAX = 100_000
"""Of one process that counts by itself; above it the oldest make room."""


class Counters(Protocol):
    """What is needed of a cache."""

    def add(self, key: str, value: int, timeout: float) -> bool: ...
    def incr(self, key: str) -> int: ...
    def decr(self, key: str) -> int: ...
    def get(self, key: str, default: int) -> int: ...


OF_THIS_PROCESS = LocMemCache("failed logins", {"OPTIONS": {"MAX_ENTRIES": COUNTERS_MAX}})


def begin_attempt(account: str, address: str) -> Counted | None:
    """None when a limit is reached; then nothing may be tried and nothing was counted."""
    return _counting(lambda counters: _begin(counters, account, address))


def give_back(counted: Sequence[str]) -> None:
    """It was no failure."""
    _counting(lambda counters: _lower(counters, counted))


def _counting(step: Callable[[Counters], _Answer]) -> _Answer:
    """What a step of an attempt gives, by the shared counters or, while they are away, by ours."""
    try:
        return step(cache)
    except RedisError as error:
        log.warning("failed logins are counted by this process alone: error=%s", error)
        return step(OF_THIS_PROCESS)


def _begin(counters: Counters, account: str, address: str) -> Counted | None:
    network = _network(address)
    wanted = [(PAIR, f"{account}\n{network}"), (ACCOUNT, account)]
    if network:
        wanted.append((ADDRESS, network))
    counted: Counted = []
    for limit, who in wanted:
        key, failures = _count(counters, limit, who)
        counted.append(key)
        if failures > limit.failures_max:
            _lower(counters, counted)
            return None
    return counted


def _lower(counters: Counters, counted: Sequence[str]) -> None:
    for key in counted:
        with suppress(ValueError):  # Its window is over, or it was counted elsewhere.
            counters.decr(key)


def _count(counters: Counters, limit: Limit, who: str) -> tuple[str, float]:
    """The raised counter, and the failures of the window that ends now with this one.

    A counter carries its window in its name and outlives it, so it never loses its end in a race
    between ending and counting.
    """
    window, passed_s = divmod(timezone.now().timestamp(), limit.window_s)
    key, earlier = (_key(limit, who, int(window) - back) for back in (0, 1))
    counters.add(key, 0, timeout=2 * limit.window_s)
    now = counters.incr(key)
    before = counters.get(earlier, 0)
    return key, now + before * (1 - passed_s / limit.window_s)


def _key(limit: Limit, who: str, window: int) -> str:
    """Hashed, because a cache takes no blanks in a key and a name may be any text."""
    return f"login:{limit.scope}:{sha256(who.encode(errors='replace')).hexdigest()}:{window}"


def _network(address: str) -> str:
    """One caller has all of a /64 of IPv6; an address that is none stands for itself."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)
