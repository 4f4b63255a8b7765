"""How often somebody may guess: for one account from one address, for one account from anywhere,
and for one address whatever the account.

An attempt is counted before the password is looked at and given back when it was right, so of many
at once no more are let through than one after another.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

from django.core.cache import cache
from django.utils import timezone


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


def begin_attempt(account: str, address: str) -> Counted | None:
    """None when a limit is reached; then nothing may be tried and nothing was counted."""
    network = _network(address)
    wanted = [(PAIR, f"{account}\n{network}"), (ACCOUNT, account)]
    if network:
        wanted.append((ADDRESS, network))
    counted: Counted = []
    for limit, who in wanted:
        key, failures = _count(limit, who)
        counted.append(key)
        if failures > limit.failures_max:
            give_back(counted)
            return None
    return counted


def give_back(counted: Sequence[str]) -> None:
    """It was no failure."""
    for key in counted:
        with suppress(ValueError):  # Its window is over.
            cache.decr(key)


def _count(limit: Limit, who: str) -> tuple[str, float]:
    """The raised counter, and the failures of the window that ends now with this one.

    A counter carries its window in its name and outlives it, so it never loses its end in a race
    between ending and counting.
    """
    window, passed_s = divmod(timezone.now().timestamp(), limit.window_s)
    key, earlier = (_key(limit, who, int(window) - back) for back in (0, 1))
    cache.add(key, 0, timeout=2 * limit.window_s)
    now = cache.incr(key)
    before = int(cache.get(earlier, 0))
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
