"""Rounds over all tables: a cheap look at each, and a sync of those that changed. No table starves
another.

Whoever was never synced comes first, then whoever was tried longest ago; a round ends after some
seconds, and the next one goes on behind it. Several processes may be at it: each table is tried by
one of them. Tables whose storage tells nothing cheaply, those in buckets, are asked the more seldom
the longer nothing has happened to them, once a minute at least; in a large fleet all tables are.
Who writes to a table and reports it makes it due at once (`turns.make_due`).

A round is no longer than the mirror's processes can take in turns, as often as beat asks for one:
longer ones queue up behind each other until their messages expire, and much shorter ones leave a
process idle while tables wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Q
from django.utils import timezone

from controlplane.mirror.comparing import compare_due
from controlplane.mirror.models import SyncMark
from controlplane.mirror.sight import is_by_names, sight_of
from controlplane.mirror.sync import Looked, look
from controlplane.mirror.turns import given_back, take_turn
from controlplane.tables.models import Table
from workers.clock import Clock, SystemClock
from workers.traces import span

BUDGET_S = 1.5
WHOLE_EVERY = timedelta(minutes=2)
"""However quiet it is, a table is read so often: what expires by itself is found then."""
WHOLE_EVERY_BY_NAMES = timedelta(seconds=30)
"""And so often where folders have no stamps to rely on."""
LOOK_EVERY_MIN = timedelta(seconds=1)
"""In each round, as long as something happens to the table."""
LOOK_EVERY_FEW = timedelta(seconds=2)
"""At a table that is still, while there are few."""
LOOK_EVERY_MAX = timedelta(seconds=60)
QUIET_PER_LOOK = 30
"""A bucket's table that was quiet for ten minutes is looked at every twenty seconds."""
QUIET_PER_LOOK_OF_MANY = 10
"""A directory's table that was quiet for a minute is looked at every four seconds in a fleet."""
LOOKS_PER_ROUND = 400
"""Of more tables those that are still are looked at the less often, as a bucket's are."""
_BEATS_LATE = timedelta(milliseconds=250)
"""A round that begins a little early must not leave a table to the next one."""
_NEWS_PER_WHOLE = 8
_BATCH = 500
_ERROR_AFTER = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Round:
    looked_at: int
    synced: int
    left: int
    """Changed, and left to the next round."""
    repaired: int = 0
    """Tables whose rows were not as the sync had written them."""


def sync_round(
    *,
    budget_s: float = BUDGET_S,
    clock: Clock | None = None,
    whole_every: timedelta | None = None,
) -> Round:
    """Sync one table at least. Few queries more than those of the tables that changed, however many
    tables there are.

    `whole_every` replaces `WHOLE_EVERY` and `WHOLE_EVERY_BY_NAMES`.
    """
    clock = clock or SystemClock()
    began = timezone.now()
    unchanged, changed = _sorted_out(_due(began), began, whole_every)
    _note_unchanged(unchanged, began)
    repaired = compare_due(began)
    ends_s = clock.monotonic_s() + budget_s
    synced = 0
    for number, (table, sight) in enumerate(changed):
        if number and clock.monotonic_s() > ends_s:
            return Round(len(unchanged), synced, len(changed) - number, repaired)
        synced += _sync(table, sight, began)
    return Round(len(unchanged), synced, 0, repaired)


def _due(now: datetime) -> list[Table]:
    is_due = Q(sync_mark__isnull=True) | Q(sync_mark__look_at__isnull=True)
    return list(
        Table.objects.select_related("sync_mark")
        .filter(is_due | Q(sync_mark__look_at__lte=now))
        .order_by(F("sync_mark__tried_at").asc(nulls_first=True), "pk")
    )


def _sorted_out(
    tables: list[Table], now: datetime, whole_every: timedelta | None
) -> tuple[list[Table], list[tuple[Table, str]]]:
    unchanged: list[Table] = []
    news: list[tuple[Table, str]] = []
    whole: list[tuple[Table, str]] = []
    for table in tables:
        sight, mark = sight_of(table), getattr(table, "sync_mark", None)
        is_known = mark is not None and bool(sight) and mark.sight == sight
        usual = WHOLE_EVERY_BY_NAMES if is_by_names(sight) else WHOLE_EVERY
        is_recent = (
            mark is not None
            and mark.tried_at is not None
            and now - mark.tried_at < (whole_every or usual)
        )
        if is_known and is_recent and not table.sync_error:
            unchanged.append(table)
        else:
            (whole if is_known and not table.sync_error else news).append((table, sight))
    return unchanged, _in_turns(news, whole)


def _in_turns(
    news: list[tuple[Table, str]], whole: list[tuple[Table, str]]
) -> list[tuple[Table, str]]:
    """Where something happened comes before what is only due to be read as a whole, which gets one
    turn in so many: all tables of a fleet may be due for that at once.
    """
    ordered: list[tuple[Table, str]] = []
    for number in range(max(-(-len(news) // _NEWS_PER_WHOLE), len(whole))):
        start = number * _NEWS_PER_WHOLE
        ordered += news[start : start + _NEWS_PER_WHOLE] + whole[number : number + 1]
    return ordered


def _note_unchanged(tables: list[Table], now: datetime) -> None:
    """They are as fresh as if they had been read."""
    for start in range(0, len(tables), _BATCH):
        keys = [table.pk for table in tables[start : start + _BATCH]]
        Table.objects.filter(pk__in=keys).update(synced_at=now)
    _look_less_often(
        tables, now, LOOK_EVERY_MAX if len(tables) > LOOKS_PER_ROUND else LOOK_EVERY_FEW
    )


def _look_less_often(tables: list[Table], now: datetime, longest: timedelta) -> None:
    """By powers of two, so that a few queries tell all; none of those that are busy."""
    by_pause: dict[timedelta, list[int]] = {}
    for table in tables:
        wanted = min(longest, _pause(table.sync_mark.changed_at, now, QUIET_PER_LOOK_OF_MANY))
        pause = LOOK_EVERY_MIN
        while pause * 2 <= wanted:
            pause *= 2
        by_pause.setdefault(pause, []).append(table.sync_mark.pk)
    by_pause.pop(LOOK_EVERY_MIN, None)
    for pause, marks in by_pause.items():
        look_at = now + pause - _BEATS_LATE
        SyncMark.objects.filter(pk__in=marks).update(look_at=look_at)


def _pause(
    changed_at: datetime | None, now: datetime, quiet_per_look: int = QUIET_PER_LOOK
) -> timedelta:
    """Until the next look at a table to which nothing has happened since."""
    quiet_for = now - changed_at if changed_at else LOOK_EVERY_MAX * quiet_per_look
    return min(LOOK_EVERY_MAX, max(LOOK_EVERY_MIN, quiet_for / quiet_per_look))


def _sync(table: Table, sight: str, began: datetime) -> bool:
    """False when another process has tried it in the meantime, or is at it. Its facts are as good.

    Four queries of a table in which nothing is new.
    """
    turn = take_turn(table, untried_since=began)
    if turn is None:
        return False
    with given_back(turn), span("mirror sync", {"sluice.table": table.slug}):
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
    return _pause(looked.changed_at, now)
