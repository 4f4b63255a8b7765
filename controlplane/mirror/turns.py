"""Whose turn it is to read a table: one process at a time, and only it may apply what it read.

A turn that its process does not give back runs out by itself, and is free at once where that
process has provably ended, on this host. What a process says when it gives
its turn back is stored only while the turn is still its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from controlplane.mirror.models import SyncMark
from controlplane.tables.models import Table
from workers.processes import ProcessName, SystemProcesses, this_process

TURN = timedelta(seconds=60)
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Turn:
    table: Table
    until: datetime
    """What tells it from all other turns of the table."""
    ending: dict[str, Any] = field(default_factory=dict)
    """Columns of the sync mark that are stored when the turn is given back."""


def take_turn(table: Table, *, untried_since: datetime | None = None) -> Turn | None:
    """None while another process has it, or, where a moment is given, when the table was tried
    since then, or for a table that was unregistered meanwhile; else this notes the trial. One
    query where it is free.
    """
    now = timezone.now()
    columns: dict[str, Any] = {
        "running_until": now + TURN,
        "running_by": this_process().to_json(),
    }
    free = Q(running_until__isnull=True) | Q(running_until__lt=now)
    untried = Q()
    if untried_since is not None:
        untried = Q(tried_at__isnull=True) | Q(tried_at__lt=untried_since)
        columns["tried_at"] = now
    is_taken = bool(SyncMark.objects.filter(free, untried, table=table).update(**columns))
    if not is_taken:  # Never synced, or another one's turn.
        is_taken = _first_mark(table, columns) or _from_who_ended(table, untried, columns)
    return Turn(table, columns["running_until"]) if is_taken else None


def _from_who_ended(table: Table, untried: Q, columns: dict[str, Any]) -> bool:
    """A process that was killed gives nothing back, and the table would be old until its turn ran
    out.
    """
    held = SyncMark.objects.filter(untried, table=table, running_until__isnull=False)
    turn = held.values_list("running_until", "running_by").first()
    if turn is None:
        return False
    until, running_by = turn
    process = ProcessName.from_json(running_by)
    if process is None or not SystemProcesses().has_ended(process):
        return False
    return bool(SyncMark.objects.filter(table=table, running_until=until).update(**columns))


def add_marks(tables: Collection[Table]) -> None:
    """Add the marks of tables that were never synced, all at once: their turns are taken by one
    query each.
    """
    keys = [table.pk for table in tables]
    for start in range(0, len(keys), _BATCH):
        with transaction.atomic():
            # One that was unregistered meanwhile is not among them.
            held = Table.objects.select_for_update(no_key=True).filter(
                pk__in=keys[start : start + _BATCH]
            )
            marks = [SyncMark(table_id=key) for key in held.values_list("pk", flat=True)]
            SyncMark.objects.bulk_create(marks, ignore_conflicts=True)


def _first_mark(table: Table, columns: dict[str, Any]) -> bool:
    with transaction.atomic():
        if Table.objects.select_for_update(no_key=True).filter(pk=table.pk).first() is None:
            return False
        return SyncMark.objects.get_or_create(table=table, defaults=columns)[1]


@contextmanager
def given_back(turn: Turn) -> Iterator[None]:
    try:
        yield
    finally:
        SyncMark.objects.filter(table=turn.table, running_until=turn.until).update(
            running_until=None, **turn.ending
        )


def make_due(table_id: int) -> None:
    """Whoever knows that something happened to the table need not wait for its next look."""
    SyncMark.objects.filter(table=table_id, look_at__gt=timezone.now()).update(look_at=None)
