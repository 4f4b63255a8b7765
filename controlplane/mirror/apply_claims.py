"""Marker directories and the table lock, from facts to rows, inside the sync's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from controlplane.mirror.claim_facts import DirectoryFacts, lock_columns
from controlplane.mirror.models import LockRecord, MarkerDirectory, SyncMark
from controlplane.tables.models import Table
from workers.concurrency.locks.status import LockHolder, LockView

HOLDERS_KEPT = 200


def apply_directories(
    table: Table, mark: SyncMark, directories: Sequence[DirectoryFacts], now: datetime
) -> bool:
    stored = mark.stored(MarkerDirectory.objects.filter(table=table))
    records = {one.instant: one for one in stored}
    is_changed = False
    for facts in directories:
        columns = asdict(facts)
        record = records.pop(facts.instant, None)
        if record is None:
            MarkerDirectory.objects.create(table=table, changed_at=now, **columns)
        elif all(getattr(record, name) == value for name, value in columns.items()):
            continue
        else:
            for name, value in columns.items():
                setattr(record, name, value)
            record.changed_at = now
            record.save()
        is_changed = True
    if records:
        MarkerDirectory.objects.filter(pk__in=[one.pk for one in records.values()]).delete()
    return is_changed or bool(records)


def apply_lock(table: Table, mark: SyncMark, view: LockView, now: datetime) -> bool:
    """Whether anything but the time of looking changed."""
    stored = mark.stored(LockRecord.objects.filter(table=table)).first()
    record = stored or LockRecord(table=table)
    holder = view.holder
    columns: dict[str, Any] = {
        **lock_columns(view),
        "since": _moment(holder.since_ms) if holder else None,
        "until": _moment(holder.until_ms) if holder else None,
    }
    is_changed = record.pk is None or any(
        getattr(record, name) != value for name, value in columns.items()
    )
    for name, value in columns.items():
        setattr(record, name, value)
    if holder is not None:
        record.holders = _seen(record.holders, holder, now)
    record.sampled_at = now
    record.save()
    return is_changed


def _seen(known: list[dict[str, Any]], holder: LockHolder, now: datetime) -> list[dict[str, Any]]:
    now_ms = int(now.timestamp() * 1000)
    if known and known[0]["epoch"] == holder.epoch and known[0]["since_ms"] == holder.since_ms:
        return [{**known[0], "seen_ms": now_ms, "instant": holder.instant or ""}, *known[1:]]
    seen = {
        "writer": (holder.writer or "")[:200].replace("\x00", ""),
        "owner": holder.owner[:200].replace("\x00", ""),
        "instant": (holder.instant or "")[:17],
        "epoch": holder.epoch,
        "since_ms": holder.since_ms,
        "seen_ms": now_ms,
    }
    return [seen, *known][:HOLDERS_KEPT]


def _moment(at_ms: int | None) -> datetime | None:
    """None as well for a time that no calendar has."""
    if at_ms is None or not 0 <= at_ms < 253_402_300_800_000:
        return None
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC)
