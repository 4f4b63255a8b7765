"""Sinks as storage tells of them: the files beside the table, and what commits carry.

Whatever is there was written by other processes: a value of a wrong kind is a damaged file, told as
such, and never half a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from controlplane.fields import INSTANT_TIME
from controlplane.mirror.conflict_facts import text
from workers.errors import MalformedTable
from workers.sink.epoch import Epoch, read_epoch
from workers.sink.offsets import parse_offsets
from workers.sink.sink_commits import (
    EPOCH_KEY,
    GAPS_KEY,
    ID_KEY,
    LETTERS_KEY,
    OFFSETS_KEY,
    TOPIC_KEY,
)
from workers.sink.sink_paths import list_sink_ids
from workers.sink.state_file import (
    ParticipantSnapshot,
    SinkState,
    TraceEntry,
    TransactionSnapshot,
    read_state,
)
from workers.sink.stop_request import StopRequest, read_stop
from workers.storage.base import Storage
from workers.timeline.metadata import DEAD_LETTER_FILES_KEY, DEAD_LETTER_ROWS_KEY

SINKS_MAX = 100
"""Of one table. More of them is not how a table is fed."""
_SINK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
OFFSETS_CHARS_MAX = 400_000
LETTER_FILES_KEPT = 200
_NUMBER_MAX = 2**63 - 1
_MOMENT_MAX_MS = 253_402_300_800_000

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class SinkFacts:
    """One sink; a file that cannot be read is absent, and `problem` says which."""

    sink_id: str
    state: SinkState | None
    epoch: Epoch | None
    stop: StopRequest | None
    problem: str = ""


def observe_sinks(storage: Storage) -> list[SinkFacts]:
    """Every sink that has a place beside the table, by id, the first of them if they are many. A
    directory whose name is no id is none.
    """
    ids = [one for one in list_sink_ids(storage) if _SINK_ID.fullmatch(one)]
    return [_sink(storage, one) for one in ids[:SINKS_MAX]]


def sink_of_commit(extra: Mapping[str, Any]) -> dict[str, Any]:
    """`{"sink": ...}` for commits that carry a sink's offsets; nothing for all others.

    Hudi's own sink has no id: its offsets are under the empty one.
    """
    offsets = extra.get(OFFSETS_KEY)
    if not isinstance(offsets, str) or not offsets:
        return {}
    letters = [text(one) for one in str(extra.get(DEAD_LETTER_FILES_KEY) or "").split(",") if one]
    return {
        "sink": {
            "id": text(extra.get(ID_KEY), most=100),
            "epoch": _count(extra.get(EPOCH_KEY)),
            "topic": text(extra.get(TOPIC_KEY), most=249),
            "offsets": _cut_offsets(offsets),
            "bad": _count(extra.get(LETTERS_KEY) or extra.get(DEAD_LETTER_ROWS_KEY)),
            "gaps": _count(extra.get(GAPS_KEY)),
            "letters": letters[:LETTER_FILES_KEPT],
        }
    }


def _cut_offsets(offsets: str) -> str:
    """Return the offsets within the limit, without half of a pair: a cut number is another one."""
    if len(offsets) <= OFFSETS_CHARS_MAX:
        return offsets
    return offsets[: OFFSETS_CHARS_MAX + 1].rpartition(",")[0]


def committed_offsets(sink: Mapping[str, Any]) -> dict[int, int]:
    """Offsets by partition, of a `sink` of `sink_of_commit`. Raises MalformedTable."""
    return parse_offsets(str(sink.get("offsets") or ""))


def _sink(storage: Storage, sink_id: str) -> SinkFacts:
    problems: list[str] = []

    def tried(read: Callable[[Storage, str], _Read | None]) -> _Read | None:
        try:
            return read(storage, sink_id)
        except MalformedTable as error:
            problems.append(str(error))
            return None

    return SinkFacts(
        sink_id=sink_id,
        state=tried(_state),
        epoch=tried(_epoch),
        stop=tried(_stop),
        problem="; ".join(problems)[:500],
    )


def _state(storage: Storage, sink_id: str) -> SinkState | None:
    """Raises MalformedTable also where a value is not of its kind."""
    state = read_state(storage, sink_id)
    if state is None:
        return None
    try:
        return replace(
            state,
            sink_id=sink_id,
            topic=_word(state.topic, 249),
            epoch=_number(state.epoch),
            state=_word(state.state, 32),
            instant=_instant(state.instant),
            deadline_ms=_moment(state.deadline_ms),
            owner=_word(state.owner, 500),
            updated_ms=_moment(state.updated_ms) or 0,
            reason=_word(state.reason, 500),
            participants=_once([_participant(one) for one in state.participants]),
            transactions=tuple(map(_transaction, state.transactions)),
            trace=tuple(map(_entry, state.trace)),
            counters={_word(name, 100): _number(n) for name, n in state.counters.items()},
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise MalformedTable("the sink's state is invalid", why=error) from error


def _participant(shown: ParticipantSnapshot) -> ParticipantSnapshot:
    return replace(
        shown,
        partition=_number(shown.partition),
        participant=_word(shown.participant, 200),
        worker=_word(shown.worker, 300),
        state=_word(shown.state, 32),
        local_offset=_optional(shown.local_offset),
        table_offset=_optional(shown.table_offset),
        broker_offset=_optional(shown.broker_offset),
        has_reported=_claim(shown.has_reported),
        is_member=_claim(shown.is_member),
        seen_ms=_moment(shown.seen_ms) or 0,
    )


def _once(listed: list[ParticipantSnapshot]) -> tuple[ParticipantSnapshot, ...]:
    by_partition = {one.partition: one for one in listed}
    if len(by_partition) != len(listed):
        raise ValueError("duplicate partition")
    return tuple(by_partition[partition] for partition in sorted(by_partition))


def _transaction(shown: TransactionSnapshot) -> TransactionSnapshot:
    return replace(
        shown,
        instant=_instant(shown.instant),
        outcome=_word(shown.outcome, 32),
        started_ms=_moment(shown.started_ms) or 0,
        ended_ms=_moment(shown.ended_ms) or 0,
        rows=_number(shown.rows),
        bad_rows=_number(shown.bad_rows),
        reason=_word(shown.reason, 500),
    )


def _entry(traced: TraceEntry) -> TraceEntry:
    return replace(
        traced,
        at_ms=_moment(traced.at_ms) or 0,
        kind=_word(traced.kind, 64),
        sender=_word(traced.sender, 200),
        partition=_optional(traced.partition),
        instant=_instant(traced.instant),
        detail=_word(traced.detail, 500),
    )


def _epoch(storage: Storage, sink_id: str) -> Epoch | None:
    epoch = read_epoch(storage, sink_id)
    if epoch is None:
        return None
    try:
        return Epoch(
            number=_number(epoch.number),
            owner=_word(epoch.owner, 200),
            host=_word(epoch.host, 200),
            pid=_number(epoch.pid),
            at_ms=_moment(epoch.at_ms) or 0,
        )
    except (TypeError, ValueError) as error:
        raise MalformedTable("the sink's epoch is invalid", why=error) from error


def _stop(storage: Storage, sink_id: str) -> StopRequest | None:
    stop = read_stop(storage, sink_id)
    if stop is None:
        return None
    try:
        return replace(stop, by=_word(stop.by, 200), at_ms=_moment(stop.at_ms) or 0)
    except (TypeError, ValueError) as error:
        raise MalformedTable("invalid stop request", why=error) from error


def _word(value: object, most: int) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {str(value)[:60]}")
    return text(value, most=most)


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _NUMBER_MAX:
        raise ValueError(f"expected a number of at least 0, got {str(value)[:60]}")
    return value


def _optional(value: object) -> int | None:
    return None if value is None else _number(value)


def _moment(value: object) -> int | None:
    at_ms = _optional(value)
    if at_ms is not None and at_ms >= _MOMENT_MAX_MS:
        raise ValueError(f"invalid time {at_ms}")
    return at_ms


def _claim(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, got {str(value)[:60]}")
    return value


def _instant(value: object) -> str:
    instant = _word(value, 17)
    if instant and not INSTANT_TIME.match(instant):
        raise ValueError(f"invalid instant {instant}")
    return instant


def _count(value: object) -> int:
    digits = str(value or "")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 19 else 0
