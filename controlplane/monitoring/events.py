"""Events of a table that alerts may be about: as checks that are unwell for a while after the last
event, so that they fire, are silenced and are resolved as every other.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db.models import Count, Exists, Max, OuterRef, Q

from controlplane.mirror.health_check import Check
from controlplane.mirror.health_words import ago, many, spoken
from controlplane.mirror.models import InstantRecord, UndoneRecord
from controlplane.monitoring.alert_rules import EVENTS, Rule, rule_of
from controlplane.operations.models import Operation
from controlplane.operations.states import OperationState
from controlplane.tables.freshness import freshness
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from workers.clock import format_instant

FAILED_STATES = (OperationState.FAILED.value, OperationState.REFUSED.value)
STOPPED_STATES = (*FAILED_STATES, OperationState.LOST.value)
"""Of a sink that nobody stopped and no other launch took over."""
_SINK = "sink"
_NEVER_SENT = Q(approval__isnull=False, sent_at__isnull=True)
"""Nobody approved of it: that is a decision and no failure."""


def event_checks(table: Table, now: datetime, changed: Mapping[str, Rule]) -> list[Check]:
    """Those of the kinds whose rules fire at all. Three queries at most."""
    wanted = {name: rule for name in EVENTS if (rule := rule_of(name, changed)).fires != "never"}
    return [
        *_conflicts(table, now, wanted.get("event-conflict")),
        *_operations(table, now, wanted),
        *_rollbacks(table, now, wanted.get("event-rollback")),
        *_lost(table, now, wanted.get("event-table-lost")),
    ]


def _conflicts(table: Table, now: datetime, rule: Rule | None) -> list[Check]:
    if rule is None:
        return []
    newest = Conflict.objects.filter(table=table, decided_at__gt=now - rule.window)
    counts = newest.aggregate(n=Count("pk"), last=Max("decided_at"))
    if not counts["n"]:
        return []
    age_s = (now - counts["last"]).total_seconds()
    return [
        _event(
            "event-conflict",
            "warn",
            f"{many(counts['n'], 'write')} lost a conflict, the last one {spoken(age_s)} ago",
            "The page Conflicts says to whom, and over what.",
        )
    ]


def _operations(table: Table, now: datetime, wanted: Mapping[str, Rule]) -> list[Check]:
    failed, stopped = wanted.get("event-failed-operation"), wanted.get("event-sink-stopped")
    counts: dict[str, Q] = {}
    if failed is not None:
        is_failed = Q(state__in=FAILED_STATES, finished_at__gt=now - failed.window)
        counts["event-failed-operation"] = is_failed & ~Q(kind=_SINK) & ~_NEVER_SENT
    if stopped is not None:
        is_stopped = Q(state__in=STOPPED_STATES, finished_at__gt=now - stopped.window)
        counts["event-sink-stopped"] = is_stopped & Q(kind=_SINK)
    if "event-approval" in wanted:
        counts["event-approval"] = Q(state=OperationState.AWAITING.value)
    if not counts:
        return []
    keys = {name: f"n{at}" for at, name in enumerate(counts)}
    known = Operation.objects.filter(table=table).aggregate(
        **{keys[name]: Count("pk", filter=condition) for name, condition in counts.items()}
    )
    words = {
        "event-failed-operation": ("operation", "failed", "warn", "The page Operations says why."),
        "event-sink-stopped": (
            "sink",
            "stopped by itself",
            "bad",
            "Its page says why; a relaunch goes on where the table stands.",
        ),
    }
    checks = []
    if awaiting := known.get(keys.get("event-approval", "")):
        verb = "awaits" if awaiting == 1 else "await"
        sentence = f"{many(awaiting, 'operation')} {verb} the approval of a second person"
        advice = "The page Approvals shows what was asked for, and by whom."
        checks.append(_event("event-approval", "warn", sentence, advice))
    for name, key in keys.items():
        if known[key] and name in words:
            noun, verb, verdict, advice = words[name]
            sentence = f"{many(known[key], noun)} {verb} in {spoken(_window_s(wanted[name]))}"
            checks.append(_event(name, verdict, sentence, advice))
    return checks


def _rollbacks(table: Table, now: datetime, rule: Rule | None) -> list[Check]:
    if rule is None:
        return []
    since = format_instant(int((now - rule.window).timestamp() * 1000))
    # A write that lost a conflict rolls back what it wrote itself. That is no commit.
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
        _event(
            "event-rollback",
            "warn",
            f"{many(counts['n'], 'rollback')} completed, the last one {ago(counts['last'], now)}",
            "The timeline says of what, and the audit for whom.",
        )
    ]


def _lost(table: Table, now: datetime, rule: Rule | None) -> list[Check]:
    """A state rather than a moment: it is open while the table cannot be read."""
    if rule is None or not table.sync_error:
        return []
    fresh = freshness(table, now=now)
    return [_event("event-table-lost", "bad", f"{fresh.title}: {fresh.reason}", fresh.advice)]


def _window_s(rule: Rule) -> float:
    return rule.window.total_seconds()


def _event(name: str, verdict: str, sentence: str, advice: str) -> Check:
    return Check(
        name=name,
        title=EVENTS[name],
        verdict="bad" if verdict == "bad" else "warn",
        sentence=sentence,
        advice=advice,
    )
