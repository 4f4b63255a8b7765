"""The audit as plain rows, newest first, and how its chain is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.audit.canonical import GENESIS_HASH
from controlplane.audit.guards import missing_guards
from controlplane.audit.models import AuditCheck, AuditEvent, AuditHead
from controlplane.paging import PAGE_ROWS, Page, chosen_order, in_order, newest_first
from workers.installation import format_command

OVERDUE_AFTER = timedelta(minutes=10)
"""Without a verification for so long, or a row that waits for the chain, something stands still."""

Verdict = Literal["good", "warn", "bad", "quiet"]

SORTED_BY = {key: key for key in ("at", "who", "what", "object", "result")}
"""What audit rows may be sorted by, and the columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which rows; an empty text stands for all."""

    who: str = ""
    what: str = ""
    """All of it, or its beginning up to a dot: `service.`"""
    object: str = ""
    """A table's slug, mostly."""
    result: str = ""
    request_id: str = ""
    since: datetime | None = None
    until: datetime | None = None
    """The first moment that is left out."""

    def named(self) -> dict[str, str]:
        """What it asks for, as text."""
        given = {name: text for name, text in asdict(self).items() if text}
        return {
            name: text.isoformat() if isinstance(text, datetime) else str(text)
            for name, text in given.items()
        }


_OF_PEOPLE = ("grant.", "rows.give", "rows.take", "token.", "user.", "group.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    id: int
    sequence: int | None
    """Its number in the chain; null for the moment before it is in it."""
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
    """Of what its hashes are made of."""
    digest: str
    previous_hash: str
    hash: str

    @property
    def concerns(self) -> str:
        """Whose role, right, membership or token it is, and which; empty for all else."""
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
    """bad: something is changed; warn: nobody looked for a while; quiet: not looked at yet."""
    sentence: str
    """What is the case, without a full stop."""
    advice: str
    """What to do about it; empty when nothing has to be done."""
    sequence: int
    """Of the newest row, as its head says."""
    hash: str
    verified_sequence: int
    """Up to which every row was found good."""
    checked_at: datetime | None
    whole_at: datetime | None
    """When the whole chain was last walked through and found good."""
    problem_kind: str
    """changed, missing, inserted, forked or head; empty for none"""
    problem_sequence: int | None
    waiting: int
    """Rows that are not in the chain yet."""
    missing_guards: list[str]
    """Triggers of the database that should refuse changes, and are not there."""


def audit_page(
    wanted: AuditFilter,
    *,
    sort: str | None = None,
    cursor: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[AuditRow]:
    """Newest first, or as a key of `SORTED_BY` says. Raises InvalidRequest for a cursor that is
    none.
    """
    order = chosen_order(sort, SORTED_BY)
    if order is None:
        page = newest_first(_events(wanted), by="at", cursor=cursor, limit=limit)
    else:
        page = in_order(_events(wanted), order, cursor=cursor, limit=limit)
    return Page([audit_row(event) for event in page.rows], page.next_cursor)


def audit_event(event_id: int) -> AuditRow | None:
    """One row; None when there is none."""
    event = AuditEvent.objects.filter(pk=event_id).first()
    return None if event is None else audit_row(event)


def chain_state(now: datetime | None = None) -> ChainState:
    """What the last verification said, and what can be seen at a glance. Five queries."""
    head = AuditHead.objects.first()
    check = AuditCheck.objects.first()
    waiting_rows = AuditEvent.objects.filter(sequence=None)
    oldest_waiting = waiting_rows.order_by("pk").first()
    missing = missing_guards(connection)
    verdict, sentence, advice = _judged(
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


def audit_row(event: AuditEvent) -> AuditRow:
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


def _events(wanted: AuditFilter) -> QuerySet[AuditEvent]:
    events = AuditEvent.objects.all()
    for column in ("who", "object", "result", "request_id"):
        if text := getattr(wanted, column):
            events = events.filter(**{column: text})
    if wanted.what:
        is_family = wanted.what.endswith(".")
        events = events.filter(**{"what__startswith" if is_family else "what": wanted.what})
    if wanted.since is not None:
        events = events.filter(at__gte=wanted.since)
    if wanted.until is not None:
        events = events.filter(at__lt=wanted.until)
    return events


def _judged(
    check: AuditCheck | None, missing: list[str], waiting_since: datetime | None, now: datetime
) -> tuple[Verdict, str, str]:
    if check is not None and check.problem:
        advice = (
            f"`{format_command('audit verify')}` walks through all of it again; compare the "
            "database with a backup and with the log lines that name sequence and hash"
        )
        return "bad", f"The audit does not verify: {check.problem}", advice
    if missing:
        sentence = f"The database no longer refuses to change the audit: {', '.join(missing)}"
        return "bad", f"{sentence} {'is' if len(missing) == 1 else 'are'} gone", (
            f"find out who dropped the triggers; `{format_command('audit guard')}` makes them again"
        )  # fmt: skip
    if check is None or check.checked_at is None:
        return "quiet", "The chain was not verified yet", ""
    if now - check.checked_at > OVERDUE_AFTER:
        return "warn", "The chain was not verified for a while", (
            f"`{format_command('status')}` says whether beat and the control worker run"
        )  # fmt: skip
    if waiting_since is not None and now - waiting_since > OVERDUE_AFTER:
        return "warn", "Rows wait for the chain", (
            "the node's logs say `audit rows wait for the chain`, and why"
        )  # fmt: skip
    return "good", f"Every row up to {check.sequence} is as it was written", ""
