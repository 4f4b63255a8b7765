"""Roles by name, and which of them has more. Knows no model, so that the app itself can read it."""

from __future__ import annotations

from typing import Final

VIEWER: Final = "viewer"
OPERATOR: Final = "operator"
ADMIN: Final = "admin"
AUDITOR: Final = "auditor"

ROLES: Final = (VIEWER, OPERATOR, ADMIN, AUDITOR)
"""Each is a Django group, whose members have it everywhere."""
GRANTED: Final = (VIEWER, OPERATOR, ADMIN)
"""Also granted in a namespace or on a table; each has all that the one before it has."""

RANKS: Final = {AUDITOR: 1, VIEWER: 1, OPERATOR: 2, ADMIN: 3}
"""How much each may do to a table."""


def greatest(*roles: str) -> str:
    """The one of `roles` that may do most; empty for none. An empty name is no role."""
    return max(roles, key=lambda role: (RANKS.get(role, 0), role), default="")
