"""How each stream is between its rounds: one word, for pages and API alike.

A stream commits now and then, and between two commits nothing of it is pending on the table and no
heart of it beats. So the word goes by its operation, and by how old its last sign is: a report, a
commit or a heartbeat, whichever is the newest that the database knows. Never touches storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from controlplane.mirror.apply import moment
from controlplane.mirror.models import HeartbeatRecord, InstantRecord
from controlplane.mirror.queries.sinks import SILENT_AFTER
from controlplane.operations.kinds import write
from controlplane.operations.models import Operation
from controlplane.operations.states import FINAL, OperationState
from controlplane.read_together import read_together
from controlplane.tables.models import Table
from workers.clock import InstantTime, parse_instant

INTERVALS_OF_SILENCE = 3
"""A stream that let so many of its intervals pass without a sign is silent."""
PACE_S_MAX = 3_600
"""Of a job; a source takes no longer one."""
ROUNDS_MEASURED = 10
COMMITS_LOOKED_AT = 500
BEATS_LOOKED_AT = 500
OPERATIONS_LOOKED_AT = 300

Phase = Literal["starting", "writing", "waiting", "silent", "cancelling", "ended"]
_NOT_BEGUN = frozenset({OperationState.QUEUED, OperationState.STARTING})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSigns:
    """All that the word of a stream goes by."""

    last_word_at: datetime
    state: OperationState | None = None
    """Of the operation that writes it, or wrote it last; None where nobody here asked for it."""
    has_round: bool = True
    """A round was committed since that operation was asked for."""
    beats_until: datetime | None = None
    """When the heartbeat of what it has pending runs out."""
    interval_s: float | None = None
    """From one of its rounds to the next, where that is known."""

    @property
    def silent_at(self) -> datetime:
        intervals = timedelta(seconds=INTERVALS_OF_SILENCE * (self.interval_s or 0.0))
        return self.last_word_at + max(SILENT_AFTER, intervals)


def phase_of(signs: StreamSigns, now: datetime) -> tuple[Phase, datetime | None]:
    """The word of now, and when it changes by time alone; None where it does not."""
    if signs.state in FINAL:
        return "ended", None
    if signs.state is OperationState.CANCELLING:
        return "cancelling", None
    if signs.beats_until is not None and now < signs.beats_until:
        return "writing", signs.beats_until
    if signs.state in _NOT_BEGUN:
        return "starting", None
    if now >= signs.silent_at:
        return "silent", None
    return "waiting" if signs.has_round else "starting", signs.silent_at


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRounds:
    stream: str
    writer: str
    phase: Phase
    due_at: datetime | None
    """When this word is too old to hold, unless the stream gives another sign before."""
    last_round_at: datetime | None
    last_instant: InstantTime | None
    """Of its last round."""
    last_word_at: datetime
    interval_s: float | None
    """From one round to the next: as its job says, else as its last ten rounds came."""
    operation_id: UUID | None
    ended_as: str
    """The state in which its operation ended; empty for a stream that has not."""
    ended_at: datetime | None


@dataclass(slots=True)
class _Seen:
    """What the database knows of one stream, each newest first."""

    commits: list[InstantRecord] = field(default_factory=list)
    beats: list[HeartbeatRecord] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


class RoundQueries(NamedTuple):
    """What `stream_rounds` reads."""

    commits: QuerySet[InstantRecord]
    beats: QuerySet[HeartbeatRecord]
    operations: QuerySet[Operation]


def round_queries(table: Table) -> RoundQueries:
    """Build the queries, for a page that reads them together with others."""
    return RoundQueries(_commits(table), _beats(table), _operations(table))


def stream_rounds(
    table: Table, now: datetime | None = None, queries: RoundQueries | None = None
) -> list[StreamRounds]:
    """List the rounds of every stream that commits, heartbeats or operations name, by its name. One
    query, or none where `queries` were read before. Streams of a sink are listed with the sink.
    """
    at = now or timezone.now()
    queries = queries or round_queries(table)
    read_together(*queries)
    seen: dict[str, _Seen] = {}
    for commit in queries.commits:
        seen.setdefault(commit.stream, _Seen()).commits.append(commit)
    for beat in queries.beats:
        seen.setdefault(beat.stream, _Seen()).beats.append(beat)
    for operation in queries.operations:
        stream = str(operation.parameters.get("stream") or "")
        if stream:
            seen.setdefault(stream, _Seen()).operations.append(operation)
    return [_rounds(stream, seen[stream], at) for stream in sorted(seen)]


def _commits(table: Table) -> QuerySet[InstantRecord]:
    written = InstantRecord.objects.filter(table=table, state="completed", sink="")
    columns = ("stream", "requested_at", "completed_at", "writer_name", "operation_ref")
    newest = written.exclude(stream="").order_by("-completed_at").only(*columns)
    return newest[:COMMITS_LOOKED_AT]


def _beats(table: Table) -> QuerySet[HeartbeatRecord]:
    named = HeartbeatRecord.objects.filter(table=table).exclude(stream="")
    return named.order_by("-beat_at")[:BEATS_LOOKED_AT]


def _operations(table: Table) -> QuerySet[Operation]:
    writes = Operation.objects.filter(table=table, kind=write.KIND.name)
    named = writes.exclude(parameters__stream="").defer("plan", "message")
    return named.order_by("-requested_at")[:OPERATIONS_LOOKED_AT]


def _rounds(stream: str, seen: _Seen, now: datetime) -> StreamRounds:
    operation = _operation(seen)
    last = seen.commits[0] if seen.commits else None
    last_round_at = _completed_at(last) if last else None
    pending = [beat for beat in seen.beats if not beat.is_gone]
    signs = StreamSigns(
        last_word_at=_last_word_at(seen, operation),
        state=OperationState(operation.state) if operation else None,
        has_round=operation is None
        or (last_round_at is not None and last_round_at >= operation.requested_at),
        beats_until=max((_runs_out_at(beat) for beat in pending), default=None),
        interval_s=_interval_s(seen, operation),
    )
    phase, due_at = phase_of(signs, now)
    has_ended = operation is not None and phase == "ended"
    return StreamRounds(
        stream=stream,
        writer=_writer(seen),
        phase=phase,
        due_at=due_at,
        last_round_at=last_round_at,
        last_instant=last.requested_at if last else None,
        last_word_at=signs.last_word_at,
        interval_s=signs.interval_s,
        operation_id=operation.pk if operation else None,
        ended_as=operation.state if operation and has_ended else "",
        ended_at=operation.finished_at if operation and has_ended else None,
    )


def _operation(seen: _Seen) -> Operation | None:
    """The newest that is at work, else the one that ended last; None where somebody else has gone
    on with the stream since.
    """
    idle = FINAL | {OperationState.UNKNOWN}
    for operation in seen.operations:
        if OperationState(operation.state) not in idle:
            return operation
    newest = seen.operations[0] if seen.operations else None
    return None if newest is None or _goes_on_without(newest, seen) else newest


def _goes_on_without(operation: Operation, seen: _Seen) -> bool:
    ended_at = operation.finished_at or operation.changed_at
    own = str(operation.pk)
    others = [_completed_at(one) for one in seen.commits if one.operation_ref != own]
    others += [one.beat_at for one in seen.beats if one.operation_ref != own]
    return max(others, default=ended_at) > ended_at


def _last_word_at(seen: _Seen, operation: Operation | None) -> datetime:
    """A report changes the operation at which it is kept."""
    words = [_completed_at(one) for one in seen.commits[:1]]
    words += [one.beat_at for one in seen.beats[:1]]
    words += [operation.changed_at] if operation else []
    return max(words)


def _interval_s(seen: _Seen, operation: Operation | None) -> float | None:
    source = operation.parameters.get("job", {}).get("source", {}) if operation else {}
    pace_s = _pace_s(source)
    if pace_s is not None:
        return pace_s
    ends = [_completed_at(one) for one in seen.commits[:ROUNDS_MEASURED]]
    gaps = [(later - earlier).total_seconds() for later, earlier in pairwise(ends)]
    return median(gaps) if gaps else None


def _pace_s(source: Mapping[str, object]) -> float | None:
    """As asked for over the API, where the worker checks it only once it runs."""
    pace_s = source.get("pace_s")
    if not isinstance(pace_s, int | float) or isinstance(pace_s, bool):
        return None
    return float(pace_s) if 0 < pace_s <= PACE_S_MAX else None


def _completed_at(record: InstantRecord) -> datetime:
    return moment(parse_instant(record.completed_at or record.requested_at))


def _runs_out_at(beat: HeartbeatRecord) -> datetime:
    return beat.beat_at + timedelta(seconds=beat.tolerance_s)


def _writer(seen: _Seen) -> str:
    names = [one.writer_name for one in seen.beats[:1]]
    names += [one.writer_name for one in seen.commits[:1]]
    names += [str(one.parameters.get("writer") or "") for one in seen.operations[:1]]
    return next((name for name in names if name), "")
