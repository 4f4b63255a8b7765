"""One short line for each table that somebody sees: what it is, how it is, and since when. One
query, however many tables there are; all that pages over all tables count begins here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import (
    BooleanField,
    Case,
    Exists,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    When,
)
from django.db.models.functions import Cast, Coalesce

from controlplane.kept_sql import KeptQuery
from controlplane.mirror.models import InstantRecord
from controlplane.mirror.thresholds import THRESHOLDS
from controlplane.tables.access import visible_tables
from controlplane.tables.models import Table
from controlplane.tables.problems import Problem, words_of
from controlplane.tables.queries import DATA_ACTIONS, instant_age_s
from workers.clock import InstantTime

_VERDICTS_KEPT: Final = 4_096
_NO_VERDICTS: Final[Mapping[str, str]] = MappingProxyType({})
UNWELL: Final = ("bad", "warn")
_COLUMNS: Final = (
    "pk", "slug", "name", "namespace", "location", "table_type", "owner", "tags", "description",
    "is_foreign", "write_refusal", "synced_at", "sync_error", "sync_mark__problem",
    "sync_mark__failing_since", "verdicts", "health__pk", "last_commit", "is_held_up",
    "file_totals__bytes", "file_totals__log_files", "file_totals__small_files",
    "file_totals__uncounted", "file_totals__base_rows",
)  # fmt: skip


class FileSums(NamedTuple):
    """Sums over the newest slices, as `mirror.models.FileTotals` has them."""

    bytes: int
    log_files: int
    small_files: int
    uncounted: int
    base_rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLine:
    key: int
    slug: str
    name: str
    namespace: str
    location: str
    table_type: str
    owner: str
    tags: tuple[str, ...]
    description: str
    is_foreign: bool
    write_refusal: str
    """Why Sluice does not write into it; empty when it does."""
    synced_at: datetime | None
    sync_state: str
    """As `tables.freshness` has it."""
    sync_problem: str
    """Why it cannot be read, in words; empty while it can."""
    sync_error: str
    failing_since: datetime | None
    verdicts: Mapping[str, str]
    """`warn` or `bad`, by the name of a health check that is not well."""
    is_judged: bool
    """Whether its health was looked at."""
    last_commit_at: InstantTime | None
    read_at: datetime
    is_archiving_blocked: bool
    """More commits are active than should be, and something pending, a savepoint or a writer that
    may live must not be passed.
    """

    files: FileSums

    @property
    def last_commit_age_s(self) -> float | None:
        return instant_age_s(self.last_commit_at, self.read_at)

    @property
    def is_unread(self) -> bool:
        """Whether what is shown may not be what storage holds."""
        return self.sync_state != "fresh"

    @property
    def is_past_sla(self) -> bool:
        """Whether its newest commit is older than was promised."""
        return "commits" in self.verdicts

    @property
    def is_late(self) -> bool:
        return self.is_unread or self.is_past_sla

    @property
    def health(self) -> str:
        """The worst verdict of its checks; `quiet` while nobody looked."""
        if not self.is_judged:
            return "quiet"
        return next((word for word in UNWELL if word in self.verdicts.values()), "good")


def table_lines(
    user: User, now: datetime, wanted: QuerySet[Table] | None = None
) -> list[TableLine]:
    """Lines of the tables that `user` sees, by slug; `wanted` are some of them."""
    tables = visible_tables(user) if wanted is None else wanted
    rows = _rows(tables) if tables.query.where or tables.query.is_sliced else _ALL.rows()
    stale = now - timedelta(seconds=settings.SLUICE_STALE_AFTER_S)
    return [_line(row, stale, now) for row in rows]


def _rows(tables: QuerySet[Table]) -> QuerySet[Any, Any]:
    rows = tables.order_by("slug").annotate(
        verdicts=Cast("health__verdicts", TextField()),
        last_commit=_last_commit(),
        is_held_up=_is_held_up(),
    )
    return rows.values_list(*_COLUMNS)


_ALL: Final[KeptQuery[tuple[Any, ...]]] = KeptQuery(lambda: _rows(Table.objects.all()))
"""For people who see all tables."""


def _line(row: tuple[Any, ...], stale: datetime, now: datetime) -> TableLine:
    key, slug, name, namespace, location, table_type, owner, tags, description, *state = row
    is_foreign, write_refusal, synced_at, error, problem, failing_since, verdicts, *state = state
    health, last_commit, is_held_up, total_bytes, log_files, small_files, *state = state
    uncounted, base_rows = state
    return TableLine(
        key=key,
        slug=slug,
        name=name,
        namespace=namespace,
        location=location,
        table_type=table_type,
        owner=owner,
        tags=tuple(tags.split()),
        description=description,
        is_foreign=is_foreign,
        write_refusal=write_refusal,
        synced_at=synced_at,
        sync_state=_sync_state(synced_at, error, problem or "", stale),
        sync_problem=words_of(problem or "").title if error else "",
        sync_error=error,
        failing_since=failing_since if error else None,
        verdicts=_verdicts(verdicts) if verdicts else _NO_VERDICTS,
        is_judged=health is not None,
        last_commit_at=last_commit,
        read_at=now,
        is_archiving_blocked=is_held_up,
        files=FileSums(
            total_bytes or 0, log_files or 0, small_files or 0, uncounted or 0, base_rows
        ),
    )


@lru_cache(_VERDICTS_KEPT)
def _verdicts(text: str) -> Mapping[str, str]:
    """Many tables have the same ones."""
    return MappingProxyType(json.loads(text))


def _sync_state(synced_at: datetime | None, error: str, problem: str, stale: datetime) -> str:
    if error:
        return "partial" if problem == Problem.FILES else "unreadable"
    if synced_at is None:
        return "unread"
    return "stale" if synced_at < stale else "fresh"


def _last_commit() -> Subquery:
    """Reads one index entry per table."""
    newest = InstantRecord.objects.filter(
        table=OuterRef("pk"), action__in=DATA_ACTIONS, completed_at__isnull=False
    )
    return Subquery(newest.order_by("-completed_at").values("completed_at")[:1])


def _oldest_kept() -> Subquery:
    """For a query of instants within one of tables. It names the table of the outermost: of the
    instant's own, SQLite would look it up again for each instant.
    """
    active = InstantRecord.objects.filter(
        table=OuterRef(OuterRef("pk")),
        action__in=DATA_ACTIONS,
        state="completed",
        is_archived=False,
    )
    kept = int(THRESHOLDS["active-commits"].default)
    return Subquery(active.order_by("-requested_at").values("requested_at")[kept : kept + 1])


def _is_held_up() -> Coalesce:
    """Whether something stands in archiving's way: older than so many commits as a timeline keeps,
    or as the last sync found it. Looked up only where that check is unwell.
    """
    of_table = InstantRecord.objects.filter(table=OuterRef("pk"), requested_at__lt=_oldest_kept())
    pending = of_table.filter(completed_at__isnull=True)
    savepoints = of_table.filter(action="savepoint", is_archived=False)
    is_held_by_mark = Q(sync_mark__isnull=False) & ~Q(sync_mark__held_by={})
    in_the_way = Exists(pending) | Exists(savepoints) | is_held_by_mark
    unwell = Q(health__verdicts__has_key="archiving")
    return Coalesce(
        Case(When(unwell, then=in_the_way), default=False, output_field=BooleanField()), False
    )
