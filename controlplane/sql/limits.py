"""How much one statement of a person may take, and how many may run at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.conf import settings

ROWS_DEFAULT: Final = 1_000
ROWS_MAX: Final = 10_000
"""Of one answer."""
STATEMENT_KEPT_CHARS: Final = 2_000
"""Of a statement, in the audit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLimits:
    """Limits of one statement, and of all that run."""

    memory_bytes: int = 1_024 * 1024 * 1024
    """Beyond what the process has before it reads anything."""
    wall_s: float = 20
    cpu_s: int = 20
    """Of all its threads together."""
    answer_bytes: int = 8 * 1024 * 1024
    """As Arrow counts them; what comes behind is cut off."""
    per_user: int = 2
    per_node: int = 4


def sql_limits() -> SqlLimits:
    """Those of this node's settings."""
    limits: SqlLimits = settings.SLUICE_SQL
    return limits
