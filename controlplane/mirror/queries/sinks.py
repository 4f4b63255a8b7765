"""The sinks of one table as plain rows: where each coordinator is, what it waits for, how far each
partition is. From the mirror; never touches storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.db.models import Count, F, Q, QuerySet, Sum

from controlplane.mirror.models import InstantRecord, SinkParticipant, SinkRecord
from controlplane.tables.messages import select_message
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.sink.tables import KEYS_BY_NAME, NAMED_KEY

PARTICIPANTS_SHOWN = 200
WAITED_FOR_SHOWN = 50
LETTER_COMMITS_SHOWN = 50
OVER = frozenset({"STOPPED", "FENCED"})
"""States in which no coordinator of this epoch does anything any more."""
SILENT_AFTER = timedelta(seconds=15)
"""A coordinator tells its state every two seconds, also while a commit keeps it. Pages, API and
health checks all go by this.
"""
SILENCE_SHOWN_FOR = timedelta(days=1)
"""What never said that it ended and was quiet for longer is nobody's alarm any more."""
_REPORTING = frozenset({"ENDED_COMMIT", "WRITE_STATUS_TIMEDOUT"})
_WRITING = frozenset({"OPEN", "CLOSING", "PREPARED"})

Agreement = Literal["equal", "writing", "behind", "ahead", "past_end", "disagrees", "unknown"]
"""How the three offsets of a partition stand to each other; `equal`, `writing` and `unknown` need
nobody.
"""
ODD: frozenset[Agreement] = frozenset({"behind", "ahead", "past_end", "disagrees"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitedFor:
    """A participant that the transaction cannot go on without."""

    partition: int
    participant: str
    worker: str
    state: str
    seen_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRow:
    instant: InstantTime
    outcome: str
    started_ms: int
    ended_ms: int
    took_ms: int
    rows: int
    bad_rows: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    at_ms: int
    kind: str
    sender: str
    partition: int | None
    instant: InstantTime
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantRow:
    partition: int
    participant: str
    worker: str
    state: str
    broker_offset: int | None
    """The topic's end. All offsets are the next one to come."""
    table_offset: int | None
    local_offset: int | None
    lag: int | None
    """Records that the table does not have yet."""
    agreement: Agreement
    has_reported: bool
    seen_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterCommitRow:
    """A commit that left records out."""

    instant: InstantTime
    completed_at: InstantTime
    records: int
    files: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRow:
    sink_id: str
    problem: str
    """Which of its files cannot be read."""
    topic: str
    state: str
    """Of the coordinator; empty before it said anything."""
    is_over: bool
    epoch: int
    taken_epoch: int
    """Higher than `epoch` while another coordinator has taken over and not said anything yet."""
    taken_by: str
    taken_at: datetime | None
    instant: InstantTime
    deadline_at: datetime | None
    owner: str
    reason: str
    updated_at: datetime | None
    stop_kind: str
    stop_by: str
    stop_at: datetime | None
    commit_instant: InstantTime
    commit_completed_at: InstantTime
    partitions: int
    reported: int
    lag: int | None
    counters: Mapping[str, int]
    waits_for: list[WaitedFor]
    """The participants that have not followed the last message, the first of them."""
    waits_for_count: int
    last_outcome: str


def sink_rows(table: Table, *, is_whole: bool = False) -> list[SinkRow]:
    """All sinks of the table, by id. Two queries. `is_whole`, here and below: whether the reader
    sees every value of the table's rows.
    """
    records = list(
        SinkRecord.objects.filter(table=table)
        .defer("trace")
        .annotate(
            partitions=Count("participants"),
            reported=Count("participants", filter=Q(participants__has_reported=True)),
            broker=Sum("participants__broker_offset", filter=_KNOWN),
            stored=Sum("participants__table_offset", filter=_KNOWN),
        )
        .order_by("sink_id")
    )
    missing = _missing(records)
    return [_row(one, missing.get(one.pk, []), is_whole=is_whole) for one in records]


def sink_record(table: Table, sink_id: str) -> SinkRecord | None:
    return SinkRecord.objects.filter(table=table, sink_id=sink_id).first()


def participants(
    record: SinkRecord, *, after: int = -1, limit: int = PARTICIPANTS_SHOWN
) -> list[ParticipantRow]:
    """By partition, behind `after`."""
    records = record.participants.filter(partition__gt=after).order_by("partition")[:limit]
    return [_participant(one) for one in records]


def transactions(record: SinkRecord, *, is_whole: bool = False) -> list[TransactionRow]:
    """The newest first."""
    return [
        TransactionRow(
            **{**one, "reason": select_message(one["reason"], is_whole=is_whole)},
            took_ms=max(0, one["ended_ms"] - one["started_ms"]),
        )
        for one in reversed(record.transactions)
    ]


def trace(record: SinkRecord, *, limit: int = 500, is_whole: bool = False) -> list[TraceRow]:
    """The newest messages and transitions, oldest first."""
    return [
        TraceRow(**{**one, "detail": select_message(one["detail"], is_whole=is_whole)})
        for one in record.trace[-limit:]
    ]


def letter_commits(table: Table, sink_id: str) -> list[LetterCommitRow]:
    """The newest commits of the sink that left records out, newest first. One query."""
    commits = (
        InstantRecord.objects.filter(
            table=table, sink=sink_id, state="completed", metadata__sink__bad__gt=0
        )
        .exclude(sink="")
        .order_by("-completed_at")
        .values_list("requested_at", "completed_at", "metadata__sink")[:LETTER_COMMITS_SHOWN]
    )
    return [
        LetterCommitRow(
            instant=instant,
            completed_at=completed_at or "",
            records=int(told["bad"]),
            files=list(told["letters"]),
        )
        for instant, completed_at, told in commits
    ]


def old_keys_note(table: Table) -> str:
    """What it means that an append-only table's keys tell topics by name; empty for all others."""
    is_old = tuple(table.record_key.split(",")) == NAMED_KEY
    return KEYS_BY_NAME if is_old else ""


def silent_at(record: SinkRecord | SinkRow) -> datetime | None:
    """When its last word is too old; None before its first word, and once it said that it ended."""
    if record.updated_at is None or record.state in OVER:
        return None
    return record.updated_at + SILENT_AFTER


def silent_sinks(now: datetime) -> QuerySet[SinkRecord]:
    """Those that should speak and do not, whoever runs them; what was asked to stop is no news. The
    one that spoke last comes first.
    """
    unheard = SinkRecord.objects.filter(
        stop_kind="",
        updated_at__lte=now - SILENT_AFTER,
        updated_at__gt=now - SILENCE_SHOWN_FOR,
    )
    return unheard.exclude(state__in=sorted(OVER)).order_by("-updated_at")


_KNOWN = Q(participants__broker_offset__isnull=False, participants__table_offset__isnull=False)


def _missing(records: Sequence[SinkRecord]) -> dict[int, list[SinkParticipant]]:
    """By sink, who has not followed END with a report, or START with opening."""
    reporting = [one.pk for one in records if one.state in _REPORTING]
    opening = [one.pk for one in records if one.state == "STARTED_COMMIT"]
    if not (reporting or opening):
        return {}
    silent: QuerySet[SinkParticipant] = SinkParticipant.objects.filter(
        Q(sink__in=reporting, has_reported=False)
        | (Q(sink__in=opening) & ~Q(state__in=sorted(_WRITING))),
        is_member=True,
    ).order_by(F("seen_at").asc(nulls_first=True), "partition")
    missing: dict[int, list[SinkParticipant]] = {}
    for participant in silent:
        missing.setdefault(participant.sink_id, []).append(participant)
    return missing


def _row(record: SinkRecord, missing: Iterable[SinkParticipant], *, is_whole: bool) -> SinkRow:
    waited = list(missing)
    counted = vars(record)  # Annotations, which the model does not declare.
    broker, stored = counted["broker"], counted["stored"]
    return SinkRow(
        sink_id=record.sink_id,
        problem=select_message(record.problem, is_whole=is_whole),
        topic=record.topic or record.commit_topic,
        state=record.state,
        is_over=record.state in OVER,
        epoch=record.epoch,
        taken_epoch=record.taken_epoch,
        taken_by=record.taken_by,
        taken_at=record.taken_at,
        instant=record.instant,
        deadline_at=record.deadline_at,
        owner=record.owner,
        reason=select_message(record.reason, is_whole=is_whole),
        updated_at=record.updated_at,
        stop_kind=record.stop_kind,
        stop_by=record.stop_by,
        stop_at=record.stop_at,
        commit_instant=record.commit_instant,
        commit_completed_at=record.commit_completed_at,
        partitions=counted["partitions"],
        reported=counted["reported"],
        lag=None if broker is None or stored is None else max(0, broker - stored),
        counters=record.counters,
        waits_for=[
            WaitedFor(
                partition=one.partition,
                participant=one.participant,
                worker=one.worker,
                state=one.state,
                seen_at=one.seen_at,
            )
            for one in waited[:WAITED_FOR_SHOWN]
        ],
        waits_for_count=len(waited),
        last_outcome=record.transactions[-1]["outcome"] if record.transactions else "",
    )


def _participant(record: SinkParticipant) -> ParticipantRow:
    is_known = record.broker_offset is not None and record.table_offset is not None
    return ParticipantRow(
        partition=record.partition,
        participant=record.participant,
        worker=record.worker,
        state=record.state,
        broker_offset=record.broker_offset,
        table_offset=record.table_offset,
        local_offset=record.local_offset,
        lag=max(0, (record.broker_offset or 0) - (record.table_offset or 0)) if is_known else None,
        agreement=_agreement(record),
        has_reported=record.has_reported,
        seen_at=record.seen_at,
    )


def _agreement(record: SinkParticipant) -> Agreement:
    """Between two transactions a participant stands where the table does; in one, ahead of it."""
    table, local, broker = record.table_offset, record.local_offset, record.broker_offset
    if table is None or local is None:
        return "unknown"
    if broker is not None and table > broker:
        return "past_end"
    if record.coordinator_offset is not None and record.coordinator_offset > table:
        return "disagrees"
    if local == table:
        return "equal"
    if local < table:
        return "behind"
    return "writing" if record.state in _WRITING else "ahead"
