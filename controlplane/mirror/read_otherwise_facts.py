"""What a commit tells of the keys that other engines read otherwise, as the mirror keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.mirror.conflict_facts import text
from workers.timeline.extra_metadata import decode_counts

GROUPS_KEPT = 1_000
"""Of one commit, those with the most keys; a commit rarely tells of more."""
_KEYS_MAX = 2**53


def read_otherwise_of_commit(extra: Mapping[str, str]) -> dict[str, Any]:
    """`{"read_otherwise": [[partition, file id, keys], ...]}`; nothing where nothing is told."""
    counts = decode_counts(extra)
    if not counts:
        return {}
    most = sorted(counts.items(), key=lambda counted: -counted[1])[:GROUPS_KEPT]
    listed = [[text(part), text(file_id), min(keys, _KEYS_MAX)] for (part, file_id), keys in most]
    return {"read_otherwise": listed}
