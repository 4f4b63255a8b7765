"""Rounds over all tables: a cheap look at each, and a sync of those that changed. No table starves
another.

Tables with news come first, the one that was tried longest ago before the others. Behind them come
new tables, tables with more history than one pass reads, and those that are only due to be read as
a whole: each of these kinds has a share of the round of its own (`SHARE`), and takes the time that
the kinds before it leave. A round ends after some seconds, and the next one
goes on behind it. Several processes may be at it: each table is tried by one of them. Tables whose
storage tells nothing cheaply, those in buckets, are asked the more seldom the longer nothing has
happened to them, once a minute at least; in a large fleet all tables are. Who writes to a table
and reports it makes it due at once (`turns.make_due`).

A round is no longer than the mirror's processes can take in turns, as often as beat asks for one:
longer ones queue up behind each other until their messages expire, and much shorter ones leave a
process idle while tables wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from django.db.models import F, Q
from django.utils import timezone

from controlplane.mirror.comparing import compare_due
from controlplane.mirror.models import SyncMark
from controlplane.mirror.sight import is_by_names, sight_of
from controlplane.mirror.sync import Looked, look
from controlplane.mirror.turns import add_marks, given_back, take_turn
from controlplane.tables.models import Table
from workers.clock import Clock, SystemClock
from workers.traces import span

BUDGET_S = 1.5
FOLLOW_EVERY_S = 0.2
FOLLOWED_FOR = timedelta(seconds=30)
FOLLOWED_MAX = 8
UNSETTLED_EVERY = timedelta(milliseconds=400)
SHARE = 1 / 6
"""Of the budget: for each kind of table that waits behind those with news."""
BUILDS_PER_ROUND = 100
"""More than a round has time for: so many new tables get their marks in one go."""
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


Seen: TypeAlias = tuple[Table, str | None]
"""A table and its change token; None if the token was not computed yet."""


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
    """Sync at least one table of each kind that is due. Few queries more than those of the tables
    that are synced, however many tables there are.

    `whole_every` replaces `WHOLE_EVERY` and `WHOLE_EVERY_BY_NAMES`.
    """
    clock = clock or SystemClock()
    began = timezone.now()
    due = _sort_out(_due(began), began, whole_every)
    _note_unchanged(due.unchanged, began)
    repaired = compare_due(began)
    ends_s = clock.monotonic_s() + budget_s
    add_marks([table for table, _ in due.new[:BUILDS_PER_ROUND] if _mark_of(table) is None])
    kinds = [kind for kind in (due.changed, due.new, due.unfinished, due.whole) if kind]
    synced = left = 0
    for number, tables in enumerate(kinds, start=1):
        reserved_s = budget_s * SHARE * (len(kinds) - number)
        more_synced, more_left = _sync_until(ends_s - reserved_s, tables, began, clock)
        synced, left = synced + more_synced, left + more_left
    return Round(len(due.unchanged), synced, left, repaired)


def follow_changes(ends_s: float, clock: Clock | None = None) -> int:
    """Sync tables that change now again and again until `ends_s`, by the monotonic clock. Return
    how many syncs that were.

    Between two rounds a page would wait for the next message of beat. Only the tables with the
    newest changes are followed (`FOLLOWED_MAX`), so that it costs the same in a large fleet.
    """
    clock = clock or SystemClock()
    synced = 0
    while clock.monotonic_s() + FOLLOW_EVERY_S < ends_s:
        clock.sleep(FOLLOW_EVERY_S)
        now = timezone.now()
        moving = Table.objects.select_related("sync_mark").filter(
            Q(sync_mark__look_at__isnull=True) | Q(sync_mark__look_at__lte=now),
            sync_mark__changed_at__gte=now - FOLLOWED_FOR,
        )
        newest = moving.order_by("-sync_mark__changed_at")[:FOLLOWED_MAX]
        changed = [
            (table, sight)
            for table in newest
            if "://" not in table.location and _has_changed(table, sight := sight_of(table), now)
        ]
        if changed:
            synced += _sync_until(ends_s, changed, now, clock)[0]
    return synced


def _has_changed(table: Table, sight: str, now: datetime) -> bool:
    """Return whether a followed table is worth a sync. One without a sight has just changed, and is
    read at most every `UNSETTLED_EVERY`.
    """
    mark = table.sync_mark
    is_rested = mark.tried_at is None or now - mark.tried_at >= UNSETTLED_EVERY
    return sight != mark.sight if sight else is_rested


def _sync_until(
    ends_s: float, tables: Sequence[Seen], began: datetime, clock: Clock
) -> tuple[int, int]:
    """Sync the first of the tables, and more of them until that time. Return how many were synced,
    and how many were left.
    """
    synced = 0
    for number, (table, sight) in enumerate(tables):
        if number and clock.monotonic_s() > ends_s:
            return synced, len(tables) - number
        synced += _sync(table, sight, began)
    return synced, 0


def _due(now: datetime) -> list[Table]:
    is_due = Q(sync_mark__isnull=True) | Q(sync_mark__look_at__isnull=True)
    return list(
        Table.objects.select_related("sync_mark")
        .filter(is_due | Q(sync_mark__look_at__lte=now))
        .order_by(F("sync_mark__tried_at").asc(nulls_first=True), "pk")
    )


@dataclass(frozen=True, slots=True)
class _Due:
    """The tables that are due, in the order of their turns."""

    unchanged: list[Table]
    changed: list[Seen]
    """Something happened to them; among them some that are due to be read as a whole."""
    new: list[Seen]
    """Nothing of them was mirrored yet."""
    unfinished: list[Seen]
    """Their last pass left something to read, and nothing else is new."""
    whole: list[Seen]
    """They are due to be read as a whole, and nothing is new as far as the cheap look shows."""


def _sort_out(tables: list[Table], now: datetime, whole_every: timedelta | None) -> _Due:
    unchanged: list[Table] = []
    news: list[Seen] = []
    whole: list[Seen] = []
    new: list[Seen] = []
    unfinished: list[Seen] = []
    for table in tables:
        mark = _mark_of(table)
        if mark is None or mark.synced_at is None:
            new.append((table, None))  # No look is needed to see that all of it is news.
            continue
        sight = sight_of(table)
        is_known = bool(sight) and mark.sight == sight
        usual = WHOLE_EVERY_BY_NAMES if is_by_names(sight) else WHOLE_EVERY
        is_recent = mark.tried_at is not None and now - mark.tried_at < (whole_every or usual)
        if table.sync_error:
            news.append((table, sight))
        elif not mark.listing_hash and (is_known or not sight):
            unfinished.append((table, sight))
        elif is_known and is_recent:
            unchanged.append(table)
        else:
            (whole if is_known else news).append((table, sight))
    turns = -(-len(news) // _NEWS_PER_WHOLE)
    changed = _in_turns(news, whole[:turns])
    return _Due(unchanged, changed, new, unfinished, whole[turns:])


def _mark_of(table: Table) -> SyncMark | None:
    return getattr(table, "sync_mark", None)


def _in_turns(news: list[Seen], whole: list[Seen]) -> list[Seen]:
    """Where something happened comes before what is only due to be read as a whole, which gets one
    turn in so many: all tables of a fleet may be due for that at once.
    """
    ordered: list[Seen] = []
    for number in range(0, len(news), _NEWS_PER_WHOLE):
        turn = number // _NEWS_PER_WHOLE
        ordered += news[number : number + _NEWS_PER_WHOLE] + whole[turn : turn + 1]
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


def _sync(table: Table, sight: str | None, began: datetime) -> bool:
    """False when another process has tried it in the meantime, or is at it. Its facts are as good.

    Four queries of a table in which nothing is new.
    """
    turn = take_turn(table, untried_since=began)
    if turn is None:
        return False
    with given_back(turn), span("mirror sync", {"sluice.table": table.slug}):
        sight = sight_of(table) if sight is None else sight
        looked, now = look(turn), timezone.now()
        # By its empty listing hash what was left is read, although nothing happens meanwhile.
        turn.ending["sight"] = sight if looked.is_applied else ""
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
