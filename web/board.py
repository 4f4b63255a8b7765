"""The writers of a table as the live page shows them: heartbeats, how the ended ones ended, and
streams that wait for their next round.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from controlplane.mirror.queries.sinks import SILENCE_SHOWN_FOR
from controlplane.operations.stream_rounds import StreamRounds
from controlplane.writers.queries import WriterRow
from web.refusals import as_operation_id
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


def board(
    table: Table, rows: list[WriterRow], rounds: list[StreamRounds], now: datetime
) -> dict[str, Any]:
    """Build the context of the panel of writers: active and just ended ones, and streams between
    two rounds.
    """
    lines = [line(table, row) for row in rows]
    pending = {one.row.stream for one in lines if not one.is_ended}
    between = [one for one in rounds if one.stream not in pending and _is_shown(one, now)]
    names = {one.stream for one in between}
    writers = [one for one in lines if one.state != "committed" or one.row.stream not in names]
    return {
        "writers": writers,
        "silent": [one for one in between if one.phase == "silent"],
        "between": [one for one in between if one.phase != "silent"],
        "writers_shown": len(writers) + len(between),
    }


def _is_shown(rounds: StreamRounds, now: datetime) -> bool:
    """What wrote once, and for nobody's operation, is not missed here."""
    if rounds.phase != "silent":
        return rounds.phase != "ended"
    is_missed = rounds.operation_id is not None or rounds.interval_s is not None
    return is_missed and now - rounds.last_word_at < SILENCE_SHOWN_FOR


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
