"""Sinks, from facts to rows, inside the sync's transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from controlplane.mirror.models import InstantRecord, SinkParticipant, SinkRecord, SyncMark
from controlplane.mirror.sink_facts import SinkFacts, committed_offsets
from controlplane.tables.models import Table
from workers.errors import MalformedTable
from workers.sink.state_file import ParticipantSnapshot

_BATCH_ROWS = 500
SEEN_MS = 5_000
"""How finely the mirror knows when a participant was seen: it does not write on every word."""
_PARTICIPANT_COLUMNS = (
    "participant",
    "worker",
    "state",
    "broker_offset",
    "table_offset",
    "coordinator_offset",
    "local_offset",
    "has_reported",
    "is_member",
    "seen_at",
)


def apply_sinks(table: Table, mark: SyncMark, sinks: Sequence[SinkFacts]) -> bool:
    """To be called after the instants: the table's offsets are those of the newest commit."""
    stored = mark.stored(SinkRecord.objects.filter(table=table))
    records = {one.sink_id: one for one in stored}
    is_changed = False
    for facts in sinks:
        record = records.pop(facts.sink_id, None) or SinkRecord(table=table, sink_id=facts.sink_id)
        is_changed |= _apply(record, facts)
    for gone in records.values():
        gone.delete()
    return is_changed or bool(records)


def _apply(record: SinkRecord, facts: SinkFacts) -> bool:
    commit = (
        InstantRecord.objects.filter(table=record.table, state="completed", sink=facts.sink_id)
        .exclude(sink="")
        .order_by("-completed_at")
        .values("requested_at", "completed_at", "metadata__sink")
        .first()
    )
    digest = _digest(facts, commit["requested_at"] if commit else "")
    if record.digest == digest:
        _note_life(record, facts)
        return False
    offsets: Mapping[int, int] = {}
    problem = facts.problem
    if commit:
        try:
            offsets = committed_offsets(commit["metadata__sink"])
        except MalformedTable as error:
            problem = f"{problem}; {error}".strip("; ")
    columns = {
        **_state_columns(facts),
        **_committed(commit),
        "problem": problem[:500],
        "digest": digest,
    }
    for name, value in columns.items():
        setattr(record, name, value)
    record.save()
    _apply_participants(record, facts.state.participants if facts.state else (), offsets)
    return True


def _digest(facts: SinkFacts, commit: str) -> str:
    """Not of when it was told: a state that says the same every two seconds is no news."""
    state = facts.state
    if state is not None:
        seen = tuple(
            replace(one, seen_ms=one.seen_ms - one.seen_ms % SEEN_MS) for one in state.participants
        )
        facts = replace(facts, state=replace(state, updated_ms=0, participants=seen))
    return hashlib.sha256(f"{commit} {facts!r}".encode()).hexdigest()


def _note_life(record: SinkRecord, facts: SinkFacts) -> None:
    updated_at = _moment(facts.state.updated_ms) if facts.state else None
    if updated_at != record.updated_at:
        SinkRecord.objects.filter(pk=record.pk).update(updated_at=updated_at)


def _state_columns(facts: SinkFacts) -> dict[str, Any]:
    state, epoch, stop = facts.state, facts.epoch, facts.stop
    return {
        "topic": state.topic if state else "",
        "epoch": state.epoch if state else 0,
        "state": state.state if state else "",
        "instant": state.instant if state else "",
        "deadline_at": _moment(state.deadline_ms) if state else None,
        "owner": state.owner if state else "",
        "reason": state.reason if state else "",
        "updated_at": _moment(state.updated_ms) if state else None,
        "counters": dict(state.counters) if state else {},
        "transactions": [asdict(one) for one in state.transactions] if state else [],
        "trace": [asdict(one) for one in state.trace] if state else [],
        "taken_epoch": epoch.number if epoch else 0,
        "taken_by": f"{epoch.owner} on {epoch.host}, pid {epoch.pid}" if epoch else "",
        "taken_at": _moment(epoch.at_ms) if epoch else None,
        "stop_kind": stop.kind.value if stop else "",
        "stop_by": stop.by if stop else "",
        "stop_at": _moment(stop.at_ms) if stop else None,
    }


def _committed(commit: Mapping[str, Any] | None) -> dict[str, Any]:
    commit_facts = commit["metadata__sink"] if commit else {}
    return {
        "commit_instant": commit["requested_at"] if commit else "",
        "commit_completed_at": (commit["completed_at"] or "") if commit else "",
        "commit_epoch": commit_facts.get("epoch", 0),
        "commit_topic": commit_facts.get("topic", ""),
    }


def _apply_participants(
    record: SinkRecord, participants: Sequence[ParticipantSnapshot], committed: Mapping[int, int]
) -> None:
    """Every partition that the state or the commit names."""
    records = {one.partition: one for one in record.participants.all()}
    shown = {one.partition: one for one in participants}
    new, changed = [], []
    for partition in sorted(shown.keys() | committed.keys()):
        columns = _participant(shown.get(partition), committed.get(partition))
        known = records.pop(partition, None)
        if known is None:
            new.append(SinkParticipant(sink=record, partition=partition, **columns))
        elif any(getattr(known, name) != value for name, value in columns.items()):
            for name, value in columns.items():
                setattr(known, name, value)
            changed.append(known)
    SinkParticipant.objects.filter(pk__in=[one.pk for one in records.values()]).delete()
    SinkParticipant.objects.bulk_create(new, batch_size=_BATCH_ROWS)
    SinkParticipant.objects.bulk_update(changed, _PARTICIPANT_COLUMNS, batch_size=_BATCH_ROWS)


def _participant(participant: ParticipantSnapshot | None, committed: int | None) -> dict[str, Any]:
    shown = participant or ParticipantSnapshot(0)
    return {
        "participant": shown.participant,
        "worker": shown.worker,
        "state": shown.state,
        "broker_offset": shown.broker_offset,
        "table_offset": shown.table_offset if committed is None else committed,
        "coordinator_offset": shown.table_offset,
        "local_offset": shown.local_offset,
        "has_reported": shown.has_reported,
        "is_member": shown.is_member,
        "seen_at": _moment(shown.seen_ms - shown.seen_ms % SEEN_MS),
    }


def _moment(at_ms: int | None) -> datetime | None:
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC) if at_ms else None
