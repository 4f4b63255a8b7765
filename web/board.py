"""The writers of a table as the live page shows them: heartbeats, and how the ended ones ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.urls import reverse

from controlplane.mirror.selectors import timeline_window
from controlplane.writers.selectors import WriterRow, recent_conflicts, writers_board
from web.doors import as_operation_id
from web.templatetags.lake import age

if TYPE_CHECKING:
    from controlplane.tables.models import Table

_ENDS_READ_MAX = 500


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
    """Two queries, and two more when somebody has ended lately."""
    rows = writers_board(table, now)
    ends = _ends(table, [row for row in rows if row.state == "gone"])
    return [_line(table, row, ends.get(row.instant, row.state)) for row in rows]


def _ends(table: Table, gone: Sequence[WriterRow]) -> dict[str, str]:
    """What the timeline says of instants whose writers have gone.

    An instant that is on it no more was rolled back: by its writer, which lost, or by recovery.
    One that is still pending is only ended; the next look knows more.
    """
    if not gone:
        return {}
    window = timeline_window(table, since=min(row.instant for row in gone), limit=_ENDS_READ_MAX)
    if window.next_cursor:
        return {}
    states = {row.requested_at: row.state for row in window.rows}
    losers = {conflict.loser_instant for conflict in recent_conflicts(table, _ENDS_READ_MAX)}
    return {
        row.instant: "conflicted" if row.instant in losers else _end(states.get(row.instant))
        for row in gone
    }


def _end(state: str | None) -> str:
    return {"completed": "committed", None: "rolled_back"}.get(state, "ended")


def _line(table: Table, row: WriterRow, state: str) -> BoardLine:
    operation_id = as_operation_id(row.operation_id)
    left = f"expires in {age(row.expires_in_s)}"
    if row.expires_in_s <= 0:
        left = f"expired {age(-row.expires_in_s)} ago"
    return BoardLine(
        row=row,
        state="ended" if state == "gone" else state,
        used=row.beat_age_s / row.tolerance_s if row.tolerance_s else 1.0,
        beat_ms=int(row.beat_at.timestamp() * 1000),
        tolerance_ms=int(row.tolerance_s * 1000),
        left=left,
        operation_url=reverse("operation", args=[table.slug, operation_id]) if operation_id else "",
    )
