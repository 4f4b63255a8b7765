"""How much one statement of a person may take, and how many may run at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.conf import settings

from workers.bounded_process import ProcessLimits

ROWS_DEFAULT: Final = 1_000
ROWS_MAX: Final = 10_000
"""Of one answer."""
STATEMENT_KEPT_CHARS: Final = 2_000
"""Of a statement, in the audit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLimits(ProcessLimits):
    """Limits of one statement, and of all that run."""

    per_user: int = 2
    per_node: int = 4


def sql_limits() -> SqlLimits:
    """Those of this node's settings."""
    limits: SqlLimits = settings.SLUICE_SQL
    return limits
