"""What a commit tells of the keys that other engines read otherwise than we do.

It stands in commit metadata under `READ_OTHERWISE_KEY` as a JSON list of `[partition, file id,
keys]`: how many keys of this file group Apache Hudi and hudi-rs show with another row, or show
where we do not, or the other way round, once this commit is visible. A file group that is not in
the list is as the commits before left it. Values only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.json_text import read_json

READ_OTHERWISE_KEY = "sluice.read.otherwise"
GroupKey = tuple[str, str]
"""(partition, file id)."""
KeyCounts = Mapping[GroupKey, int]
"""How many keys of each file group are read otherwise; 0 where they were and are not any more."""


@dataclass(frozen=True, slots=True)
class CommittedCounts:
    """By one commit."""

    completed_at: InstantTime
    counts: KeyCounts


def encoded_counts(counts: KeyCounts) -> dict[str, str]:
    """As a member of commit metadata; none where nothing is told."""
    if not counts:
        return {}
    listed = [[*group, keys] for group, keys in sorted(counts.items())]
    return {READ_OTHERWISE_KEY: json.dumps(listed, separators=(",", ":"))}


def decoded_counts(extra: Mapping[str, str]) -> KeyCounts:
    """Nothing for commits that do not tell, or tell nonsense."""
    try:
        listed = read_json(extra.get(READ_OTHERWISE_KEY, "[]"))
    except ValueError:
        return {}
    if not isinstance(listed, list):
        return {}
    return {(entry[0], entry[1]): entry[2] for entry in listed if _is_entry(entry)}


def remaining_counts(
    commits: Iterable[CommittedCounts], base_instants: Mapping[GroupKey, InstantTime | None]
) -> dict[GroupKey, int]:
    """How many keys are read otherwise now, by file group: what the last commit told, unless its
    logs were merged into a base file since, or the file group is gone.

    `base_instants`: of every file group there is, when the base file of its latest slice was
    requested; None for a slice of logs.
    """
    newest: dict[GroupKey, tuple[InstantTime, int]] = {}
    for commit in sorted(commits, key=lambda commit: commit.completed_at):
        for group, keys in commit.counts.items():
            newest[group] = (commit.completed_at, keys)
    return {
        group: keys
        for group, (completed_at, keys) in sorted(newest.items())
        if keys and group in base_instants and completed_at >= (base_instants[group] or "")
    }


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, list) or len(entry) != 3:
        return False
    partition, file_id, keys = entry
    is_group = isinstance(partition, str) and isinstance(file_id, str)
    return is_group and type(keys) is int and keys >= 0
