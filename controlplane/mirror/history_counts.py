"""Counts of a long history by day and hour: kept beside its rows, so that no page has
to read a million of them.

Each pass of the sync counts the stretches anew in which it wrote, in its own transaction, and
nothing else writes archived rows. Only a long history is counted: of a short one the rows
themselves are counted as quickly, and counts of scattered instants would be more than the instants.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Final

from django.db import connection

from controlplane.mirror.archive_facts import ArchiveFacts
from controlplane.mirror.facts import key_of
from controlplane.mirror.models import HistoryCount, InstantRecord, SyncMark
from controlplane.mirror.row_sums import HISTORY, parsed
from controlplane.tables.models import Table
from workers.clock import InstantTime

COUNTED_FROM: Final = 5_000
"""Archived instants from which on they are counted."""
LEVELS: Final = ((10, 3_600_000), (8, 86_400_000))
"""Digits of an instant that name a stretch, and how long that is in ms; the shortest first."""
_RUNS_MAX: Final = 50
"""So many stretches are counted anew by themselves; of more, what lies between is, too."""
_KIND: Final = "action, operation_type, writer_name, stream"


def is_count_due(mark: SyncMark) -> bool:
    """Whether a long history is there that was never counted, as after an upgrade."""
    return not mark.is_history_counted and _rows(mark) >= COUNTED_FROM


def keep_counts(table: Table, mark: SyncMark, archive: ArchiveFacts) -> None:
    """To be called when the rows of a pass are written and their sums are in its mark. Says in the
    mark whether the history is counted; within a transaction.
    """
    if _rows(mark) < COUNTED_FROM:
        if mark.is_history_counted:
            HistoryCount.objects.filter(table=table).delete()
        mark.is_history_counted = False
        return
    runs = _runs(archive) if mark.is_history_counted else [("0", "9")]
    for first, last in runs:
        _count_anew(table, first, last)
    mark.is_history_counted = True


def _rows(mark: SyncMark) -> int:
    return parsed(mark.sums[HISTORY]).rows if HISTORY in mark.sums else 0


def _runs(archive: ArchiveFacts) -> list[tuple[InstantTime, InstantTime]]:
    """First and last request of what the pass wrote, in a few pieces that have little between."""
    span = archive.span()
    if span is None:
        return []
    if archive.names.num_rows:
        return [span]
    keys = (*archive.moved, *archive.gone, *(key_of(one.instant) for one in archive.contents))
    return list(_pieces({requested_at for requested_at, _ in keys}))


def _pieces(times: Collection[InstantTime]) -> Iterator[tuple[InstantTime, InstantTime]]:
    """The times cut at their longest gaps."""
    ordered = sorted(times)
    gaps = [(int(after[:14]) - int(before[:14]), after) for before, after in pairwise(ordered)]
    begins = {after for _, after in sorted(gaps)[-(_RUNS_MAX - 1) :]}
    first = ordered[0]
    for before, after in pairwise(ordered):
        if after in begins:
            yield first, before
            first = after
    yield first, ordered[-1]


def _count_anew(table: Table, first: InstantTime, last: InstantTime) -> None:
    """The stretches of each level that this reaches into: the shortest from the instants, longer
    ones from those below them.
    """
    counts, instants = HistoryCount._meta.db_table, InstantRecord._meta.db_table
    below = 0
    for digits, _ in LEVELS:
        begin, end = first[:digits], last[:digits]
        stretches = HistoryCount.objects.filter(table=table, digits=digits)
        stretches.filter(stretch__gte=begin, stretch__lte=end).delete()
        source, summed, ended, at, among = (
            (counts, "SUM(instants)", "last_ended", "stretch", f"digits = {below}")
            if below
            else (instants, "COUNT(*)", "completed_at", "requested_at", "is_archived")
        )
        # Of names in the models alone; key and times are parameters.
        statement = (
            f"INSERT INTO {counts} (table_id, digits, stretch, {_KIND}, instants, last_ended) "  # noqa: S608
            f"SELECT table_id, {digits}, substr({at}, 1, {digits}), {_KIND}, {summed}, MAX({ended})"
            f" FROM {source} WHERE table_id = %s AND {among} AND {at} >= %s AND {at} <= %s "
            f"GROUP BY table_id, substr({at}, 1, {digits}), {_KIND}"
        )
        with connection.cursor() as cursor:
            cursor.execute(statement, [table.pk, begin, end.ljust(17, "9")])
        below = digits
