"""Severities of alerts, from the rule or from the verdict of the check."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, cast

from controlplane.errors import InvalidRequest
from controlplane.mirror.health_check import Verdict

Severity = Literal["info", "warning", "critical"]
SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "critical")
"""Ascending."""
_OF_VERDICT: Final[Mapping[str, Severity]] = MappingProxyType(
    {"bad": "critical", "warn": "warning"}
)


def get_severity(verdict: Verdict, ruled: str) -> Severity:
    """Return the severity of the rule, or that of the verdict if `ruled` is empty."""
    return cast(Severity, ruled) if ruled else _OF_VERDICT.get(verdict, "info")


def get_rank(severity: str) -> int:
    """Return the rank of a severity, from 1; 0 for the empty text."""
    return (SEVERITIES.index(cast(Severity, severity)) + 1) if severity else 0


def parse_severity(text: str) -> Severity:
    """Parse a severity. Raises InvalidRequest."""
    for severity in SEVERITIES:
        if severity == text:
            return severity
    raise InvalidRequest(f"the severity must be one of {', '.join(SEVERITIES)}", given=text[:20])
