"""Processes that may still write data files of an instant that was rolled back under them.

A fence refuses whoever asks; a process that was stopped after its last question asks no more, and
the file that it is at comes when it wakes up. As long as the instant lies behind the active start,
no reader counts that file. So archiving must not pass the instant before the process has ended, is
proved to have, or was waited for long enough (`table_services/archive_policy.py`).

`.hoodie/.sluice/writing/<instant>.<name>` names one such process each. One that writes files of a
transaction that another process began (a task of Spark, a participant of a sink, an executor of a
plan) keeps its own there while it is at them. The process that began the transaction is named by
its heartbeat, and noted here by whoever rolls it back or takes the table lock over from it, before
that is decided.
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
    """A process that may still be at a file of the instant."""

    instant: InstantTime
    since_ms: int
    """When it was noted."""
    process: ProcessName | None = None
    """None when nobody knows: of another engine, or of a heartbeat that was lost."""
    is_beginner: bool = False
    """It may also still publish what was decided to be committed."""

    def __str__(self) -> str:
        if self.process is None:
            return "of an unknown process"
        return f"process {self.process.pid} on {self.process.host}"

    def may_live(self, ports: Ports, *, wait_ms: int) -> bool:
        """Whether it is neither proved to have ended nor was waited for so long."""
        if ports.clock.now_ms() - self.since_ms >= wait_ms:
            return False
        return self.process is None or not ports.processes.has_ended(self.process)


@contextmanager
def writing(
    storage: Storage, instant: InstantTime, processes: Processes, name: str
) -> Iterator[None]:
    """Within the block this process is noted as one that writes; `name` is nobody else's."""
    path = _path(instant, name)
    storage.put(path, json.dumps(processes.here().to_json()).encode())
    try:
        yield
    finally:
        try:
            storage.delete(path)
        except (OSError, LakehouseError) as error:  # It only delays archiving, should this go.
            _log.warning("note of a writer stays: path=%s error=%s", path, error)


def note_beginner(storage: Storage, instant: InstantTime, process: ProcessName | None) -> None:
    """Note who began a transaction, before others decide its rollback; the first note stands."""
    content = json.dumps(process.to_json() if process else {}).encode()
    storage.put_if_absent(_path(instant, _BEGINNER), content)


def forget_beginner(storage: Storage, instant: InstantTime) -> None:
    """Drop the note about who began `instant`: he says himself that he writes no more."""
    storage.delete(_path(instant, _BEGINNER))


def late_writers(storage: Storage) -> list[LateWriter]:
    """All that are noted, by instant."""
    writers = (_read(storage, file) for file in storage.list_files(LATE_WRITERS.path))
    return [writer for writer in writers if writer is not None]


def forget_before(storage: Storage, start: InstantTime, excluded: Collection[InstantTime]) -> None:
    """Drop notes about instants before `start` but for `kept`: nobody writes for them any more."""
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
