"""Facts of a commit about each column group: values that writes and merges have at hand anyway.

A write records its rows; a merge records what it skipped and what it keeps. Commit metadata has
the facts under `GROUP_FACTS_KEY` as a JSON object with a member per group.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TypeAlias

GROUP_FACTS_KEY = "sluice.groups"
FactsByGroup: TypeAlias = Mapping[str, Mapping[str, int | float | str]]
"""By group: `rows`, `deletes` among them, `nulls` without effect, rows `skipped` for lack of an
ordering value, `least` and `greatest` ordering value; `late` versions that came after a newer one,
with `late_key`, the last of them; `tied` versions that lost to a later one of the same ordering
value; and `tombstones` that a merge keeps. Zeros are left out.
"""


def drop_unknown_facts(facts: Mapping[str, Mapping[str, int | float | str | None]]) -> FactsByGroup:
    """Return the facts without zeros and None."""
    # An ordering value of 0 is one; a count of 0 is not.
    present = {
        group: {
            name: value
            for name, value in members.items()
            if value is not None and (value != 0 or name in ("least", "greatest"))
        }
        for group, members in facts.items()
    }
    return {group: members for group, members in present.items() if members}


def add_facts(several: Iterable[FactsByGroup]) -> FactsByGroup:
    """Add the facts of several files."""
    sums: dict[str, dict[str, int | float | str]] = {}
    for facts in several:
        for group, members in facts.items():
            of_group = sums.setdefault(group, {})
            for name, value in members.items():
                sum_so_far = of_group.get(name)
                of_group[name] = value if sum_so_far is None else _both(name, sum_so_far, value)
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


def encode_facts(facts: FactsByGroup) -> dict[str, str]:
    """Encode as a member of commit metadata; empty without facts."""
    return {GROUP_FACTS_KEY: json.dumps(facts, separators=(",", ":"))} if facts else {}
