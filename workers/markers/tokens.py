"""Tokens of the marker server: one per table location and instant, and one for its operators.

HMAC-SHA256 under the secret that only the control plane, drivers and the server hold; executors
get the token alone.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import lru_cache

from workers.clock import InstantTime
from workers.markers.marker import normal_location


@lru_cache(maxsize=4_096)  # Thousands of requests come with the same.
def mint_token(secret: str, location: str, instant: InstantTime) -> str:
    """Return a token for marker requests for this instant of this table, and nothing else."""
    return _digest(secret, "marker", normal_location(location), instant)


def check_token(secret: str, token: str, location: str, instant: InstantTime) -> bool:
    """Return True for the token of exactly this table and instant; compared in constant time."""
    return _same(token, mint_token(secret, location, instant))


def mint_admin_token(secret: str) -> str:
    """Return a token for `/metrics` and `/drain`."""
    return _digest(secret, "admin")


def check_admin_token(secret: str, token: str) -> bool:
    """Return True for the operators' token; compared in constant time."""
    return _same(token, mint_admin_token(secret))


def _digest(secret: str, *parts: str) -> str:
    # NUL occurs in no location and no instant, so no two lists of parts make the same message.
    return hmac.new(secret.encode(), "\0".join(parts).encode(), hashlib.sha256).hexdigest()


def _same(token: str, minted: str) -> bool:
    return hmac.compare_digest(token.encode(errors="replace"), minted.encode())
