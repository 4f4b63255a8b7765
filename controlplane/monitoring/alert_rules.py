"""When a health check becomes an alert: one rule for each check, which an admin may change.

A check without a row of its own goes by `DEFAULT`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Literal

from controlplane.errors import InvalidRequest
from controlplane.mirror.health_check import Check, Verdict
from controlplane.mirror.health_readers import READ_ALIKE
from controlplane.monitoring.models import AlertRule

Fires = Literal["never", "bad", "warn"]
"""From which verdict on: `warn` means both."""
FIRES: Mapping[Fires, str] = MappingProxyType(
    {"warn": "when it warns or is bad", "bad": "only when it is bad", "never": "never"}
)
HOLD_MINUTES_MAX = 24 * 60
CHECKS: Mapping[str, str] = MappingProxyType(
    {
        "mirror": "Mirror reads storage",
        "failed-writes": "No failed write is left",
        "planned": "Planned services run",
        "compaction": "Compaction keeps up",
        "cleaning": "Cleaner makes progress",
        "archiving": "Timeline stays short",
        "savepoints": "No savepoint is forgotten",
        "sinks": "Its sinks speak",
        "readable": "Every instant can be read",
        "beside": "No other engine changed the table",
        READ_ALIKE: "Other engines read the same rows",
        "clocks": "Clocks",
        "known-files": "Every file's commit is known",
    }
)
"""Every health check of a table, with a title for the list of rules."""
_FIRING: Mapping[Fires, frozenset[Verdict]] = MappingProxyType(
    {"never": frozenset(), "bad": frozenset({"bad"}), "warn": frozenset({"warn", "bad"})}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    fires: Fires = "warn"
    hold: timedelta = timedelta(minutes=1)
    """How long a check has to be unwell before its alert fires."""
    severity: str = ""
    """Of its alerts; empty where the verdict says it: `critical` when bad, else `warning`."""

    def is_about(self, check: Check) -> bool:
        return check.verdict in _FIRING[self.fires]


DEFAULT = Rule()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    check: str
    title: str
    fires: Fires
    hold_minutes: int
    is_changed: bool
    """Whether it differs from what it was made with."""


def rules() -> dict[str, Rule]:
    """Those that somebody changed, by check. One query."""
    return {
        row.check_name: Rule(fires=read_fires(row.fires), hold=timedelta(minutes=row.hold_minutes))
        for row in AlertRule.objects.all()
    }


def read_fires(text: str) -> Fires:
    """Raises InvalidRequest."""
    for fires in FIRES:
        if fires == text:
            return fires
    raise InvalidRequest("a rule fires at warn, at bad or never", given=text[:20])


def rule_rows() -> list[RuleRow]:
    """Every check with its rule, in the order of `CHECKS`."""
    changed = rules()
    return [_row(name, title, changed.get(name, DEFAULT)) for name, title in CHECKS.items()]


def _row(name: str, title: str, rule: Rule) -> RuleRow:
    return RuleRow(
        check=name,
        title=title,
        fires=rule.fires,
        hold_minutes=int(rule.hold.total_seconds() // 60),
        is_changed=rule != DEFAULT,
    )
