"""Marker directories of a table as a whole: how each is kept, how full its files are, what it
claims. Reads the mirror.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, Subquery

from controlplane.mirror.models import HeartbeatRecord, InstantRecord, MarkerDirectory
from controlplane.tables.models import Table
from workers.clock import InstantTime, parse_instant


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerFill:
    name: str
    markers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerDirectoryRow:
    instant: InstantTime
    writer: str
    layout: str
    """direct, timeline_server_based, mixed, or empty"""
    markers: int
    files: list[MarkerFill]
    """MARKERS0, MARKERS1, …; none with direct markers."""
    claim_count: int
    """File groups that they announce."""
    age_s: float
    changed_at: datetime
    is_orphan: bool
    """Left behind by an instant that is not pending any more; the next writer sweeps it."""
    is_doomed: bool
    """Early detection has found that it cannot commit."""


def marker_directories(table: Table, now: datetime) -> list[MarkerDirectoryRow]:
    """Oldest instant first. One query."""
    beats = HeartbeatRecord.objects.filter(table=table, instant=OuterRef("instant"))
    pending = InstantRecord.objects.filter(table=table, requested_at=OuterRef("instant"))
    directories = MarkerDirectory.objects.filter(table=table).annotate(
        writer=Subquery(beats.values("writer_name")[:1]),
        is_pending=Exists(pending.exclude(state="completed")),
    )
    return [
        MarkerDirectoryRow(
            instant=one.instant,
            writer=one.writer or "",
            layout=one.layout,
            markers=one.markers,
            files=[MarkerFill(name=str(name), markers=int(count)) for name, count in one.by_file],
            claim_count=one.claim_count,
            age_s=now.timestamp() - parse_instant(one.instant) / 1000,
            changed_at=one.changed_at,
            is_orphan=not one.is_pending,
            is_doomed=bool(one.verdict),
        )
        for one in directories.order_by("instant")
    ]
