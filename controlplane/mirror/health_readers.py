"""The health check of what other engines read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controlplane.mirror.health_check import Check
from controlplane.mirror.health_words import many

READ_ALIKE: Final = "read-alike"
"""Name of the check."""


def read_alike(read_otherwise: Mapping[str, Any]) -> Check:
    """Whether readers agree, by what `SyncMark.read_otherwise` says."""
    title = "Other engines read the same rows"
    if not read_otherwise:
        sentence = "no commit tells of a key that they read otherwise"
        return Check(name=READ_ALIKE, title=title, verdict="good", sentence=sentence)
    return Check(
        name=READ_ALIKE,
        title=title,
        verdict="warn",
        sentence=f"Apache Hudi and hudi-rs read {many(read_otherwise['keys'], 'key')} of "
        f"{many(read_otherwise['file_groups'], 'file group')} otherwise",
        advice="They merge the logs by rules of their own. Compact: what is in a base file is read "
        "alike.",
        instant=read_otherwise["told_by"],
        remedy="compaction",
    )
