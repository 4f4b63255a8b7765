"""Home: five figures that need a person, what needs one, what runs, what was done, for the tables
that somebody sees. Nine queries, however many tables there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.contrib.auth.models import User

from controlplane.home.attention import Need, folded, needs, unsilenced
from controlplane.home.hours import (
    HOURS,
    Hourly,
    Losses,
    all_commits_by_hour,
    commits_by_hour,
    hour_starts,
    losses_by_hour,
)
from controlplane.home.lines import TableLine, table_lines
from controlplane.home.people import Deed, recent_deeds
from controlplane.home.work import WriterLine, work_of, writers_of
from controlplane.operations.queries import OperationRow
from controlplane.tables.access import visible_tables

NEEDS_SHOWN: Final = 20
RUNNING_SHOWN: Final = 12
MULTIPLES: Final = 5
"""So many tables have a small chart of their own, beside that of all tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How many of what needs a person."""

    late_tables: int
    """Past their SLA, or not read for a while."""
    open_conflicts: int
    """Lost in the last 24 hours, by writers that committed nothing since."""
    suspect_writers: int
    broken_operations: int
    """In the last 24 hours, that nobody asked for again."""
    is_broken_cut: bool
    """There are more of them."""
    blocked_archiving: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiple:
    """One of the small charts."""

    slug: str
    """Empty for all tables together."""
    name: str
    commits: Sequence[int]
    conflicts: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeBoard:
    at: datetime
    """When it was looked up."""
    tables: frozenset[str]
    """The slugs of all that one sees."""
    figures: Figures
    needs: list[Need]
    """Several of a kind are one of them, with the rest counted."""
    needs_total: int
    is_needs_cut: bool
    """More fires than was read."""
    operations: list[OperationRow]
    operations_total: int
    writers: list[WriterLine]
    """Without those of the operations that are listed."""
    writers_total: int
    hours: list[datetime]
    multiples: list[Multiple]
    deeds: list[Deed]


def home_board(user: User, now: datetime) -> HomeBoard:
    lines = table_lines(user, now)
    writers = writers_of(user, now)
    work = work_of(user, now)
    hours = hour_starts(now)
    tables = visible_tables(user)
    commits = all_commits_by_hour([line.key for line in lines], hours)
    losses = losses_by_hour(tables, hours)
    chosen = _busiest(lines, losses)
    by_table = commits_by_hour([line.key for line in chosen], hours)
    known = unsilenced(user, now)
    listed = needs(lines, writers, work, losses, known)
    running = [row for row in work.open if row.state != "awaiting"]
    named = {str(row.id) for row in running} | {row.instant for row in running if row.instant}
    others = [
        line for line in writers if line.operation_ref not in named and line.instant not in named
    ]
    return HomeBoard(
        at=now,
        tables=frozenset(line.slug for line in lines),
        figures=Figures(
            late_tables=sum(line.is_late for line in lines),
            open_conflicts=sum(of_table.open for of_table in losses.values()),
            suspect_writers=sum(line.is_suspect for line in writers),
            broken_operations=len(work.broken),
            is_broken_cut=work.is_cut,
            blocked_archiving=sum(line.is_archiving_blocked for line in lines),
        ),
        needs=folded(listed)[:NEEDS_SHOWN],
        needs_total=len(listed),
        is_needs_cut=known.is_cut,
        operations=running[:RUNNING_SHOWN],
        operations_total=len(running),
        writers=others[:RUNNING_SHOWN],
        writers_total=len(others),
        hours=hours,
        multiples=_multiples(chosen, commits, by_table, losses),
        deeds=recent_deeds(user),
    )


def _busiest(lines: Sequence[TableLine], losses: Mapping[int, Losses]) -> list[TableLine]:
    """Those with the most conflicts, then those that were written last."""
    by_commit = sorted(lines, key=lambda line: line.last_commit_at or "", reverse=True)
    return sorted(by_commit, key=lambda line: -losses[line.key].total if line.key in losses else 0)[
        :MULTIPLES
    ]


def _multiples(
    chosen: Sequence[TableLine],
    commits: Sequence[int],
    by_table: Mapping[int, Hourly],
    losses: Mapping[int, Losses],
) -> list[Multiple]:
    """All tables together, then those chosen."""
    lost = [of_table.counts for of_table in losses.values()]
    nothing = [0] * HOURS
    return [
        Multiple(
            slug="",
            name="All tables",
            commits=commits,
            conflicts=[sum(column) for column in zip(*lost, strict=True)] or nothing,
        ),
        *(
            Multiple(
                slug=line.slug,
                name=line.name,
                commits=by_table[line.key].counts if line.key in by_table else nothing,
                conflicts=losses[line.key].counts if line.key in losses else nothing,
            )
            for line in chosen
        ),
    ]
