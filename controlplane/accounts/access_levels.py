"""Levels of access: the names and ranks of roles, and the scopes and places that limit a token.
Imports no models, so that the app configuration can use it.
"""

from __future__ import annotations

from dataclasses import dataclass
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

READ: Final = "read"
OPERATE: Final = "operate"
ADMINISTER: Final = "administer"

SCOPES: Final = (READ, OPERATE, ADMINISTER)
"""Each scope includes the one before it."""
_MOST: Final = {READ: VIEWER, OPERATE: OPERATOR, ADMINISTER: ADMIN}


def get_highest_role(*roles: str) -> str:
    """Return the role that permits most; empty without roles. Empty names are ignored."""
    return max(roles, key=lambda role: (RANKS.get(role, 0), role), default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLimits:
    """The highest roles that a token permits, and where."""

    scope: str
    namespaces: frozenset[str] = frozenset()
    table_keys: frozenset[int] = frozenset()

    @property
    def has_places(self) -> bool:
        """True if the token is limited to some namespaces and tables."""
        return bool(self.namespaces or self.table_keys)

    def limit_role(self, role: str) -> str:
        """Return the role, or the highest lower role that the scope permits; empty for none."""
        most = _MOST[self.scope]
        return role if RANKS.get(role, 0) <= RANKS[most] else most
