"""What a commit tells of each column group: facts that cost nothing where they are found.

Writes tell what they brought, merges what they passed over and what they keep. They stand in commit
metadata under `GROUP_FACTS_KEY` as a JSON object, a member per group. Values only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TypeAlias

GROUP_FACTS_KEY = "sluice.groups"
FactsByGroup: TypeAlias = Mapping[str, Mapping[str, int | float | str]]
"""By group: `rows`, `deletes` among them, `nulls` that said nothing, rows `skipped` for lack of an
ordering value, `least` and `greatest` ordering value; `late` versions that came after a newer one,
with `late_key`, the last of them; `tied` ones that gave way to a later one of their age; and
`tombstones` that a merge keeps. What is nothing is left out.
"""


def known_facts(facts: Mapping[str, Mapping[str, int | float | str | None]]) -> FactsByGroup:
    """Without what is nothing."""
    # An ordering value of 0 is one; a count of 0 is not.
    kept = {
        group: {
            name: value
            for name, value in members.items()
            if value is not None and (value != 0 or name in ("least", "greatest"))
        }
        for group, members in facts.items()
    }
    return {group: members for group, members in kept.items() if members}


def added(several: Iterable[FactsByGroup]) -> FactsByGroup:
    """What several files tell, as one."""
    sums: dict[str, dict[str, int | float | str]] = {}
    for facts in several:
        for group, members in facts.items():
            of_group = sums.setdefault(group, {})
            for name, value in members.items():
                known = of_group.get(name)
                of_group[name] = value if known is None else _both(name, known, value)
    return sums


def _both(name: str, left: int | float | str, right: int | float | str) -> int | float | str:
    if name in ("least", "greatest"):
        choose = min if name == "least" else max
        if isinstance(left, str) or isinstance(right, str):
            return choose(str(left), str(right))
        return choose(left, right)
    if isinstance(left, str) or isinstance(right, str):
        return right
    return left + right


def encoded(facts: FactsByGroup) -> dict[str, str]:
    """As a member of commit metadata; none where nothing is told."""
    return {GROUP_FACTS_KEY: json.dumps(facts, separators=(",", ":"))} if facts else {}
