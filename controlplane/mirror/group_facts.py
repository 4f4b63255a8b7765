"""What a commit tells of its column groups, as the mirror keeps it."""

from __future__ import annotations

import math
from typing import Any

from controlplane.mirror.conflict_facts import text
from workers.json_text import read_json
from workers.options.column_groups import GROUPS_MAX

_COUNTS = ("rows", "deletes", "nulls", "skipped", "late", "tied", "tombstones")
_ENDS = ("least", "greatest")
_COUNT_MAX = 2**53


def groups_of_commit(groups_json: str | None) -> dict[str, Any]:
    """`{"groups": {name: facts}}`; nothing for commits that do not tell, or tell nonsense."""
    try:
        facts_by_group = read_json(groups_json or "{}")
    except ValueError:
        return {}
    if not isinstance(facts_by_group, dict) or not facts_by_group:
        return {}
    kept = list(facts_by_group.items())[: GROUPS_MAX + 1]
    return {"groups": {text(name): _facts(one) for name, one in kept if isinstance(one, dict)}}


def _facts(written: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for name in _COUNTS:
        count = written.get(name)
        if type(count) is int and 0 < count <= _COUNT_MAX:
            facts[name] = count
    for name in _ENDS:
        value = written.get(name)
        if isinstance(value, str) or (type(value) in (int, float) and math.isfinite(value or 0)):
            facts[name] = text(value)
    if written.get("late_key"):
        facts["late_key"] = text(written["late_key"])
    return facts
