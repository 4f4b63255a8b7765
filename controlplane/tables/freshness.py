"""How old is what is shown of a table, and why it is no newer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from django.apps import apps
from django.conf import settings
from django.utils import timezone

from controlplane.tables.messages import mask_message
from controlplane.tables.models import Table
from controlplane.tables.problems import Problem, words_of

Verdict = Literal["fresh", "stale", "unread", "partial", "unreadable"]
VERDICTS: Final[tuple[Verdict, ...]] = ("fresh", "stale", "unread", "partial", "unreadable")


_KNOWN = "_sluice_failing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    verdict: Verdict
    """fresh; stale: last read longer ago than SLUICE_STALE_AFTER_S; unread: not read yet; partial:
    all but its files is read; unreadable: what is shown is the last good state.
    """
    as_of: datetime | None
    """What is shown is what storage held then."""
    age_s: float | None
    problem: str
    """Why it cannot be read, in one word of `problems.Problem`; empty while it can."""
    title: str
    """The same for a reader, after the table's name."""
    reason: str
    """The error of the attempt, without values of rows: every reader and channel gets it."""
    advice: str
    """What to do; a sentence."""
    failing_since: datetime | None

    @property
    def is_old(self) -> bool:
        """Whether what is shown may not be what storage holds."""
        return self.verdict != "fresh"


def freshness(table: Table, *, now: datetime | None = None) -> Freshness:
    """One query for a table that cannot be read, else none; a page asks of the same one twice."""
    if not table.sync_error:
        return freshness_of(table, now or timezone.now(), ("", None))
    of_error, failing = vars(table).get(_KNOWN, ("", ("", None)))
    if of_error != table.sync_error:
        failing = failing_tables([table.pk]).get(table.pk, ("", None))
        vars(table)[_KNOWN] = table.sync_error, failing
    return freshness_of(table, now or timezone.now(), failing)


def failing_tables(keys: list[int] | None = None) -> dict[int, tuple[str, datetime | None]]:
    """Problem and since when, by the key of a table that cannot be read: of these tables, or of
    all. One query.
    """
    marks = apps.get_model("mirror", "SyncMark")._default_manager.exclude(problem="")
    if keys is not None:
        marks = marks.filter(table__in=keys)
    rows = marks.values_list("table", "problem", "failing_since")
    return {table: (problem, since) for table, problem, since in rows}


def freshness_of(table: Table, now: datetime, failing: tuple[str, datetime | None]) -> Freshness:
    """`failing` as `failing_tables` has it."""
    problem, since = failing if table.sync_error else ("", None)
    words = words_of(problem) if table.sync_error else None
    age_s = None if table.synced_at is None else (now - table.synced_at).total_seconds()
    return Freshness(
        verdict=_verdict(table, age_s, problem),
        as_of=table.synced_at,
        age_s=age_s,
        problem=problem,
        title=words.title if words else "",
        reason=mask_message(table.sync_error),
        advice=words.advice if words else "",
        failing_since=since,
    )


def _verdict(table: Table, age_s: float | None, problem: str) -> Verdict:
    if table.sync_error:
        return "partial" if problem == Problem.FILES else "unreadable"
    if age_s is None:
        return "unread"
    return "stale" if age_s > settings.SLUICE_STALE_AFTER_S else "fresh"
