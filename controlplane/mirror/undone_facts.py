"""Instants that were taken back and stand on no timeline any more, as storage tells of them: their
decisions as long as these are kept, and after that the rollbacks that name them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from controlplane.mirror.conflict_facts import text
from controlplane.mirror.facts import Listing
from controlplane.mirror.models import InstantRecord, SyncMark, UndoneRecord
from controlplane.mirror.row_sums import HISTORY
from controlplane.tables.models import Table
from workers.clock import InstantTime, format_instant
from workers.storage.base import Storage
from workers.timeline import conflict_archive, decisions
from workers.timeline.decisions import CommitDecision, RollbackDecision

_FACTS_PER_PASS_MAX = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneFacts:
    requested_at: InstantTime
    action: str
    """Empty where the decision does not say."""
    writer: str
    ended_at: InstantTime
    """When it was decided."""


def read_undone(
    table: Table, storage: Storage, listing: Listing, mark: SyncMark
) -> list[UndoneFacts]:
    """Those that the mirror does not have yet, the newest of them. Raises MalformedTable."""
    undone = (_facts(storage, instant) for instant in _unknown(table, listing, mark))
    return [one for one in undone if one is not None]


def _unknown(table: Table, listing: Listing, mark: SyncMark) -> Collection[InstantTime]:
    on_timeline = {one.requested_at for one in listing.timeline.instants}
    left = (listing.decided | listing.lost) - on_timeline
    if not left:
        return []
    rows = mark.stored(UndoneRecord.objects.filter(table=table), "undone")
    known = set(rows.values_list("requested_at", flat=True))
    archived = InstantRecord.objects.filter(
        table=table, is_archived=True, requested_at__in=sorted(left)
    )
    times = mark.stored(archived, HISTORY).values_list("requested_at", flat=True)
    left -= known | set(times)
    return sorted(left)[-_FACTS_PER_PASS_MAX:]


def _facts(storage: Storage, instant: InstantTime) -> UndoneFacts | None:
    """None where it was decided to stay, or is not told of any more."""
    info = storage.info(decisions.get_decision_path(instant))
    match decisions.read(storage, instant) if info else None:
        case RollbackDecision() as decision if info:
            return _undone(instant, "", decision.writer, info.modified_ms)
        case CommitDecision() as decision if info and decisions.is_undone(storage, instant):
            return _undone(instant, decision.action, decision.writer, info.modified_ms)
        case None if kept := conflict_archive.read_kept(storage, instant):
            decision, decided_ms = kept
            return _undone(instant, "", decision.writer, decided_ms)
        case _:
            return None


def _undone(instant: InstantTime, action: str, writer: str | None, ended_ms: int) -> UndoneFacts:
    return UndoneFacts(
        requested_at=instant,
        action=action,
        writer=text(writer),
        ended_at=max(format_instant(ended_ms), instant),
    )
