"""The health check of divergent reads by other engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controlplane.mirror.health_check import Check
from controlplane.mirror.health_words import many

READ_ALIKE: Final = "read-alike"
"""Name of the check."""


def read_alike(read_otherwise: Mapping[str, Any]) -> Check:
    """Check for divergent reads in `SyncMark.read_otherwise`."""
    title = "Other engines read the same rows"
    if not read_otherwise:
        sentence = "no commit reports a divergent key"
        return Check(name=READ_ALIKE, title=title, verdict="good", sentence=sentence)
    return Check(
        name=READ_ALIKE,
        title=title,
        verdict="warn",
        sentence=f"Apache Hudi and hudi-rs read {many(read_otherwise['keys'], 'key')} of "
        f"{many(read_otherwise['file_groups'], 'file group')} differently",
        advice="They merge log files by different rules. Compact the table: all engines read base "
        "files the same way.",
        instant=read_otherwise["told_by"],
        remedy="compaction",
    )
