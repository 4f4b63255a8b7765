"""Rounds over all tables: a cheap look at each, and a sync of those that changed. No table starves
another.

Whoever was never synced comes first, then whoever was tried longest ago; a round ends after some
seconds, and the next one goes on behind it. Several processes may be at it: each table is tried by
one of them. Tables whose storage tells nothing cheaply, those in buckets, are asked the more seldom
the longer nothing has happened to them.

A round is no longer than the mirror's processes can take in turns, as often as beat asks for one:
longer ones queue up behind each other until their messages expire, and much shorter ones leave a
process idle while tables wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Q
from django.utils import timezone

from controlplane.mirror.sight import is_by_names, sight_of
from controlplane.mirror.sync import Looked, look
from controlplane.mirror.turns import given_back, take_turn
from controlplane.tables.models import Table
from workers.clock import Clock, SystemClock

BUDGET_S = 3.0
WHOLE_EVERY = timedelta(minutes=2)
"""However quiet it is, a table is read so often: what expires by itself is found then."""
WHOLE_EVERY_BY_NAMES = timedelta(seconds=30)
"""And so often where folders have no stamps to rely on."""
LOOK_EVERY_MIN = timedelta(seconds=2)
LOOK_EVERY_MAX = timedelta(seconds=30)
QUIET_PER_LOOK = 30
"""A bucket's table that was quiet for ten minutes is looked at every twenty seconds."""
_BATCH = 500
_ERROR_AFTER = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    looked_at: int
    synced: int
    left: int
    """Changed, and left to the next round."""


def sync_round(*, budget_s: float = BUDGET_S, clock: Clock | None = None) -> Round:
    """One table at least. Two queries more than those of the tables that changed."""
    clock = clock or SystemClock()
    began = timezone.now()
    unchanged, changed = _sorted_out(_due(began), began)
    _note_unchanged(unchanged, began)
    ends_s = clock.monotonic_s() + budget_s
    synced = 0
    for number, (table, sight) in enumerate(changed):
        if number and clock.monotonic_s() > ends_s:
            return Round(looked_at=len(unchanged), synced=synced, left=len(changed) - number)
        synced += _sync(table, sight, began)
    return Round(looked_at=len(unchanged), synced=synced, left=0)


def _due(now: datetime) -> list[Table]:
    is_due = Q(sync_mark__isnull=True) | Q(sync_mark__look_at__isnull=True)
    return list(
        Table.objects.select_related("sync_mark")
        .filter(is_due | Q(sync_mark__look_at__lte=now))
        .order_by(F("sync_mark__tried_at").asc(nulls_first=True), "pk")
    )


def _sorted_out(tables: list[Table], now: datetime) -> tuple[list[Table], list[tuple[Table, str]]]:
    unchanged, changed = [], []
    for table in tables:
        sight, mark = sight_of(table), getattr(table, "sync_mark", None)
        is_known = mark is not None and bool(sight) and mark.sight == sight
        whole_every = WHOLE_EVERY_BY_NAMES if is_by_names(sight) else WHOLE_EVERY
        is_recent = mark is not None and mark.tried_at and now - mark.tried_at < whole_every
        if is_known and is_recent and not table.sync_error:
            unchanged.append(table)
        else:
            changed.append((table, sight))
    return unchanged, changed


def _note_unchanged(tables: list[Table], now: datetime) -> None:
    """They are as fresh as if they had been read."""
    for start in range(0, len(tables), _BATCH):
        keys = [table.pk for table in tables[start : start + _BATCH]]
        Table.objects.filter(pk__in=keys).update(synced_at=now)


def _sync(table: Table, sight: str, began: datetime) -> bool:
    """False when another process has tried it in the meantime, or is at it. Its facts are as good.

    Four queries of a table in which nothing is new.
    """
    turn = take_turn(table, untried_since=began)
    if turn is None:
        return False
    with given_back(turn):
        looked, now = look(turn), timezone.now()
        # What was left is read in the next round, although nothing happens meanwhile.
        turn.ending["sight"] = sight if looked.is_whole else ""
        turn.ending["look_at"] = now + _rest(table, sight, looked, now)
        if looked.changed:
            turn.ending["changed_at"] = now
    return True


def _rest(table: Table, sight: str, looked: Looked, now: datetime) -> timedelta:
    """Until the next look. It is cheap where stamps tell, so that nothing is waited for there."""
    if looked.changed:
        return timedelta(0)
    if looked.error:
        return _ERROR_AFTER
    if sight or "://" not in table.location:
        return timedelta(0)
    quiet_for = now - looked.changed_at if looked.changed_at else LOOK_EVERY_MAX
    return min(LOOK_EVERY_MAX, max(LOOK_EVERY_MIN, quiet_for / QUIET_PER_LOOK))
