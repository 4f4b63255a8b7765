"""The attempts of an operation: each time its job was sent to a worker, who took it, how it ended.

They are kept as JSON in the operation's own row, so that a page needs no query for them. Host and
process come from reports, and are hints as all of a report is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from controlplane.operations.models import Operation

KEPT_MAX: Final = 20
"""The newest. An operation is sent eleven times at most; only a sink is relaunched without end."""
NOT_TAKEN: Final = "not_taken"
LOST: Final = "lost"
_HOST_CHARS_MAX: Final = 255
_PROCESS_MAX: Final = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    number: int
    """1 at first."""
    queue: str
    """The Celery queue; empty for what a shell carries out."""
    host: str
    """The worker's host; empty before its first report."""
    process: int | None
    """The worker's process id."""
    sent_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str
    """The state in which it left the operation; `lost` if its worker died, `not_taken` if no worker
    took it; empty while it is open.
    """


def attempt_rows(operation: Operation) -> list[AttemptRow]:
    """Return the attempts, oldest first."""
    return [
        AttemptRow(
            number=attempt["number"],
            queue=attempt["queue"],
            host=attempt["host"],
            process=attempt["process"],
            sent_at=_read_time(attempt["sent_at"]),
            started_at=_read_time(attempt["started_at"]),
            ended_at=_read_time(attempt["ended_at"]),
            outcome=attempt["outcome"],
        )
        for attempt in operation.attempt_log
    ]


def add_attempt(operation: Operation, now: datetime, *, queue: str, is_sent: bool = True) -> None:
    """Add an attempt to the row, which the caller saves. One that is still open ends here."""
    ended = [_replace_lost(attempt, now) for attempt in operation.attempt_log]
    number = ended[-1]["number"] + 1 if ended else 1
    sent_at = now.isoformat() if is_sent else None
    operation.attempt_log = [*ended, _build_attempt(number, queue, sent_at)][-KEPT_MAX:]


def start_attempt(operation: Operation, now: datetime) -> None:
    """Set the start of the newest attempt in the row, once; the caller saves it."""
    if operation.attempt_log and operation.attempt_log[-1]["started_at"] is None:
        _amend_newest(operation, started_at=now.isoformat())


def end_attempt(operation: Operation, now: datetime, outcome: str) -> None:
    """Set how the newest attempt ended in the row, which the caller saves. A later correction of
    the operation's end changes the outcome and not the time.
    """
    if operation.attempt_log:
        ended_at = operation.attempt_log[-1]["ended_at"] or now.isoformat()
        _amend_newest(operation, ended_at=ended_at, outcome=outcome)


def read_worker(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return host and process of a report, as far as it names them."""
    host, process = payload.get("host"), payload.get("process")
    if not isinstance(host, str) or not host:
        return {}
    is_process = type(process) is int and 0 < process < _PROCESS_MAX
    name = host[:_HOST_CHARS_MAX].replace("\x00", "")
    return {"host": name, "process": process if is_process else None}


def is_new_worker(operation: Operation, worker: Mapping[str, Any]) -> bool:
    """Check whether the newest attempt lacks this worker."""
    newest = operation.attempt_log[-1] if operation.attempt_log else None
    return bool(worker) and (newest is None or newest["host"] != worker["host"])


def set_worker(operation: Operation, worker: Mapping[str, Any], now: datetime) -> None:
    """Set who took the newest attempt in the row, which the caller saves. A worker on another host
    than the one before got the same message again, which is an attempt of its own.
    """
    newest = operation.attempt_log[-1] if operation.attempt_log else None
    if newest is None or (newest["host"] and newest["host"] != worker["host"]):
        add_attempt(operation, now, queue=newest["queue"] if newest else "", is_sent=False)
    _amend_newest(operation, **worker)
    start_attempt(operation, now)


def _build_attempt(number: int, queue: str, sent_at: str | None) -> dict[str, Any]:
    return {
        "number": number,
        "queue": queue,
        "host": "",
        "process": None,
        "sent_at": sent_at,
        "started_at": None,
        "ended_at": None,
        "outcome": "",
    }


def _replace_lost(attempt: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    if attempt["ended_at"] is not None:
        return dict(attempt)
    outcome = NOT_TAKEN if attempt["started_at"] is None else LOST
    return {**attempt, "ended_at": now.isoformat(), "outcome": outcome}


def _amend_newest(operation: Operation, **values: Any) -> None:
    attempts: Sequence[dict[str, Any]] = operation.attempt_log
    operation.attempt_log = [*attempts[:-1], {**attempts[-1], **values}]


def _read_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
