"""The content of messages: a title, plain text, and the JSON of webhooks. Built at each attempt, so
that it has the current state.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings

from controlplane.monitoring.channels.notifications import RESOLVED, TEST
from controlplane.monitoring.models import Alert, Message
from controlplane.monitoring.severities import get_rank

LISTED_MAX: Final = 50
"""The number of listed alerts; the others are counted."""
_COLOURS: Final = {"critical": "#D55E00", "warning": "#E69F00", "info": "#0072B2"}
_RESOLVED_COLOUR: Final = "#009E73"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContent:
    """The content of a message for all kinds of channels."""

    title: str
    """One line."""
    text: str
    severity: str
    """The highest severity of its alerts, or `resolved`."""
    json: dict[str, Any]


def build_content(message: Message) -> MessageContent:
    alerts = list(message.alerts.select_related("table").order_by("table__name", "pk"))
    severity = max((alert.severity for alert in alerts), key=get_rank, default="info")
    listed = alerts[:LISTED_MAX]
    lines = [_line(alert) for alert in listed]
    if len(alerts) > LISTED_MAX:
        lines.append(f"and {len(alerts) - LISTED_MAX} more")
    title = _title(message, alerts, severity)
    if message.about == TEST:
        lines = ["This is a test message of this channel."]
    url = f"{settings.SLUICE_PUBLIC_URL}/alerts"
    return MessageContent(
        title=title,
        text="\n".join([*lines, url]),
        severity="resolved" if message.about == RESOLVED else severity,
        json={
            "id": str(message.public_id),
            "about": message.about,
            "check": message.check_name,
            "title": title,
            "severity": severity,
            "opened_at": _format_time(message.opened_at),
            "url": url,
            "count": len(alerts),
            "alerts": [_alert(alert) for alert in listed],
        },
    )


def to_slack_body(content: MessageContent) -> dict[str, Any]:
    """Format the content for incoming webhooks of Slack, Mattermost and Rocket.Chat."""
    colour = _RESOLVED_COLOUR if content.severity == "resolved" else _COLOURS[content.severity]
    title, text = _escape(content.title), _escape(content.text)
    return {
        "text": title,
        "attachments": [{"color": colour, "fallback": title, "text": text}],
    }


def _escape(text: str) -> str:
    """Escape mentions and links, because names of tables and streams are untrusted text."""
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
    state = f" (resolved {_format_time(alert.resolved_at)})" if alert.resolved_at else ""
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
        "fired_at": _format_time(alert.fired_at),
        "resolved_at": _format_time(alert.resolved_at),
        "url": f"{settings.SLUICE_PUBLIC_URL}/t/{alert.table.slug}",
    }


def _format_time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")
