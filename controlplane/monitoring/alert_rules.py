"""Rules that turn health checks into alerts: one rule per check, which an admin may change.

A check without a stored rule has the rule `DEFAULT`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Literal

from django.http import Http404

from controlplane.errors import InvalidRequest
from controlplane.mirror.health_check import Check, Verdict
from controlplane.mirror.health_readers import READ_ALIKE
from controlplane.monitoring.models import AlertRule

Fires = Literal["never", "bad", "warn"]
"""The lowest verdict that fires: `warn` includes `bad`."""
FIRES: Mapping[Fires, str] = MappingProxyType(
    {"warn": "on warning or critical", "bad": "only on critical", "never": "never"}
)
HOLD_MINUTES_MAX = 24 * 60
WINDOW_MINUTES_MAX = 7 * 24 * 60
WINDOW_MINUTES_DEFAULT = 60
CHECKS: Mapping[str, str] = MappingProxyType(
    {
        "mirror": "Mirror reads storage",
        "failed-writes": "No failed writes left",
        "planned": "Planned services run",
        "compaction": "Compaction keeps up",
        "cleaning": "Cleaner makes progress",
        "archiving": "Timeline stays short",
        "savepoints": "No stale savepoints",
        "sinks": "Sinks report",
        "readable": "Every instant is readable",
        "beside": "No other engine changed the table",
        READ_ALIKE: "Other engines read the same rows",
        "clocks": "Clocks",
        "host-clocks": "Clocks of the writers' hosts agree",
        "known-files": "Every file's commit is known",
        "history": "Archived timeline is complete",
        "partition-metadata": "Every partition has its metadata",
        "commits": "Commits meet their SLA",
        "suspect-writer": "Heartbeats on time",
        "small-files": "Files are large enough",
        "skew": "No skewed file groups",
        "write-amplification": "Rows are not written too often",
        "orphans": "No orphaned markers",
        "masks": "Masks match columns",
    }
)
"""Every health check of a table, with a title for the list of rules."""
EVENTS: Mapping[str, str] = MappingProxyType(
    {
        "event-approval": "An action awaits approval",
        "event-conflict": "A write lost a conflict",
        "event-failed-operation": "An operation failed",
        "event-rollback": "A commit was rolled back",
        "event-sink-stopped": "A sink stopped",
        "event-table-lost": "The table cannot be read",
    }
)
"""Kinds of events, which keep an alert of a table open for a while."""
TITLES: Mapping[str, str] = MappingProxyType({**CHECKS, **EVENTS})
_FIRING: Mapping[Fires, frozenset[Verdict]] = MappingProxyType(
    {"never": frozenset(), "bad": frozenset({"bad"}), "warn": frozenset({"warn", "bad"})}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    fires: Fires = "warn"
    hold: timedelta = timedelta(minutes=1)
    """How long a check must fail before its alert fires."""
    severity: str = ""
    """The severity of its alerts; empty to use the verdict: `critical` if bad, else `warning`."""
    window: timedelta = timedelta(minutes=WINDOW_MINUTES_DEFAULT)
    """For event rules: how long the alert stays open after the last event."""

    def is_about(self, check: Check) -> bool:
        return check.verdict in _FIRING[self.fires]


DEFAULT = Rule()

EVENT_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        # Optimistic writers expect conflicts, so this rule is off by default.
        "event-conflict": Rule(fires="never", hold=timedelta()),
        "event-approval": Rule(hold=timedelta()),
        "event-failed-operation": Rule(hold=timedelta()),
        "event-rollback": Rule(hold=timedelta()),
        "event-sink-stopped": Rule(hold=timedelta()),
        # The check of the mirror already reports this.
        "event-table-lost": Rule(fires="never", hold=timedelta()),
    }
)
"""Default rules of events, which fire without delay."""


def get_default_rule(name: str) -> Rule:
    """Return the default rule of a check or a kind of events."""
    return EVENT_RULES.get(name, DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    check: str
    title: str
    is_event: bool
    """True for a kind of events, false for a health check."""
    fires: Fires
    hold_minutes: int
    severity: str
    window_minutes: int
    is_changed: bool
    """True if it differs from the default."""


def load_changed_rules() -> dict[str, Rule]:
    """Load the changed rules, by check. One query."""
    return {
        row.check_name: Rule(
            fires=parse_fires(row.fires),
            hold=timedelta(minutes=row.hold_minutes),
            severity=row.severity,
            window=timedelta(minutes=row.window_minutes),
        )
        for row in AlertRule.objects.all()
    }


def get_rule(name: str, changed: Mapping[str, Rule]) -> Rule:
    """Return the rule of a check: the one in `changed`, or the default."""
    return changed.get(name) or get_default_rule(name)


def parse_fires(text: str) -> Fires:
    """Parse the lowest verdict that fires. Raises InvalidRequest."""
    for fires in FIRES:
        if fires == text:
            return fires
    raise InvalidRequest("the level of a rule must be warn, bad or never", given=text[:20])


def list_rules() -> list[RuleRow]:
    """List the rules of all checks in the order of `CHECKS`, then of all kinds of events."""
    changed = load_changed_rules()
    return [_row(name, title, get_rule(name, changed)) for name, title in TITLES.items()]


def get_rule_row(name: str) -> RuleRow:
    """Return the rule of a check. Raises Http404 for an unknown check."""
    if name not in TITLES:
        raise Http404(f"health check {name[:64]} not found")
    return _row(name, TITLES[name], get_rule(name, load_changed_rules()))


def _row(name: str, title: str, rule: Rule) -> RuleRow:
    return RuleRow(
        check=name,
        title=title,
        is_event=name in EVENTS,
        fires=rule.fires,
        hold_minutes=int(rule.hold.total_seconds() // 60),
        severity=rule.severity,
        window_minutes=int(rule.window.total_seconds() // 60),
        is_changed=rule != get_default_rule(name),
    )
