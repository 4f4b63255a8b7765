"""The writers of a table as the live page shows them: heartbeats, and how the ended ones ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.urls import reverse

from controlplane.writers.selectors import WriterRow, writers_board
from web.doors import as_operation_id
from web.templatetags.lake import age

if TYPE_CHECKING:
    from controlplane.tables.models import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardLine:
    """A row of the board, with what only a page needs."""

    row: WriterRow
    state: str
    """Its liveness; of one that ended, what became of its instant."""
    used: float
    """The part of the heartbeat tolerance that has passed."""
    beat_ms: int
    tolerance_ms: int
    left: str
    operation_url: str

    @property
    def is_ended(self) -> bool:
        return self.row.state == "gone"


def board(table: Table, now: datetime) -> list[BoardLine]:
    """One query."""
    return [line(table, row) for row in writers_board(table, now)]


def line(table: Table, row: WriterRow) -> BoardLine:
    operation_id = as_operation_id(row.operation_id)
    left = f"expires in {age(row.expires_in_s)}"
    if row.expires_in_s <= 0:
        left = f"expired {age(-row.expires_in_s)} ago"
    return BoardLine(
        row=row,
        state=row.ending or row.state,
        used=row.beat_age_s / row.tolerance_s if row.tolerance_s else 1.0,
        beat_ms=int(row.beat_at.timestamp() * 1000),
        tolerance_ms=int(row.tolerance_s * 1000),
        left=left,
        operation_url=reverse("operation", args=[table.slug, operation_id]) if operation_id else "",
    )
