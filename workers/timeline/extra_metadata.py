"""Sluice's own entries in the extra metadata of a commit: phases, source position, and counts of
divergent keys. Apache Hudi preserves extra metadata and reads none of it. Values only.

Phases: files of the timeline show when an instant was requested, inflight and completed. Only its
writer knows when it was validated and decided. The times are by the writer's clock, like those of
the instant.

Divergent keys are keys that other engines read differently from Sluice. Their counts are under
`READ_OTHERWISE_KEY` as a JSON list of `[partition, file id, keys]`: the number of keys of this file
group that Apache Hudi and hudi-rs show with another row, or only they or only Sluice shows, once
this commit is visible. A file group that is not in the list is unchanged since earlier commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from workers.clock import InstantTime
from workers.json_text import read_json

PHASES_KEY: Final = "sluice.phases"
"""JSON object: epoch ms by name of the phase."""
INFLIGHT: Final = "inflight"
VALIDATED: Final = "validated"
"""No conflict was seen, under the lock."""
DECIDED: Final = "decided"
"""The last moment before its content goes to storage, to be decided there."""
WRITERS: Final = (INFLIGHT, VALIDATED, DECIDED)
_MS_MAX: Final = 253_402_300_800_000
"""The end of the year 9999."""
POSITION_KEY: Final = "sluice.source.position"
"""A key in commit metadata, so that a restart continues at the next position."""
READ_OTHERWISE_KEY = "sluice.read.otherwise"
GroupKey = tuple[str, str]
"""(partition, file id)."""
KeyCounts = Mapping[GroupKey, int]
"""The number of divergent keys of each file group; 0 if it had some before and has none now."""


def encode_phases(at_ms: Mapping[str, int]) -> str:
    """Encode the text under `PHASES_KEY`, of epoch ms by phase."""
    return json.dumps(dict(at_ms))


def read_phases(text: str | None) -> dict[str, int]:
    """Return epoch ms by phase; only of the phases in `WRITERS`, and of times that a calendar has.
    Empty for a text that is not such an object: nothing depends on it.
    """
    try:
        phases = read_json(text or "")
    except ValueError:
        return {}
    if not isinstance(phases, dict):
        return {}
    return {name: phases[name] for name in WRITERS if _is_time(phases.get(name))}


def _is_time(at_ms: object) -> bool:
    return type(at_ms) is int and 0 < at_ms < _MS_MAX


@dataclass(frozen=True, slots=True)
class Position:
    """The last batch of a run of the source that the commit contains in full."""

    run: int
    round: int
    """From 0."""

    def encode(self) -> str:
        """Encode as JSON, for commit metadata under `POSITION_KEY`."""
        return json.dumps({"run": self.run, "round": self.round})

    @classmethod
    def decode(cls, text: str) -> Position | None:
        """Decode the position in such a text, or None for a foreign one."""
        try:
            body = read_json(text)
            return cls(int(body["run"]), int(body["round"]))
        except (ValueError, TypeError, KeyError):
            return None


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
