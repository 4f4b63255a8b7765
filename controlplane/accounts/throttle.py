"""Limits on failed logins: for an account from one address, for an account from all addresses, and
for an address with all accounts.

An attempt is counted before the password is checked, and refunded if it was correct. So concurrent
attempts cannot exceed a limit.

The counters are in the shared cache. While it does not answer, each process counts its own
attempts: guessing is still limited, and users with a password can sign in to find the cause.
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
    """A limit on failures in a sliding window: the previous window counts with the share of it
    that the sliding window still covers.
    """

    scope: str
    failures_max: int
    window_s: int


PAIR = Limit("pair", 5, 60)
ACCOUNT = Limit("account", 20, 600)
"""Higher than the limit of a pair, so that a single attacker cannot lock out the owner."""
ADDRESS = Limit("address", 20, 60)

CounterKeys = list[str]
"""The keys of the counters that an attempt has raised."""

COUNTERS_MAX = 100_000
"""The counters of one process without the shared cache; above it the oldest are evicted."""


class Counters(Protocol):
    """A cache with counters."""

    def add(self, key: str, value: int, timeout: float) -> bool: ...
    def incr(self, key: str) -> int: ...
    def decr(self, key: str) -> int: ...
    def get(self, key: str, default: int) -> int: ...


LOCAL_COUNTERS = LocMemCache("failed logins", {"OPTIONS": {"MAX_ENTRIES": COUNTERS_MAX}})


def begin_attempt(account: str, address: str) -> CounterKeys | None:
    """Count an attempt and return its counters.

    None if a limit is reached: the password must not be checked, and nothing was counted.
    """
    return _run_step(lambda counters: _begin(counters, account, address))


def refund_attempt(counter_keys: Sequence[str]) -> None:
    """Lower the counters of an attempt that did not fail."""
    _run_step(lambda counters: _lower_counters(counters, counter_keys))


def _run_step(step: Callable[[Counters], _Answer]) -> _Answer:
    """Run a step with the shared counters, or with local ones while the cache does not answer."""
    try:
        return step(cache)
    except RedisError as error:
        log.warning(
            "failed logins are counted in this process only, Redis does not answer: error=%s", error
        )
        return step(LOCAL_COUNTERS)


def _begin(counters: Counters, account: str, address: str) -> CounterKeys | None:
    network = _get_network(address)
    subjects = [(PAIR, f"{account}\n{network}"), (ACCOUNT, account)]
    if network:
        subjects.append((ADDRESS, network))
    counter_keys: CounterKeys = []
    for limit, who in subjects:
        key, failures = _raise_counter(counters, limit, who)
        counter_keys.append(key)
        if failures > limit.failures_max:
            _lower_counters(counters, counter_keys)
            return None
    return counter_keys


def _lower_counters(counters: Counters, counter_keys: Sequence[str]) -> None:
    for key in counter_keys:
        with suppress(ValueError):  # The window has ended, or another process counted it.
            counters.decr(key)


def _raise_counter(counters: Counters, limit: Limit, who: str) -> tuple[str, float]:
    """Raise the counter; return its key and the failures in the sliding window, this one included.

    The key of a counter contains its window, and the counter expires after the window. So counting
    cannot race with its expiry.
    """
    window, passed_s = divmod(timezone.now().timestamp(), limit.window_s)
    key, earlier = (_build_key(limit, who, int(window) - back) for back in (0, 1))
    counters.add(key, 0, timeout=2 * limit.window_s)
    now = counters.incr(key)
    before = counters.get(earlier, 0)
    return key, now + before * (1 - passed_s / limit.window_s)


def _build_key(limit: Limit, who: str, window: int) -> str:
    """Return the cache key, hashed, because a cache key must not contain spaces."""
    return f"login:{limit.scope}:{sha256(who.encode(errors='replace')).hexdigest()}:{window}"


def _get_network(address: str) -> str:
    """Return the /64 network of an IPv6 address, which belongs to one client, or the text."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)
