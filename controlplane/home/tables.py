"""The list of tables with all that it may be filtered and sorted by. What is little is counted for
all tables; what is much, for those of the page, and that by which the list is sorted for all of
them. Five queries, however many tables there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Count, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from controlplane.errors import InvalidRequest
from controlplane.home.hours import (
    HOURS,
    Hourly,
    Losses,
    commits_by_hour,
    commits_of_day,
    hour_starts,
    losses_by_hour,
    losses_query,
)
from controlplane.home.lines import TableLine, table_lines
from controlplane.home.work import WriterLine, beats_query, writers_of
from controlplane.mirror.models import InstantRecord
from controlplane.monitoring.alert_rules import CHECKS
from controlplane.read_together import read_together
from controlplane.tables.access import visible_tables
from controlplane.tables.listing import Wanted, wanted_tables
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from controlplane.tables.targets import (
    FreshnessTarget,
    get_freshness_target,
    query_target_minutes,
)
from workers.clock import InstantTime

PAGE_ROWS: Final = 50
EXPORT_ROWS_MAX: Final = 10_000
OF_CHECK: Final = "check."
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_HEALTH: Final = {"bad": 0, "warn": 1, "quiet": 2, "good": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A table and what it does."""

    line: TableLine
    active_writers: int
    suspect_writers: int
    conflicts_24h: int
    open_conflicts: int
    pending: int
    """Instants of writes that are not completed."""
    plans: int
    """Of services that are planned and not through."""
    log_files: int
    """Of the newest slices: what a compaction merges."""
    bytes: int
    """Of the newest slices."""
    base_rows: int | None
    """In the base files of the newest slices, without rows in log files; None while no file group
    is counted.
    """
    uncounted: int
    """File groups whose base file is not counted."""
    small_files: int
    """File groups whose base file is smaller than `SMALL_FILE_BYTES`."""
    last_compaction_at: InstantTime | None
    delta_commits: int
    """Completed since the last compaction, or since the table began."""
    commits: Sequence[int]
    """By hour, the oldest first."""
    rows_24h: int
    """Rows that its commits wrote, as far as they say."""
    target: FreshnessTarget | None
    is_pinned: bool

    @property
    def target_share(self) -> float | None:
        """Age of the newest commit in parts of the target; 1 is just as old."""
        age_s = self.line.last_commit_age_s
        return None if self.target is None or age_s is None else age_s / self.target.seconds

    @property
    def target_percent(self) -> float | None:
        return None if self.target_share is None else round(100 * self.target_share)

    @property
    def commits_24h(self) -> int:
        return sum(self.commits)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuery:
    """Which tables, in which order; empty for all, by their slugs."""

    search: str = ""
    namespace: str = ""
    show: str = ""
    """A key of `SHOWN`, or `OF_CHECK` and the name of a health check."""
    owner: str = ""
    tag: str = ""
    sort: str = ""
    """A key of `SORTED_BY`, behind a dash for the other way round."""
    page: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Over all that is listed, whatever the page."""

    tables: int
    active_writers: int
    pending: int
    conflicts_24h: int
    late: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableList:
    at: datetime
    """When it was looked up."""
    rows: list[Listed]
    first: int
    """Of the page: the number of its first row."""
    total: int
    pages: int
    page: int
    sums: Sums
    owners: list[str]
    tags: list[str]
    """Of all that is listed, before it was filtered by them."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is counted for every table, and what is counted for some."""

    now: datetime
    writers: Mapping[int, list[WriterLine]]
    losses: Mapping[int, Losses]
    pending: Mapping[int, tuple[int, int]]
    pins: frozenset[int]
    commits: Mapping[int, Hourly]
    compactions: Mapping[int, tuple[InstantTime | None, int]]
    targets: Mapping[int, float | None]
    """Thresholds in minutes, of those tables."""


def table_list(
    user: User, wanted: TableQuery, pins: frozenset[int], now: datetime, rows: int = PAGE_ROWS
) -> TableList:
    """The page that is wanted. Raises InvalidRequest for a filter or an order that there is not."""
    matching = wanted_tables(user, Wanted(search=wanted.search, namespace=wanted.namespace))
    lines = table_lines(user, now, matching)
    known = _known(user, pins, now)
    kept = [line for line in _shown(lines, wanted.show, known) if _is_labelled(line, wanted)]
    ordered = _in_order(kept, wanted.sort, _with_sorted(known, kept, wanted.sort))
    pages = max(1, -(-len(ordered) // rows))
    page = max(1, min(wanted.page, pages))
    chosen = ordered[(page - 1) * rows : page * rows]
    known = _with_more(known, [line.key for line in chosen])
    return TableList(
        at=now,
        rows=[_listed(line, known) for line in chosen],
        first=(page - 1) * rows + 1,
        total=len(ordered),
        pages=pages,
        page=page,
        sums=_sums(ordered, known),
        owners=sorted({line.owner for line in lines if line.owner}),
        tags=sorted({tag for line in lines for tag in line.tags}),
    )


def _known(user: User, pins: frozenset[int], now: datetime) -> _Known:
    tables, starts = visible_tables(user), hour_starts(now)
    open_instants = InstantRecord.objects.filter(
        completed_at__isnull=True, table__in=tables.order_by()
    )
    counted = open_instants.order_by().values_list("table", "action").annotate(n=Count("pk"))
    beats, lost = beats_query(user), losses_query(tables, starts)
    read_together(beats, counted, lost)
    writers: dict[int, list[WriterLine]] = {}
    for writer in writers_of(beats, now):
        writers.setdefault(writer.table, []).append(writer)
    pending: dict[int, tuple[int, int]] = {}
    for key, action, count in counted:
        writes, plans = pending.get(key, (0, 0))
        is_write = action in DATA_ACTIONS
        pending[key] = (writes + count * is_write, plans + count * (not is_write))
    return _Known(now, writers, losses_by_hour(lost, starts), pending, pins, {}, {}, {})


def _with_more(known: _Known, keys: Sequence[int]) -> _Known:
    """What is much, of these tables."""
    if not keys:
        return known
    compacted, targets = _compactions(keys), _targets(keys)
    read_together(compacted, targets)
    commits = commits_by_hour(keys, hour_starts(known.now))
    return replace(known, commits=commits, compactions=_by_table(compacted), targets=dict(targets))


def _with_sorted(known: _Known, lines: Sequence[TableLine], sort: str) -> _Known:
    """Read what these tables are sorted by, where it is much. One query, or none."""
    keys, name = [line.key for line in lines], sort.removeprefix("-")
    if name == "freshness":
        return replace(known, targets=dict(_targets(keys)))
    if name in ("deltas", "compaction"):
        return replace(known, compactions=_by_table(_compactions(keys)))
    if name == "rows":
        return replace(known, commits=commits_by_hour(keys, hour_starts(known.now)))
    if name == "commits":
        totals = commits_of_day(keys, hour_starts(known.now))
        return replace(known, commits={key: Hourly([n]) for key, n in totals.items()})
    return known


def _targets(keys: Sequence[int]) -> QuerySet[Table, Any]:
    thresholds = Table.objects.filter(pk__in=keys).order_by()
    return thresholds.values_list("pk", query_target_minutes())


def _by_table(compacted: QuerySet[Table, Any]) -> Mapping[int, tuple[InstantTime | None, int]]:
    return {key: (last_at, deltas or 0) for key, last_at, deltas in compacted}


def _compactions(keys: Sequence[int]) -> QuerySet[Table, Any]:
    """Return the query of the last compaction of each merge-on-read table, and of its delta commits
    since. Both read the index of completion times.
    """
    of_table = InstantRecord.objects.filter(table=OuterRef("pk"), state="completed")
    compactions = of_table.filter(action="commit").order_by("-completed_at")
    last_at = Subquery(compactions.values("completed_at")[:1])
    deltas = of_table.filter(action="deltacommit", completed_at__gt=OuterRef("last_at"))
    count = deltas.order_by().values("table").annotate(n=Count("pk")).values("n")
    tables = Table.objects.filter(pk__in=keys, table_type="MERGE_ON_READ").order_by()
    return tables.annotate(
        compacted_at=last_at, last_at=Coalesce("compacted_at", Value("0"))
    ).values_list("pk", "compacted_at", Subquery(count))


def _is_active(line: TableLine, known: _Known) -> bool:
    return bool(known.writers.get(line.key))


SHOWN: Final[Mapping[str, tuple[str, Callable[[TableLine, _Known], bool]]]] = {
    "late": ("late", lambda line, _: line.is_late),
    "unread": ("out of sync", lambda line, _: line.is_unread),
    "conflicts": (
        "open conflicts",
        lambda line, known: line.key in known.losses and known.losses[line.key].open > 0,
    ),
    "suspects": (
        "suspect writers",
        lambda line, known: any(one.is_suspect for one in known.writers.get(line.key, ())),
    ),
    "archiving": ("archiving blocked", lambda line, _: line.is_archiving_blocked),
    "unwell": ("failing checks", lambda line, _: line.health in ("bad", "warn") or line.is_unread),
    "writing": ("active writers", _is_active),
    "pinned": ("pinned", lambda line, known: line.key in known.pins),
}
"""What the list may be narrowed to, in words."""


def _shown(lines: Iterable[TableLine], show: str, known: _Known) -> list[TableLine]:
    if not show:
        return list(lines)
    if show.startswith(OF_CHECK):
        check = show.removeprefix(OF_CHECK)
        return [line for line in lines if check in line.verdicts]
    if show not in SHOWN:
        raise InvalidRequest("invalid filter of tables", show=show[:40], known=[*SHOWN])
    _, is_shown = SHOWN[show]
    return [line for line in lines if is_shown(line, known)]


def shown_words(show: str) -> str:
    """What the list is narrowed to."""
    if show.startswith(OF_CHECK):
        check = show.removeprefix(OF_CHECK)
        return f"failing check: {CHECKS.get(check, check)}"
    return SHOWN[show][0] if show in SHOWN else ""


def _is_labelled(line: TableLine, wanted: TableQuery) -> bool:
    is_owned = not wanted.owner or line.owner == wanted.owner
    return is_owned and (not wanted.tag or wanted.tag in line.tags)


_Key = Callable[[Listed], Any]
SORTED_BY: Final[Mapping[str, _Key]] = {
    "name": lambda row: row.line.name,
    "health": lambda row: (_HEALTH[row.line.health], -len(row.line.verdicts)),
    "commit": lambda row: -(row.line.last_commit_age_s or float("inf")),
    "freshness": lambda row: (row.target_share is None, row.target_share or 0.0),
    "mirror": lambda row: (not row.line.sync_error, row.line.synced_at or _LONG_AGO),
    "writers": lambda row: row.active_writers,
    "conflicts": lambda row: (row.conflicts_24h, row.open_conflicts),
    "backlog": lambda row: (row.log_files, row.plans),
    "size": lambda row: row.bytes,
    "base_rows": lambda row: (row.base_rows is not None, row.base_rows or 0),
    "small": lambda row: row.small_files,
    "deltas": lambda row: row.delta_commits,
    "compaction": lambda row: row.last_compaction_at or "",
    "rows": lambda row: row.rows_24h,
    "commits": lambda row: row.commits_24h,
    "pending": lambda row: row.pending,
    "owner": lambda row: (row.line.owner == "", row.line.owner),
    "tags": lambda row: (not row.line.tags, row.line.tags),
    "description": lambda row: (row.line.description == "", row.line.description.lower()),
    "type": lambda row: row.line.table_type,
    "namespace": lambda row: row.line.namespace,
    "location": lambda row: row.line.location,
}
"""What the list may be sorted by: the keys of its columns."""


def _in_order(lines: list[TableLine], sort: str, known: _Known) -> list[TableLine]:
    """By slug where nothing else is said, what is pinned first."""
    if not sort:
        return sorted(lines, key=lambda line: line.key not in known.pins)
    key = SORTED_BY.get(sort.removeprefix("-"))
    if key is None:
        raise InvalidRequest("invalid sort order of tables", sort=sort[:40], known=[*SORTED_BY])
    rows = [_listed(line, known) for line in lines]
    return [row.line for row in sorted(rows, key=key, reverse=sort.startswith("-"))]


def _listed(line: TableLine, known: _Known) -> Listed:
    writers = known.writers.get(line.key, [])
    lost = known.losses.get(line.key) or Losses()
    writes, plans = known.pending.get(line.key, (0, 0))
    files = line.files
    last_compaction_at, deltas = known.compactions.get(line.key, (None, 0))
    hourly = known.commits.get(line.key)
    return Listed(
        line=line,
        active_writers=len(writers),
        suspect_writers=sum(writer.is_suspect for writer in writers),
        conflicts_24h=lost.total,
        open_conflicts=lost.open,
        pending=writes,
        plans=plans,
        log_files=files.log_files,
        bytes=files.bytes,
        base_rows=files.base_rows,
        uncounted=files.uncounted,
        small_files=files.small_files,
        last_compaction_at=last_compaction_at,
        delta_commits=deltas,
        commits=hourly.counts if hourly else [0] * HOURS,
        rows_24h=hourly.rows if hourly else 0,
        target=get_freshness_target(known.targets.get(line.key)),
        is_pinned=line.key in known.pins,
    )


def _sums(lines: Sequence[TableLine], known: _Known) -> Sums:
    counted: Counter[str] = Counter()
    for line in lines:
        counted["writers"] += len(known.writers.get(line.key, ()))
        counted["pending"] += sum(known.pending.get(line.key, (0, 0)))
        counted["conflicts"] += known.losses[line.key].total if line.key in known.losses else 0
        counted["late"] += line.is_late
    return Sums(
        tables=len(lines),
        active_writers=counted["writers"],
        pending=counted["pending"],
        conflicts_24h=counted["conflicts"],
        late=counted["late"],
    )
