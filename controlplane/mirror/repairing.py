"""Rows that are not as the sync wrote them: noticed by their sums, forgotten, and read anew.

Storage may be still while the database is changed by hand, by a restored backup, or by a program
with an error: no look at storage would ever notice.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils import timezone

from controlplane.mirror.archive_facts import ArchiveFacts
from controlplane.mirror.models import SyncMark
from controlplane.mirror.row_sums import (
    HISTORY,
    OF_BOTH,
    RowSum,
    history_sum,
    models_of,
    parsed,
    row_sums,
)
from controlplane.tables.models import Table

COMPARE_EVERY: Final = timedelta(seconds=4)
ROWS_PER_SECOND: Final = 2_500
"""Of a table with more than ten thousand rows so many are compared per second, all of them at
once: one of a hundred thousand is compared every 40 s.
"""
_FIRST, _LAST = "0", "9"


@dataclass
class HistorySum:
    """The sum of the archived rows, without those that a pass does not touch being read again."""

    table: Table
    mark: SyncMark
    archive: ArchiveFacts
    _span: tuple[str, str] | None = field(init=False)
    _before: RowSum = field(init=False)

    def __post_init__(self) -> None:
        is_known = HISTORY in self.mark.sums
        is_new = self.mark.synced_at is None
        span = self.archive.span() if is_known or is_new else (_FIRST, _LAST)
        self._before = history_sum(self.table, *span) if is_known and span else RowSum()
        self._span = span

    def now(self) -> RowSum:
        """After the pass wrote."""
        known = parsed(self.mark.sums[HISTORY]) if HISTORY in self.mark.sums else RowSum()
        if self._span is None:
            return known
        return known - self._before + history_sum(self.table, *self._span)


def note_sums(table: Table, mark: SyncMark, kinds: Collection[str], history: HistorySum) -> None:
    """What the rows of these kinds are now, in the mark; the others are as they were."""
    sums = row_sums([table.pk], kinds)[table.pk]
    mark.sums = {
        **mark.sums,
        **{kind: one.text for kind, one in sums.items()},
        HISTORY: history.now().text,
    }
    mark.compare_at = next_comparison(mark, timezone.now())


def next_comparison(mark: SyncMark, now: datetime) -> datetime:
    return now + max(COMPARE_EVERY, timedelta(seconds=row_count(mark) / ROWS_PER_SECOND))


def row_count(mark: SyncMark) -> int:
    return sum(parsed(text).rows for text in mark.sums.values())


def forget_rows(table: Table, kinds: Collection[str]) -> None:
    """Delete the rows of these kinds, and all that would keep the next look from reading them.
    Within a transaction.
    """
    models = models_of()
    for kind in kinds:
        rows = models[kind]._default_manager.all()
        if kind in ("instants", HISTORY):
            rows.filter(table=table, is_archived=kind == HISTORY).delete()
        elif kind == "participants":
            rows.filter(sink__table=table).delete()
        elif kind != "table":
            rows.filter(table=table).delete()
    if set(kinds) & set(OF_BOTH):  # Their digest would say that they are known.
        table.sinks.all().delete()
    if HISTORY in kinds:
        table.history_counts.all().delete()
    SyncMark.objects.filter(table=table).update(**_columns_without(kinds))


def mark_without(mark: SyncMark, kinds: Collection[str]) -> SyncMark:
    """Return the mark as it will be after `forget_rows`, for a pass that reads before that."""
    future = copy(mark)
    future.forgotten = frozenset(kinds)
    for name, column in _columns_without(kinds).items():
        setattr(future, name, column)
    return future


def _columns_without(kinds: Collection[str]) -> dict[str, Any]:
    """Return the columns of a mark without these rows."""
    columns: dict[str, Any] = dict.fromkeys(("listing_hash", "claims_hash", "sight"), "")
    columns |= {"sums": {}, "look_at": None}
    if HISTORY in kinds:
        columns |= {"history_version": "", "names_only": 0, "is_history_counted": False}
    return columns
