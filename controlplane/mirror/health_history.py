"""The health check of the archived timeline: its missing files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.mirror.health_check import Check
from controlplane.mirror.health_words import many
from workers.table_layout import HISTORY
from workers.timeline.history_files import UNNAMED, LostFile

TITLE = "Archived timeline is complete"
_NAMED_MAX = 3


def describe_lost(lost: Sequence[LostFile]) -> dict[str, Any]:
    """Return the lost files as the mirror stores them; empty if there are none."""
    if not lost:
        return {}
    files = [one.file for one in lost]
    return {
        "files": [one.name for one in files if one.level != UNNAMED][:_NAMED_MAX],
        "count": sum(one.level != UNNAMED for one in files),
        "first": min(one.first for one in files),
        "last": max(one.last for one in files),
    }


def history_check(lost: Mapping[str, Any]) -> Check:
    """Name the lost files; healthy without any."""
    if not lost:
        return Check(name="history", title=TITLE, verdict="good", sentence="no file is missing")
    what = "all its files are missing"
    if lost["count"]:
        hidden = lost["count"] - len(lost["files"])
        named = ", ".join(lost["files"]) + (f" and {hidden} more" if hidden else "")
        what = f"{many(lost['count'], 'file')} missing: {named}"
    return Check(
        name="history",
        title=TITLE,
        verdict="warn",
        sentence=f"{what}, with instants requested from {lost['first']} to {lost['last']}",
        advice="Current rows are complete. Reads of the past that need these files are rejected. "
        f"Restore the files into {HISTORY.path} from a copy, under the same names.",
    )
