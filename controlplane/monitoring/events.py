"""Events of a table as checks that fail for a while after the last event. So their alerts fire, are
silenced and are resolved like those of health checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db.models import Count, Exists, Max, OuterRef, Q

from controlplane.mirror.health_check import Check
from controlplane.mirror.health_words import ago, many, spoken
from controlplane.mirror.models import InstantRecord, UndoneRecord
from controlplane.monitoring.alert_rules import EVENTS, Rule, get_rule
from controlplane.operations.models import Operation
from controlplane.operations.states import OperationState
from controlplane.tables.freshness import freshness
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from workers.clock import format_instant

FAILED_STATES = (OperationState.FAILED.value, OperationState.REFUSED.value)
STOPPED_STATES = (*FAILED_STATES, OperationState.LOST.value)
"""States of a sink that was neither stopped by a user nor replaced by a relaunch."""
_SINK = "sink"
_NEVER_SENT = Q(approval__isnull=False, sent_at__isnull=True)
"""Operations that were not approved, which is a decision and not a failure."""


def build_event_checks(table: Table, now: datetime, changed: Mapping[str, Rule]) -> list[Check]:
    """Build the checks of the event kinds whose rules can fire. At most three queries."""
    active = {name: rule for name in EVENTS if (rule := get_rule(name, changed)).fires != "never"}
    return [
        *_check_conflicts(table, now, active.get("event-conflict")),
        *_check_operations(table, now, active),
        *_check_rollbacks(table, now, active.get("event-rollback")),
        *_check_readable(table, now, active.get("event-table-lost")),
    ]


def _check_conflicts(table: Table, now: datetime, rule: Rule | None) -> list[Check]:
    if rule is None:
        return []
    newest = Conflict.objects.filter(table=table, decided_at__gt=now - rule.window)
    counts = newest.aggregate(n=Count("pk"), last=Max("decided_at"))
    if not counts["n"]:
        return []
    age_s = (now - counts["last"]).total_seconds()
    return [
        _build_check(
            "event-conflict",
            "warn",
            f"{many(counts['n'], 'write')} lost a conflict, the last one {spoken(age_s)} ago",
            "The page Conflicts lists the competing writers.",
        )
    ]


def _check_operations(table: Table, now: datetime, active: Mapping[str, Rule]) -> list[Check]:
    failed, stopped = active.get("event-failed-operation"), active.get("event-sink-stopped")
    counts: dict[str, Q] = {}
    if failed is not None:
        is_failed = Q(state__in=FAILED_STATES, finished_at__gt=now - failed.window)
        counts["event-failed-operation"] = is_failed & ~Q(kind=_SINK) & ~_NEVER_SENT
    if stopped is not None:
        is_stopped = Q(state__in=STOPPED_STATES, finished_at__gt=now - stopped.window)
        counts["event-sink-stopped"] = is_stopped & Q(kind=_SINK)
    if "event-approval" in active:
        counts["event-approval"] = Q(state=OperationState.AWAITING.value)
    if not counts:
        return []
    keys = {name: f"n{at}" for at, name in enumerate(counts)}
    amounts = Operation.objects.filter(table=table).aggregate(
        **{keys[name]: Count("pk", filter=condition) for name, condition in counts.items()}
    )
    words = {
        "event-failed-operation": ("operation", "failed", "warn", "The page Operations shows why."),
        "event-sink-stopped": (
            "sink",
            "stopped unexpectedly",
            "bad",
            "Its page shows why; a relaunch continues at the offsets of the table.",
        ),
    }
    checks = []
    if awaiting := amounts.get(keys.get("event-approval", "")):
        verb = "awaits" if awaiting == 1 else "await"
        sentence = f"{many(awaiting, 'operation')} {verb} approval"
        advice = "The page Approvals lists the requests."
        checks.append(_build_check("event-approval", "warn", sentence, advice))
    for name, key in keys.items():
        if amounts[key] and name in words:
            noun, verb, verdict, advice = words[name]
            sentence = f"{many(amounts[key], noun)} {verb} in {spoken(_window_s(active[name]))}"
            checks.append(_build_check(name, verdict, sentence, advice))
    return checks


def _check_rollbacks(table: Table, now: datetime, rule: Rule | None) -> list[Check]:
    if rule is None:
        return []
    since = format_instant(int((now - rule.window).timestamp() * 1000))
    # A write that lost a conflict rolls back its own files, which were never committed.
    undone = UndoneRecord.objects.filter(table=table, undone_by=OuterRef("requested_at"))
    lost = Conflict.objects.filter(table=table, loser_instant=OuterRef("requested_at"))
    is_of_a_loser = Exists(undone.filter(Exists(lost))) & ~Exists(undone.exclude(Exists(lost)))
    rollbacks = InstantRecord.objects.filter(
        table=table, action__in=("rollback", "restore"), completed_at__gt=since
    ).exclude(is_of_a_loser)
    counts = rollbacks.aggregate(n=Count("pk"), last=Max("completed_at"))
    if not counts["n"]:
        return []
    return [
        _build_check(
            "event-rollback",
            "warn",
            f"{many(counts['n'], 'rollback')} completed, the last one {ago(counts['last'], now)}",
            "The timeline shows the rolled back instants, and the audit log the users.",
        )
    ]


def _check_readable(table: Table, now: datetime, rule: Rule | None) -> list[Check]:
    """Build the check that fails while the table cannot be read."""
    if rule is None or not table.sync_error:
        return []
    fresh = freshness(table, now=now)
    return [_build_check("event-table-lost", "bad", f"{fresh.title}: {fresh.reason}", fresh.advice)]


def _window_s(rule: Rule) -> float:
    return rule.window.total_seconds()


def _build_check(name: str, verdict: str, sentence: str, advice: str) -> Check:
    return Check(
        name=name,
        title=EVENTS[name],
        verdict="bad" if verdict == "bad" else "warn",
        sentence=sentence,
        advice=advice,
    )
