"""Counts in a commit of the keys that other engines read differently from Sluice.

They are in commit metadata under `READ_OTHERWISE_KEY` as a JSON list of `[partition, file id,
keys]`: the number of keys of this file group that Apache Hudi and hudi-rs show with another row, or
only they or only Sluice shows, once this commit is visible. A file group that is not in the list is
unchanged since earlier commits. Values only.
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
"""The number of divergent keys of each file group; 0 if it had some before and has none now."""


@dataclass(frozen=True, slots=True)
class CommittedCounts:
    """The counts of a commit."""

    completed_at: InstantTime
    counts: KeyCounts


def encode_counts(counts: KeyCounts) -> dict[str, str]:
    """Encode as a member of commit metadata; empty without counts."""
    if not counts:
        return {}
    listed = [[*group, keys] for group, keys in sorted(counts.items())]
    return {READ_OTHERWISE_KEY: json.dumps(listed, separators=(",", ":"))}


def decode_counts(extra: Mapping[str, str]) -> KeyCounts:
    """Decode the counts; empty for commits without them, or with invalid ones."""
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
    """Return the current number of divergent keys by file group: that of the last commit, unless
    its logs were merged into a base file since, or the file group was removed.

    `base_instants` has, for every existing file group, the request time of the base file of its
    latest slice, or None for a slice of logs.
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
