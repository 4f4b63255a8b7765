"""Processes that may still write data files of an instant that was rolled back.

A fence rejects each request. A process that stalled after its last request makes no other one, and
its current file appears when it resumes. While the instant is after the active start, no reader
counts that file. So archiving must not pass the instant before the process has ended, has provably
ended, or was waited for long enough (`table_services/archive_policy.py`).

`.hoodie/.sluice/writing/<instant>.<name>` names one such process each. A process that writes files
of a transaction of another process (a task of Spark, a participant of a sink, an executor of a
plan) has its own file there while it writes. The process that began the transaction is named by its
heartbeat. It is recorded here by the process that rolls it back or takes its table lock over,
before that is decided.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.errors import LakehouseError, NotFound
from workers.json_text import read_json
from workers.ports import Ports
from workers.processes import Processes, ProcessName
from workers.storage.base import FileInfo, Storage
from workers.table_layout import LATE_WRITERS

_BEGINNER = "beginner"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LateWriter:
    """A process that may still be writing a file of the instant."""

    instant: InstantTime
    since_ms: int
    """When it was noted."""
    process: ProcessName | None = None
    """None if unknown: of another engine, or of a heartbeat that was lost."""
    is_beginner: bool = False
    """It may also still publish what was decided to be committed."""

    def __str__(self) -> str:
        if self.process is None:
            return "of an unknown process"
        return f"process {self.process.pid} on {self.process.host}"

    def can_be_alive(self, ports: Ports, *, wait_ms: int) -> bool:
        """Check that it has not provably ended, and was not yet waited for `wait_ms`."""
        if ports.clock.now_ms() - self.since_ms >= wait_ms:
            return False
        return self.process is None or not ports.processes.has_ended(self.process)


@contextmanager
def record_writer(
    storage: Storage, instant: InstantTime, processes: Processes, name: str
) -> Iterator[None]:
    """Record this process as a writer within the block; `name` must be unique for the instant."""
    path = _path(instant, name)
    storage.put(path, json.dumps(processes.here().to_json()).encode())
    try:
        yield
    finally:
        try:
            storage.delete(path)
        except (OSError, LakehouseError) as error:  # It only delays archiving, should this go.
            _log.warning("note of a writer stays: path=%s error=%s", path, error)


def record_beginner(storage: Storage, instant: InstantTime, process: ProcessName | None) -> None:
    """Record the process that began a transaction, before its rollback is decided. The first record
    stays.
    """
    content = json.dumps(process.to_json() if process else {}).encode()
    storage.put_if_absent(_path(instant, _BEGINNER), content)


def delete_beginner(storage: Storage, instant: InstantTime) -> None:
    """Delete the record of the process that began `instant`: that process itself reports that it
    writes no longer.
    """
    storage.delete(_path(instant, _BEGINNER))


def list_late_writers(storage: Storage) -> list[LateWriter]:
    """Return all recorded writers, by instant."""
    writers = (_read(storage, file) for file in storage.list_files(LATE_WRITERS.path))
    return [writer for writer in writers if writer is not None]


def delete_before(storage: Storage, start: InstantTime, excluded: Collection[InstantTime]) -> None:
    """Delete the records of instants before `start` except `excluded`, for which no process writes
    any longer.
    """
    for file in storage.list_files(LATE_WRITERS.path):
        instant = file.name.partition(".")[0]
        if instant < start and instant not in excluded:
            storage.delete(file.path)


def _path(instant: InstantTime, name: str) -> str:
    return f"{LATE_WRITERS.path}/{instant}.{name}"


def _read(storage: Storage, file: FileInfo) -> LateWriter | None:
    instant, _, name = file.name.partition(".")
    if not (instant.isascii() and instant.isdigit()):
        return None
    try:
        body = read_json(storage.read(file.path) or b"{}")
    except NotFound:  # It ended since it was listed.
        return None
    except ValueError:
        body = {}
    process = ProcessName.from_json(body) if isinstance(body, dict) else None
    return LateWriter(instant, file.modified_ms, process, name == _BEGINNER)
