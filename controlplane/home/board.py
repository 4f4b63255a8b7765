"""Home over all tables that a user sees: numbers that need a person, what needs one, what happens
now, and what people did. A handful of queries, however many tables there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

from django.contrib.auth.models import User

from controlplane.home.attention import AttentionNeed, alerts_query, folded, needs, unsilenced
from controlplane.home.hours import (
    HOURS,
    Hourly,
    Losses,
    all_commits_by_hour,
    commits_by_hour,
    hour_starts,
    losses_by_hour,
    losses_query,
)
from controlplane.home.lines import TableLine, table_lines
from controlplane.home.now import (
    SHOWN,
    ConflictLine,
    JoinedStreams,
    PendingMarkers,
    conflict_lines,
    conflicts_query,
    load_markers,
    load_streams,
    markers_query,
    streams_query,
)
from controlplane.home.people import SHOWN as ACTIONS_SHOWN
from controlplane.home.people import RecentAction, deeds_query, recent_actions
from controlplane.home.work import WriterLine, beats_query, work_of, work_query, writers_of
from controlplane.monitoring.models import Silence
from controlplane.monitoring.silences import Silences
from controlplane.operations.queries import OperationRow
from controlplane.read_together import read_together
from controlplane.tables.access import visible_tables

NEEDS_SHOWN: Final = 20
RUNNING_SHOWN: Final = 8
LIMITS: Final = {
    "needs": NEEDS_SHOWN,
    "writers": SHOWN,
    "conflicts": SHOWN,
    "markers": SHOWN,
    "streams": SHOWN,
    "operations": RUNNING_SHOWN,
    "actions": ACTIONS_SHOWN,
}
"""Rows of each list."""
MULTIPLES: Final = 5
"""So many tables have a small chart of their own, next to that of all tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeCounts:
    """How many of what needs a person."""

    late_tables: int
    """Past their freshness target, or not synced for a while."""
    suspect_writers: int
    broken_operations: int
    """In the last 24 hours, that nobody asked for again."""
    is_broken_cut: bool
    """There are more of them."""
    firing_alerts: int
    is_alerts_cut: bool
    """There are more of them."""
    blocked_archiving: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HourCounts:
    """One of the small charts."""

    slug: str
    """Empty for all tables together."""
    name: str
    commits: list[int]
    conflicts: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeBoard:
    at: datetime
    """When it was read."""
    tables: int
    """How many the user sees."""
    figures: HomeCounts
    needs: list[AttentionNeed]
    """Several of a kind are one of them, with the rest counted."""
    needs_total: int
    is_needs_cut: bool
    """More fires than was read."""
    writers: list[WriterLine]
    """Active ones: suspects first, then those with the oldest heartbeat."""
    writers_total: int
    conflicts: list[ConflictLine]
    """The newest first."""
    conflicts_24h: int
    open_conflicts: int
    """Lost in the last 24 hours by writers that committed nothing since."""
    markers: PendingMarkers
    streams: JoinedStreams
    operations: list[OperationRow]
    """Running and waiting ones, the newest first."""
    operations_total: int
    recent_actions: list[RecentAction]


@dataclass(frozen=True, slots=True, kw_only=True)
class HourBoard:
    """Commits and conflicts of the last 24 hours."""

    hours: list[datetime]
    tables: list[HourCounts]
    """All tables together, then those with the most conflicts."""


class HomeLook:
    """Home of one user at one moment. Each part is read on its first use."""

    def __init__(self, user: User, now: datetime, limits: Mapping[str, int] | None = None) -> None:
        """`limits` replaces how many rows of a list are read: needs, writers, conflicts, markers,
        streams, operations or actions.
        """
        self.user, self.now, self.limits = user, now, limits or {}
        self.starts = hour_starts(now)

    @cached_property
    def lines(self) -> list[TableLine]:
        return table_lines(self.user, self.now)

    @cached_property
    def losses(self) -> Mapping[int, Losses]:
        return losses_by_hour(losses_query(visible_tables(self.user), self.starts), self.starts)

    def board(self) -> HomeBoard:
        user, now = self.user, self.now
        beats, operations, alerts = beats_query(user), work_query(user, now), alerts_query(user)
        limits = {name: self.limits.get(name, usual) for name, usual in LIMITS.items()}
        lost = losses_query(visible_tables(user), self.starts)
        conflicts = conflicts_query(user, limits["conflicts"])
        markers, streams = markers_query(user), streams_query(user, limits["streams"])
        deeds = deeds_query(user, limits["actions"])
        silences = Silence.objects.filter(until__gt=now)
        read_together(beats, operations, alerts, silences, lost, conflicts, markers, streams, deeds)
        losses = self.losses = losses_by_hour(lost, self.starts)
        writers, work = writers_of(beats, now), work_of(user, list(operations))
        known = unsilenced(list(alerts), Silences(silences))
        listed = needs(self.lines, writers, work, losses, known)
        running = [row for row in work.open if row.state != "awaiting"]
        return HomeBoard(
            at=now,
            tables=len(self.lines),
            figures=HomeCounts(
                late_tables=sum(line.is_late for line in self.lines),
                suspect_writers=sum(line.is_suspect for line in writers),
                broken_operations=len(work.broken),
                is_broken_cut=work.is_cut,
                firing_alerts=len(known.alerts),
                is_alerts_cut=known.is_cut,
                blocked_archiving=sum(line.is_archiving_blocked for line in self.lines),
            ),
            needs=listed[: limits["needs"]]
            if "needs" in self.limits
            else folded(listed)[:NEEDS_SHOWN],
            needs_total=len(listed),
            is_needs_cut=known.is_cut,
            writers=sorted(writers, key=lambda line: not line.is_suspect)[: limits["writers"]],
            writers_total=len(writers),
            conflicts=conflict_lines(conflicts),
            conflicts_24h=sum(of_table.total for of_table in losses.values()),
            open_conflicts=sum(of_table.open for of_table in losses.values()),
            markers=load_markers(list(markers), now, limits["markers"]),
            streams=load_streams(user, list(streams), now),
            operations=running[: limits["operations"]],
            operations_total=len(running),
            recent_actions=recent_actions(deeds),
        )

    def hours(self) -> HourBoard:
        """Two queries, and those of the tables and their conflicts."""
        chosen = _busiest(self.lines, self.losses)
        commits = all_commits_by_hour([line.key for line in self.lines], self.starts)
        by_table = commits_by_hour([line.key for line in chosen], self.starts)
        return HourBoard(
            hours=self.starts, tables=_multiples(chosen, commits, by_table, self.losses)
        )


def _busiest(lines: Sequence[TableLine], losses: Mapping[int, Losses]) -> list[TableLine]:
    """Those with the most conflicts, then those that were written last."""
    by_commit = sorted(lines, key=lambda line: line.last_commit_at or "", reverse=True)
    return sorted(by_commit, key=lambda line: -losses[line.key].total if line.key in losses else 0)[
        :MULTIPLES
    ]


def _multiples(
    chosen: Sequence[TableLine],
    commits: list[int],
    by_table: Mapping[int, Hourly],
    losses: Mapping[int, Losses],
) -> list[HourCounts]:
    """All tables together, then those chosen."""
    lost = [of_table.counts for of_table in losses.values()]
    nothing = [0] * HOURS
    return [
        HourCounts(
            slug="",
            name="All tables",
            commits=commits,
            conflicts=[sum(column) for column in zip(*lost, strict=True)] or nothing,
        ),
        *(
            HourCounts(
                slug=line.slug,
                name=line.name,
                commits=by_table[line.key].counts if line.key in by_table else nothing,
                conflicts=losses[line.key].counts if line.key in losses else nothing,
            )
            for line in chosen
        ),
    ]
