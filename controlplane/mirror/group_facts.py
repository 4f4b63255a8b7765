"""What a commit tells of its column groups, as the mirror keeps it."""

from __future__ import annotations

import json
import math
from typing import Any

from controlplane.mirror.conflict_facts import text
from workers.options.column_groups import GROUPS_MAX

_COUNTS = ("rows", "deletes", "nulls", "skipped", "late", "tied", "tombstones")
_ENDS = ("least", "greatest")
_COUNT_MAX = 2**53


def told_groups(told: str | None) -> dict[str, Any]:
    """`{"groups": {name: facts}}`; nothing for commits that do not tell, or tell nonsense."""
    try:
        found = json.loads(told or "{}")
    except ValueError:
        return {}
    if not isinstance(found, dict) or not found:
        return {}
    kept = list(found.items())[: GROUPS_MAX + 1]
    return {"groups": {text(name): _facts(one) for name, one in kept if isinstance(one, dict)}}


def _facts(found: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for name in _COUNTS:
        count = found.get(name)
        if type(count) is int and 0 < count <= _COUNT_MAX:
            facts[name] = count
    for name in _ENDS:
        value = found.get(name)
        if isinstance(value, str) or (type(value) in (int, float) and math.isfinite(value or 0)):
            facts[name] = text(value)
    if found.get("late_key"):
        facts["late_key"] = text(found["late_key"])
    return facts
