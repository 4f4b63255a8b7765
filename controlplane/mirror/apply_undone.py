"""Instants that were taken back, from facts to rows, inside the sync's transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Exists, OuterRef

from controlplane.fields import INSTANT_TIME
from controlplane.mirror.models import UNDOING, InstantRecord, SyncMark, UndoneRecord
from controlplane.mirror.undone_facts import UndoneFacts
from controlplane.tables.models import Table
from workers.clock import InstantTime

_BATCH_ROWS = 500
_SEEN = ("operation_type", "stream", "rows", "files", "bytes", "operation_ref")
"""What only the mirror knows of an instant that is gone."""
_CHANGING_FIELDS = ("action", "ended_at", "undone_by")


@dataclass(frozen=True, slots=True)
class _Undoing:
    """One target of a completed rollback or restore."""

    target: InstantTime
    action: str
    by: InstantTime
    at: InstantTime


def apply_undone(
    table: Table, mark: SyncMark, undone: Sequence[UndoneFacts], gone: Sequence[InstantRecord]
) -> bool:
    """To be called after the instants. `gone`: their rows that left the timeline in this pass."""
    has_any = mark.stored(UndoneRecord.objects.filter(table=table)).exists()
    is_changed = has_any and _forget(table)
    undecided = UndoneRecord.objects.filter(table=table, undone_by="") if has_any else ()
    rows = {one.requested_at: one for one in undecided}
    seen = {one.requested_at: one for one in gone}
    new: dict[InstantTime, UndoneRecord] = {}
    for facts in undone:
        row = _row(table, facts.requested_at, seen)
        row.action = row.action or facts.action
        row.writer_name = row.writer_name or facts.writer[:200]
        row.ended_at = facts.ended_at
        new[facts.requested_at] = row
    changed = []
    for undoing in _unread_undoings(table):
        known = new.get(undoing.target) or rows.get(undoing.target)
        row = known or _row(table, undoing.target, seen)
        if row.undone_by:
            continue
        row.action = undoing.action or row.action
        row.undone_by, row.ended_at = undoing.by, undoing.at
        if known is None:
            new[undoing.target] = row
        elif undoing.target in rows:
            changed.append(row)
    for row in new.values():
        row.action = row.action or _usual_action(table)
    # What was undone twice is there already, by the first.
    UndoneRecord.objects.bulk_create(new.values(), batch_size=_BATCH_ROWS, ignore_conflicts=True)
    UndoneRecord.objects.bulk_update(changed, _CHANGING_FIELDS, batch_size=_BATCH_ROWS)
    return is_changed or bool(new or changed)


def _row(
    table: Table, requested_at: InstantTime, seen: Mapping[InstantTime, InstantRecord]
) -> UndoneRecord:
    row = UndoneRecord(table=table, requested_at=requested_at)
    if (record := seen.get(requested_at)) is not None:
        row.action, row.writer_name = record.action, record.writer_name
        for name in _SEEN:
            setattr(row, name, getattr(record, name))
    return row


def _forget(table: Table) -> bool:
    """What is on the timeline, or was undone by what storage does not have any more."""
    undone = UndoneRecord.objects.filter(table=table)
    same = InstantRecord.objects.filter(table=table, requested_at=OuterRef("requested_at"))
    by = InstantRecord.objects.filter(table=table, requested_at=OuterRef("undone_by"))
    back, _ = undone.filter(Exists(same.exclude(action="savepoint"))).delete()
    orphans, _ = undone.exclude(undone_by="").exclude(Exists(by)).delete()
    return bool(back or orphans)


def _unread_undoings(table: Table) -> Iterator[_Undoing]:
    """Oldest first: what undid something is what undid it first."""
    read = UndoneRecord.objects.filter(table=table).exclude(undone_by="").values("undone_by")
    undoing = (
        InstantRecord.objects.filter(table=table, action__in=UNDOING, state="completed")
        .exclude(requested_at__in=read)
        .order_by("requested_at")
        .values_list("requested_at", "completed_at", "metadata")
    )
    for by, completed_at, metadata in undoing:
        actions = metadata.get("rolled_back_actions") or {}
        for target in filter(INSTANT_TIME.match, metadata.get("rolled_back") or []):
            yield _Undoing(target, str(actions.get(target, ""))[:16], by, completed_at or by)


def _usual_action(table: Table) -> str:
    return "deltacommit" if table.table_type == "MERGE_ON_READ" else "commit"
