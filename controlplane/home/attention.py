"""What needs a person, the worst first: each with its cause, and where it is shown. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import QuerySet

from controlplane.home.hours import Losses
from controlplane.home.lines import TableLine
from controlplane.home.work import Work, WriterLine
from controlplane.monitoring.models import Alert
from controlplane.monitoring.silences import Silences
from controlplane.operations.queries import OperationRow
from controlplane.operations.states import OperationState
from controlplane.tables.access import visible_tables
from workers.installation import format_command

ALERTS_MAX: Final = 500
ALIKE_SHOWN: Final = 3
_OF_ALERTS: Final = (
    "check_name", "title", "verdict", "severity", "sentence", "advice", "fired_at", "table__slug",
    "table__name", "table__namespace",
)  # fmt: skip
Page = Literal["overview", "writers", "conflicts", "operation", "approval", "services", "timeline"]
_PAGES: Final[Mapping[str, Page]] = {
    "failed-writes": "writers",
    "planned": "services",
    "compaction": "services",
    "cleaning": "services",
    "archiving": "services",
    "readable": "timeline",
}
"""Where the cause of a check is seen best; else on the table's first page."""
_SAID_HERE: Final = frozenset(
    {"mirror", "suspect-writer", "event-failed-operation", "event-conflict", "event-table-lost",
     "event-approval"}
)  # fmt: skip
"""Alerts that say again what the lines of tables, writers and operations say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionNeed:
    key: str
    """The same for the same cause, however often the page is asked for."""
    rank: int
    """0 is the worst."""
    verdict: str
    """bad or warn"""
    title: str
    cause: str
    """A sentence without its full stop."""
    advice: str
    slug: str
    table_name: str
    since: datetime | None
    page: Page
    """Where it is shown."""
    operation: UUID | None = None
    """Of the pages `operation` and `approval`: which."""
    check: str = ""
    """The health check that says so; empty for what is none's."""
    others: int = 0
    """So many more of the same kind, each of which lasts less long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsilenced:
    """What fires, and what somebody knows of already."""

    alerts: Sequence[Alert]
    silences: Silences
    is_cut: bool

    def is_silenced(self, key: int, namespace: str, check: str) -> bool:
        """Whether somebody silenced this check of this table."""
        return self.silences.find_for_check(key, namespace, check) is not None


def alerts_query(user: User) -> QuerySet[Alert]:
    """Return the query of firing alerts, the worst first."""
    firing = Alert.objects.filter(
        table__in=visible_tables(user).order_by(), fired_at__isnull=False, resolved_at__isnull=True
    )
    return (
        firing.select_related("table")
        .only(*_OF_ALERTS)
        .order_by("verdict", "fired_at")[: ALERTS_MAX + 1]
    )


def unsilenced(alerts: Sequence[Alert], silences: Silences) -> Unsilenced:
    """Leave out of what `alerts_query` found the silenced alerts."""
    return Unsilenced(
        alerts=[alert for alert in alerts[:ALERTS_MAX] if silences.find(alert) is None],
        silences=silences,
        is_cut=len(alerts) > ALERTS_MAX,
    )


def needs(
    lines: Sequence[TableLine],
    writers: Sequence[WriterLine],
    work: Work,
    losses: Mapping[int, Losses],
    known: Unsilenced,
) -> list[AttentionNeed]:
    """By rank, then what has lasted longest. What somebody silenced is left out. See `folded`."""
    by_key = {line.key: line for line in lines}
    listed = [
        *_unread(lines, known),
        *_suspects(writers, known),
        *_broken(work, by_key, known),
        *_awaiting(work.open),
        *_lost(losses, by_key, known),
        *(_of_alert(alert) for alert in known.alerts if alert.check_name not in _SAID_HERE),
    ]
    latest = datetime.max.replace(tzinfo=UTC)
    return sorted(listed, key=lambda need: (need.rank, need.since or latest, need.key))


def folded(listed: Sequence[AttentionNeed]) -> list[AttentionNeed]:
    """The needs without repeats: of each health check the first `ALIKE_SHOWN`, the last of them
    with how many are alike. A fault of a hundred tables must hide no other one.
    """
    alike = Counter((need.rank, need.check) for need in listed if need.check)
    passed: Counter[tuple[int, str]] = Counter()
    kept = []
    for need in listed:
        kind = (need.rank, need.check)
        passed[kind] += bool(need.check)
        if not need.check or passed[kind] < ALIKE_SHOWN:
            kept.append(need)
        elif passed[kind] == ALIKE_SHOWN:
            kept.append(replace(need, others=alike[kind] - ALIKE_SHOWN))
    return kept


def _unread(lines: Iterable[TableLine], known: Unsilenced) -> Iterator[AttentionNeed]:
    for line in lines:
        if not line.is_unread or known.is_silenced(line.key, line.namespace, "mirror"):
            continue
        is_failing = bool(line.sync_error)
        if line.sync_state == "unread":
            cause, advice = (
                "it has never been synced",
                f"Check that the workers run: {format_command('status')}.",
            )
        elif is_failing:
            cause, advice = f"{line.sync_problem}: {line.sync_error}", ""
        else:
            cause, advice = (
                "it was last synced too long ago",
                f"Check that the workers run: {format_command('status')}.",
            )
        yield AttentionNeed(
            key=f"unread-{line.slug}",
            rank=0 if is_failing else 2,
            verdict="bad" if is_failing else "warn",
            title="Cannot be read" if is_failing else "Out of date",
            cause=cause,
            advice=advice,
            slug=line.slug,
            table_name=line.name,
            since=line.failing_since or line.synced_at,
            page="overview",
            check="mirror",
        )


def _suspects(writers: Iterable[WriterLine], known: Unsilenced) -> Iterator[AttentionNeed]:
    for line in writers:
        if not line.is_suspect or known.is_silenced(line.table, line.namespace, "suspect-writer"):
            continue
        yield AttentionNeed(
            key=f"suspect-{line.slug}-{line.instant}",
            rank=1,
            verdict="warn",
            title="Writer is suspect",
            cause=f"{line.writer or 'a writer'} has missed heartbeats and expires soon",
            advice="Check its process before another writer rolls it back.",
            slug=line.slug,
            table_name=line.table_name,
            since=line.beat_at,
            page="writers",
            check="suspect-writer",
        )


def _broken(
    work: Work, lines: Mapping[int, TableLine], known: Unsilenced
) -> Iterator[AttentionNeed]:
    for row in work.broken:
        line = lines.get(work.keys[row.table_slug])
        if line and known.is_silenced(line.key, line.namespace, "event-failed-operation"):
            continue
        is_unknown = row.state == OperationState.UNKNOWN
        yield AttentionNeed(
            key=f"operation-{row.id}",
            rank=1,
            verdict="warn" if is_unknown else "bad",
            title=f"{_name(row)} {'ended in an unknown state' if is_unknown else 'failed'}",
            cause=row.message or "it reported no reason",
            advice="Open its log; run it again there.",
            slug=row.table_slug,
            table_name=row.table_name,
            since=row.finished_at or row.started_at or row.requested_at,
            page="operation",
            operation=row.id,
        )


def _awaiting(rows: Iterable[OperationRow]) -> Iterator[AttentionNeed]:
    for row in rows:
        if row.state != OperationState.AWAITING:
            continue
        yield AttentionNeed(
            key=f"approval-{row.id}",
            rank=3,
            verdict="warn",
            title=f"{_name(row)} awaits approval",
            cause=row.reason or f"{row.requested_by} requested it",
            advice="Approve or decline it.",
            slug=row.table_slug,
            table_name=row.table_name,
            since=row.requested_at,
            page="approval",
            operation=row.id,
        )


def _lost(
    losses: Mapping[int, Losses], lines: Mapping[int, TableLine], known: Unsilenced
) -> Iterator[AttentionNeed]:
    for key, of_table in losses.items():
        line = lines.get(key)
        if line is None or not of_table.open:
            continue
        if known.is_silenced(key, line.namespace, "event-conflict"):
            continue
        is_single = of_table.open == 1
        yield AttentionNeed(
            key=f"conflicts-{line.slug}",
            rank=3,
            verdict="warn",
            title="Rejected write" if is_single else f"{of_table.open} rejected writes",
            cause="its writer has committed nothing since"
            if is_single
            else "their writers have committed nothing since",
            advice="Open the conflicts for the causes and what to do.",
            slug=line.slug,
            table_name=line.name,
            since=of_table.newest_at,
            page="conflicts",
            check="event-conflict",
        )


def _of_alert(alert: Alert) -> AttentionNeed:
    is_bad = alert.verdict == "bad" or alert.severity == "critical"
    return AttentionNeed(
        key=f"alert-{alert.pk}",
        rank=1 if is_bad else 2,
        verdict="bad" if is_bad else "warn",
        # The title of a check says how it should be, so what is the case comes first.
        title=alert.sentence[:1].upper() + alert.sentence[1:],
        cause=f"failing check: {alert.title}",
        advice=alert.advice,
        slug=alert.table.slug,
        table_name=alert.table.name,
        since=alert.fired_at,
        page=_PAGES.get(alert.check_name, "overview"),
        check=alert.check_name,
    )


def _name(row: OperationRow) -> str:
    return (row.service.replace("_", " ") or row.kind).capitalize()
