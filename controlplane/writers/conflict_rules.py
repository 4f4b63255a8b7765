"""The rule that found a conflict, parsed from the decision that the mirror stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.concurrency.conflicts import ConflictRule

__all__ = ["ConflictRule", "parse_rule"]

_CODES = frozenset(ConflictRule)


def parse_rule(details: Mapping[str, Any]) -> ConflictRule | None:
    """Return the rule that a decision's details name; None if they name none or an unknown rule."""
    code = details.get("rule")
    return ConflictRule(code) if isinstance(code, str) and code in _CODES else None
