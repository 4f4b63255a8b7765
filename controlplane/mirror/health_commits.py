"""Health checks of what commits do: how old the newest is, and how often rows are written again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.db.models import BigIntegerField, Q, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce

from controlplane.mirror.health_check import Check
from controlplane.mirror.health_words import age_of, many, spoken
from controlplane.mirror.thresholds import Limits
from controlplane.tables.queries import DATA_ACTIONS
from workers.clock import InstantTime

ROWS_JUDGED_LEAST: Final = 1_000_000
_CHANGES: Final = ("inserts", "updates", "deletes")
_SERVICES: Final = ("COMPACT", "LOG_COMPACT", "CLUSTER")


def commit_check(newest: Mapping[str, InstantTime], limits: Limits, now: datetime) -> list[Check]:
    """Return the check; none without an SLA. `newest` completions by action."""
    most_s = limits["commit-sla"] * 60
    if not most_s:
        return []
    title = "Commits meet their SLA"
    last = max((newest.get(action, "") for action in DATA_ACTIONS), default="")
    if not last:
        return [Check(name="commits", title=title, verdict="warn", sentence="no commit yet")]
    age_s = age_of(last, now)
    is_late = age_s > most_s
    sentence = f"the newest commit is {spoken(age_s)} old; the SLA is {spoken(most_s)}"
    return [
        Check(
            name="commits",
            title=title,
            verdict="bad" if age_s > 2 * most_s else "warn" if is_late else "good",
            sentence=sentence,
            advice="Check that its writers run, and what they wait for." if is_late else "",
        )
    ]


def amplification_columns(active: Q) -> dict[str, Any]:
    """Sums over instants that `active` chooses, which cost no query of their own."""
    is_write = active & ~Q(operation_type__in=_SERVICES)
    changed = sum((_number(name) for name in _CHANGES[1:]), start=_number(_CHANGES[0]))
    return {
        "rows_written": Sum(_number("writes"), filter=active),
        "rows_changed": Sum(changed, filter=is_write),
    }


def amplification_check(rows: Mapping[str, int | None], limits: Limits) -> list[Check]:
    """Return no check until enough rows were written."""
    written, changed = rows["rows_written"] or 0, rows["rows_changed"] or 0
    if written < ROWS_JUDGED_LEAST or not changed:
        return []
    times = written / changed
    is_much = times > limits["write-amplification"]
    return [
        Check(
            name="write-amplification",
            title="Rows are not written too often",
            verdict="warn" if is_much else "good",
            sentence=f"{many(written, 'row')} written for {many(changed, 'change')}: "
            f"{times:.1f} times",
            advice="Write larger batches, or make it merge-on-read and compact less often."
            if is_much
            else "",
        )
    ]


def _number(name: str) -> Coalesce:
    return Coalesce(Cast(KeyTextTransform(name, "metadata"), BigIntegerField()), 0)
