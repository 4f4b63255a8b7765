"""What a message says: a title, plain text, and the JSON of webhooks. Made anew at each attempt, so
that it says what is so when it is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings

from controlplane.monitoring.channels.announcing import RESOLVED, TEST
from controlplane.monitoring.models import Alert, Message
from controlplane.monitoring.severities import rank

LISTED_MAX: Final = 50
"""Alerts of one message; it counts the others."""
_COLOURS: Final = {"critical": "#D55E00", "warning": "#E69F00", "info": "#0072B2"}
_RESOLVED_COLOUR: Final = "#009E73"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message as channels put it."""

    title: str
    """One line."""
    text: str
    severity: str
    """The worst of its alerts, or `resolved`."""
    json: dict[str, Any]


def said(message: Message) -> Said:
    alerts = list(message.alerts.select_related("table").order_by("table__name", "pk"))
    severity = max((alert.severity for alert in alerts), key=rank, default="info")
    shown = alerts[:LISTED_MAX]
    lines = [_line(alert) for alert in shown]
    if len(alerts) > LISTED_MAX:
        lines.append(f"and {len(alerts) - LISTED_MAX} more")
    title = _title(message, alerts, severity)
    if message.about == TEST:
        lines = ["This is a test: somebody pressed the button of this channel."]
    url = f"{settings.SLUICE_PUBLIC_URL}/alerts"
    return Said(
        title=title,
        text="\n".join([*lines, url]),
        severity="resolved" if message.about == RESOLVED else severity,
        json={
            "id": str(message.public_id),
            "about": message.about,
            "check": message.check_name,
            "title": title,
            "severity": severity,
            "opened_at": _moment(message.opened_at),
            "url": url,
            "count": len(alerts),
            "alerts": [_alert(alert) for alert in shown],
        },
    )


def slack_body(said_words: Said) -> dict[str, Any]:
    """As incoming webhooks of Slack take it, Mattermost's and Rocket.Chat's too."""
    colour = (
        _RESOLVED_COLOUR if said_words.severity == "resolved" else _COLOURS[said_words.severity]
    )
    title, text = _harmless(said_words.title), _harmless(said_words.text)
    return {
        "text": title,
        "attachments": [{"color": colour, "fallback": title, "text": text}],
    }


def _harmless(text: str) -> str:
    """Names of tables and streams are other people's words: they call nobody and link nowhere."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("@", "@\u200b")


def _title(message: Message, alerts: list[Alert], severity: str) -> str:
    if message.about == TEST:
        return "[test] A message of Sluice"
    mark = RESOLVED if message.about == RESOLVED else severity
    first = alerts[0] if alerts else None
    check = first.title if first else message.check_name
    where = first.table.name if first and len(alerts) == 1 else f"{len(alerts)} tables"
    return " ".join(f"[{mark}] {where}: {check}".split())[:200]


def _line(alert: Alert) -> str:
    state = f" (resolved {_moment(alert.resolved_at)})" if alert.resolved_at else ""
    advice = f" {alert.advice}" if alert.advice and not alert.resolved_at else ""
    return " ".join(f"{alert.table.name}: {alert.sentence}.{advice}{state}".split())


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "id": alert.pk,
        "table": alert.table.slug,
        "namespace": alert.table.namespace,
        "name": alert.table.name,
        "check": alert.check_name,
        "title": alert.title,
        "severity": alert.severity,
        "verdict": alert.verdict,
        "sentence": alert.sentence,
        "advice": alert.advice,
        "fired_at": _moment(alert.fired_at),
        "resolved_at": _moment(alert.resolved_at),
        "url": f"{settings.SLUICE_PUBLIC_URL}/t/{alert.table.slug}",
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")
