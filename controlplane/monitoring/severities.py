"""How much an alert matters: as its rule says, or as its check's verdict does."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, cast

from controlplane.errors import InvalidRequest
from controlplane.mirror.health_check import Verdict

Severity = Literal["info", "warning", "critical"]
SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "critical")
"""From the least on."""
_OF_VERDICT: Final[Mapping[str, Severity]] = MappingProxyType(
    {"bad": "critical", "warn": "warning"}
)


def severity_of(verdict: Verdict, ruled: str) -> Severity:
    """`ruled` as an `AlertRule` has it."""
    return cast(Severity, ruled) if ruled else _OF_VERDICT.get(verdict, "info")


def rank(severity: str) -> int:
    """0 for the empty text, which is less than any."""
    return (SEVERITIES.index(cast(Severity, severity)) + 1) if severity else 0


def read_severity(text: str) -> Severity:
    """The severity of this name. Raises InvalidRequest."""
    for severity in SEVERITIES:
        if severity == text:
            return severity
    raise InvalidRequest(f"a severity is one of {', '.join(SEVERITIES)}", given=text[:20])
