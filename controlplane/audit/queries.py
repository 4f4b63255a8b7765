"""Audit rows as plain values, newest first, and the state of the chain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.audit.canonical import GENESIS_HASH
from controlplane.audit.guards import find_missing_triggers
from controlplane.audit.models import AuditCheck, AuditEvent, AuditHead
from controlplane.paging import PAGE_ROWS, Page, chosen_order, in_order, newest_first
from workers.installation import format_command

OVERDUE_AFTER = timedelta(minutes=10)
"""Without a verification, or with a row outside the chain, for this long, a process has stopped."""

Verdict = Literal["good", "warn", "bad", "quiet"]

SORTED_BY = {key: key for key in ("at", "who", "what", "object", "result")}
"""The sort keys of audit rows, and their columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """The selected rows; an empty text selects all."""

    who: str = ""
    what: str = ""
    """An action, or a prefix that ends with a dot: `service.`"""
    object: str = ""
    """A table's slug, mostly."""
    result: str = ""
    request_id: str = ""
    since: datetime | None = None
    until: datetime | None = None
    """The end of the period, exclusive."""

    def to_text(self) -> dict[str, str]:
        """Return the conditions that are set, as text."""
        conditions = {name: text for name, text in asdict(self).items() if text}
        return {
            name: text.isoformat() if isinstance(text, datetime) else str(text)
            for name, text in conditions.items()
        }


_OF_PEOPLE = ("grant.", "rows.give", "rows.take", "token.", "user.", "group.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    id: int
    sequence: int | None
    """The number in the chain; null until the row is in the chain."""
    at: datetime
    who: str
    what: str
    object: str
    result: str
    reason: str
    plan_hash: str
    request_id: str
    details: Mapping[str, Any]
    version: int
    """The version of the canonical form that is hashed."""
    digest: str
    previous_hash: str
    hash: str

    @property
    def concerns(self) -> str:
        """The user or group with the role, right or token; empty for other actions."""
        if not self.what.startswith(_OF_PEOPLE):
            return ""
        of = self.details
        holder = of.get("user") or (of.get("group") and f"group {of['group']}")
        lost = sorted(set(of.get("roles_before") or []) - set(of.get("roles") or []))
        named = [str(of[name]) for name in ("role", "right", "name", "scope") if of.get(name)]
        return ": ".join(str(part) for part in (holder, ", ".join([*named, *lost])) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainState:
    verdict: Verdict
    """bad: changed; warn: not verified for ten minutes; quiet: not verified yet."""
    sentence: str
    """A sentence without a period."""
    advice: str
    """What to do; empty if there is nothing to do."""
    sequence: int
    """The number of the newest row, from the head."""
    hash: str
    verified_sequence: int
    """Every row up to this one is verified."""
    checked_at: datetime | None
    whole_at: datetime | None
    """When the whole chain was last verified without a problem."""
    problem_kind: str
    """changed, missing, inserted, forked or head; empty for none"""
    problem_sequence: int | None
    waiting: int
    """Rows that are not in the chain yet."""
    missing_guards: list[str]
    """Missing triggers of the database."""


def load_audit_page(
    row_filter: AuditFilter,
    *,
    sort: str | None = None,
    cursor: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[AuditRow]:
    """Return a page of rows, newest first or sorted by a key of `SORTED_BY`.

    Raises InvalidRequest for an invalid cursor or key.
    """
    order = chosen_order(sort, SORTED_BY)
    if order is None:
        page = newest_first(_query_events(row_filter), by="at", cursor=cursor, limit=limit)
    else:
        page = in_order(_query_events(row_filter), order, cursor=cursor, limit=limit)
    return Page([to_audit_row(event) for event in page.rows], page.next_cursor)


def find_audit_row(event_id: int) -> AuditRow | None:
    """Return a row; None if there is none."""
    event = AuditEvent.objects.filter(pk=event_id).first()
    return None if event is None else to_audit_row(event)


def load_chain_state(now: datetime | None = None) -> ChainState:
    """Return the last verification and the current state of the chain. Five queries."""
    head = AuditHead.objects.first()
    check = AuditCheck.objects.first()
    waiting_rows = AuditEvent.objects.filter(sequence=None)
    oldest_waiting = waiting_rows.order_by("pk").first()
    missing = find_missing_triggers(connection)
    verdict, sentence, advice = _describe_chain(
        check, missing, oldest_waiting.at if oldest_waiting else None, now or timezone.now()
    )
    return ChainState(
        verdict=verdict,
        sentence=sentence,
        advice=advice,
        sequence=head.sequence if head else 0,
        hash=head.hash if head else GENESIS_HASH,
        verified_sequence=check.sequence if check else 0,
        checked_at=check.checked_at if check else None,
        whole_at=check.whole_at if check else None,
        problem_kind=check.problem_kind if check else "",
        problem_sequence=check.problem_sequence if check else None,
        waiting=waiting_rows.count(),
        missing_guards=missing,
    )


def to_audit_row(event: AuditEvent) -> AuditRow:
    return AuditRow(
        id=event.pk,
        sequence=event.sequence,
        at=event.at,
        who=event.who,
        what=event.what,
        object=event.object,
        result=event.result,
        reason=event.reason,
        plan_hash=event.plan_hash,
        request_id=event.request_id,
        details=event.details,
        version=event.version,
        digest=event.digest,
        previous_hash=event.previous_hash,
        hash=event.hash,
    )


def _query_events(row_filter: AuditFilter) -> QuerySet[AuditEvent]:
    events = AuditEvent.objects.all()
    for column in ("who", "object", "result", "request_id"):
        if text := getattr(row_filter, column):
            events = events.filter(**{column: text})
    if row_filter.what:
        is_family = row_filter.what.endswith(".")
        events = events.filter(**{"what__startswith" if is_family else "what": row_filter.what})
    if row_filter.since is not None:
        events = events.filter(at__gte=row_filter.since)
    if row_filter.until is not None:
        events = events.filter(at__lt=row_filter.until)
    return events


def _describe_chain(
    check: AuditCheck | None, missing: list[str], waiting_since: datetime | None, now: datetime
) -> tuple[Verdict, str, str]:
    if check is not None and check.problem:
        advice = (
            f"`{format_command('audit verify')}` verifies the whole chain again; compare the "
            "database with a backup and with the log lines that contain sequence and hash"
        )
        return "bad", f"The audit log has been changed: {check.problem}", advice
    if missing:
        sentence = f"The database no longer refuses to change the audit: {', '.join(missing)}"
        return "bad", f"{sentence} {'is' if len(missing) == 1 else 'are'} missing", (
            f"find out who dropped the triggers; `{format_command('audit guard')}` creates them"
        )  # fmt: skip
    if check is None or check.checked_at is None:
        return "quiet", "The chain has not been verified yet", ""
    if now - check.checked_at > OVERDUE_AFTER:
        return "warn", "The chain has not been verified for 10 minutes", (
            f"`{format_command('status')}` shows whether beat and the control worker run"
        )  # fmt: skip
    if waiting_since is not None and now - waiting_since > OVERDUE_AFTER:
        return "warn", "Rows are not chained yet", (
            "the node's logs have the reason: search them for `audit rows are not chained yet`"
        )  # fmt: skip
    return "good", f"Every row up to {check.sequence} is unchanged", ""
