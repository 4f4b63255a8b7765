"""Check if early conflict detection would have stopped the loser sooner, and when. Pure.

The rule is the engine's (`workers.markers.rivals`): a writer stops for an active, older writer of
its file groups. With commits checked too, it also stops for one that completed since it began.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.tables.queries import DATA_ACTIONS
from controlplane.writers.conflicts import ConflictDetail, ConflictRule
from web.conflicts.words import clock, inserted_keys, name_of
from web.templatetags.lake import took

OPTIMISTIC = "OPTIMISTIC_CONCURRENCY_CONTROL"
ENABLE = "hoodie.write.concurrency.early.conflict.detection.enable=true"
CHECK_COMMITS = "hoodie.write.concurrency.early.conflict.check.commit.conflict=true"


@dataclass(frozen=True, slots=True)
class EarlyLine:
    """Empty options where it would not have helped."""

    words: str
    at_ms: int | None = None
    """When the loser would have stopped at the earliest."""
    options: tuple[str, ...] = ()


def early_line(detail: ConflictDetail) -> EarlyLine:
    row, winner, loser = detail.row, detail.winner, detail.loser
    if row.detected == "early":
        return EarlyLine("Early detection stopped the write before its commit.")
    if row.kind == "schema":
        return EarlyLine(
            "Early detection would not have caught it: it compares file groups, not schemas."
        )
    if inserted_keys(row) is not None:
        return EarlyLine(
            "Early detection would not have caught it: it compares file groups, not keys."
        )
    if loser.mode and loser.mode != OPTIMISTIC:
        return EarlyLine("Early detection is for optimistic writers; this one ran in another mode.")
    if row.rule is ConflictRule.TAKEN_BACK or winner.began_ms is None:
        return EarlyLine("Early detection would not have caught it: no other writer was active.")
    if winner.began_ms < row.began_ms and winner.action in DATA_ACTIONS and not _is_service(detail):
        return _by_markers(detail)
    return _by_commit(detail)


def _by_markers(detail: ConflictDetail) -> EarlyLine:
    row, winner = detail.row, detail.winner
    saved = row.verdict_ms - row.began_ms
    return EarlyLine(
        f"Early detection would have caught it from {clock(row.began_ms)} on: "
        f"{name_of(winner)} was older and still writing. The first check after both had claimed a "
        f"shared file group would have stopped the loser, and saved up to {took(saved)} of work.",
        row.began_ms,
        (ENABLE,),
    )


def _by_commit(detail: ConflictDetail) -> EarlyLine:
    row, winner = detail.row, detail.winner
    if winner.ended_ms is None or winner.ended_ms >= row.verdict_ms:
        return EarlyLine("Early detection would not have caught it before the commit did.")
    saved = row.verdict_ms - winner.ended_ms
    younger = "is a table service" if _is_service(detail) else "began after it"
    return EarlyLine(
        f"Early detection would have caught it from {clock(winner.ended_ms)} on, when "
        f"{name_of(winner)} had completed, and only with commits checked too: the winner "
        f"{younger}, so early detection ignores its markers. It would have saved up to "
        f"{took(saved)} of work.",
        winner.ended_ms,
        (ENABLE, CHECK_COMMITS),
    )


def _is_service(detail: ConflictDetail) -> bool:
    return detail.winner.operation.upper() in ("COMPACT", "CLUSTER", "LOG_COMPACT")
