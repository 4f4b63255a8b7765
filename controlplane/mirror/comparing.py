"""Rows are compared with what the sync wrote, tables in bulk and by turns; of a table whose rows
are others they are read anew.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from django.db.models import Q
from django.utils import timezone

from controlplane.mirror.models import SyncMark
from controlplane.mirror.repairing import next_comparison, row_count
from controlplane.mirror.row_sums import RowSum, row_sums
from controlplane.mirror.sync import read_anew
from controlplane.mirror.turns import given_back, take_turn

log = logging.getLogger(__name__)

ROWS_PER_ROUND_MAX = 20_000
"""More wait for the next round; one table at least is compared."""
_TABLES_MAX = 500


def compare_due(now: datetime) -> int:
    """How many tables were repaired. One query where none is due; else three, and those of the
    repairs.
    """
    marks = list(_due(now))
    if not marks:
        return 0
    sums = row_sums([mark.table_id for mark in marks])
    suspects = [mark for mark in marks if _others(mark, sums[mark.table_id])]
    later = sorted((next_comparison(mark, now), mark.pk) for mark in marks)
    for compare_at, group in groupby(later, key=itemgetter(0)):
        keys = [pk for _, pk in group]
        SyncMark.objects.filter(pk__in=keys).update(compare_at=compare_at)
    return sum(map(_repair, suspects))


def _due(now: datetime) -> Iterator[SyncMark]:
    free = Q(running_until__isnull=True) | Q(running_until__lt=now)
    due = SyncMark.objects.filter(free, compare_at__lte=now).select_related("table")
    rows = 0
    for mark in due.order_by("compare_at", "pk")[:_TABLES_MAX]:
        rows += row_count(mark)
        if rows > ROWS_PER_ROUND_MAX and rows > row_count(mark):
            return
        yield mark


def _others(mark: SyncMark, sums: dict[str, RowSum]) -> list[str]:
    """Of which kinds the rows are not those that were written."""
    return [kind for kind, text in mark.sums.items() if sums[kind].text != text]


def _repair(suspect: SyncMark) -> bool:
    """By the only one who may write rows: what looked wrong may have been written meanwhile."""
    table = suspect.table
    turn = take_turn(table)
    if turn is None:
        return False
    with given_back(turn):
        mark = SyncMark.objects.filter(table=table).first()
        kinds = _others(mark, row_sums([table.pk])[table.pk]) if mark else []
        if not kinds:
            return False
        looked = read_anew(turn, kinds)
        turn.ending["look_at"] = timezone.now()
    log.warning(
        "mirror rows differed from their checksums: table=%s kinds=%s repaired=%s",
        table.slug,
        ",".join(kinds),
        looked.is_applied,
    )
    return looked.is_applied
