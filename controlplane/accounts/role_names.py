"""Names and ranks of roles. Imports no models, so that the app configuration can use it."""

from __future__ import annotations

from typing import Final

VIEWER: Final = "viewer"
OPERATOR: Final = "operator"
ADMIN: Final = "admin"
AUDITOR: Final = "auditor"

ROLES: Final = (VIEWER, OPERATOR, ADMIN, AUDITOR)
"""Each role is a Django group, whose members have the role everywhere."""
GRANTED: Final = (VIEWER, OPERATOR, ADMIN)
"""Roles that can be granted in a namespace or on a table. Each includes the one before it."""

RANKS: Final = {AUDITOR: 1, VIEWER: 1, OPERATOR: 2, ADMIN: 3}
"""The order of roles by what they permit on a table."""


def get_highest_role(*roles: str) -> str:
    """Return the role that permits most; empty without roles. Empty names are ignored."""
    return max(roles, key=lambda role: (RANKS.get(role, 0), role), default="")
