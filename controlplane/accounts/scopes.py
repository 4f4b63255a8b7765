"""Scopes and places that limit a token. Imports no models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controlplane.accounts.role_names import ADMIN, OPERATOR, RANKS, VIEWER

READ: Final = "read"
OPERATE: Final = "operate"
ADMINISTER: Final = "administer"

SCOPES: Final = (READ, OPERATE, ADMINISTER)
"""Each scope includes the one before it."""
_MOST: Final = {READ: VIEWER, OPERATE: OPERATOR, ADMINISTER: ADMIN}


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
