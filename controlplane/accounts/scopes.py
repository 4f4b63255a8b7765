"""What a token lets through of what its owner may: how much, and where. Knows no model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controlplane.accounts.role_names import ADMIN, OPERATOR, RANKS, VIEWER

READ: Final = "read"
OPERATE: Final = "operate"
ADMINISTER: Final = "administer"

SCOPES: Final = (READ, OPERATE, ADMINISTER)
"""Each lets through what the one before it does."""
_MOST: Final = {READ: VIEWER, OPERATE: OPERATOR, ADMINISTER: ADMIN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one token may, at most."""

    scope: str
    namespaces: frozenset[str] = frozenset()
    table_keys: frozenset[int] = frozenset()

    @property
    def has_places(self) -> bool:
        """Whether it opens some namespaces and tables only."""
        return bool(self.namespaces or self.table_keys)

    def lessened(self, role: str) -> str:
        """`role`, or the greatest one below it that the scope lets through; empty for none."""
        most = _MOST[self.scope]
        return role if RANKS.get(role, 0) <= RANKS[most] else most
