"""Heartbeat files: `.hoodie/.heartbeat/<instant>`, whose modification time is the beat.

The content names the writer and its own bounds (interval, misses), so that no other process applies
bounds of its own (bug D5). A foreign heartbeat is empty, and Hudi's defaults apply. An expired
heartbeat never decides anything: it only allows the next writer to try the decision object.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.errors import NotFound, StorageFailed, WriteOutcomeUnknown
from workers.json_text import read_json
from workers.options.write_options import WriteOptions
from workers.ports import Ports, RepeatingTask
from workers.processes import ProcessName
from workers.storage.base import FileInfo, Storage
from workers.table_layout import HEARTBEATS
from workers.timeline import decisions

GIVEN_UP = b'{"is_given_up": true}'
"""Replaces the heartbeat of a failed attempt at a plan. A file can be replaced on a condition, but
not deleted, and a successor's heartbeat must stay.
"""
_INTERVAL_MS = 60_000
_MISSES = 2
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat file as it was read, with its last beat (`beat_ms`, epoch ms by the storage's
    clock). Fields that another engine does not write are None.
    """

    instant: InstantTime
    beat_ms: int
    interval_ms: int = _INTERVAL_MS
    tolerable_misses: int = _MISSES
    writer: str | None = None
    operation_id: str | None = None
    stream: str | None = None
    mode: str | None = None
    operation: str | None = None
    host: str | None = None
    pid: int | None = None
    process: ProcessName | None = None
    """None of another engine's."""
    sink: str | None = None
    """The sink of whose transaction this is, and the epoch of its coordinator."""
    sink_epoch: int | None = None
    is_given_up: bool = False
    """No process has it: see `GIVEN_UP`."""

    @property
    def bound_ms(self) -> int:
        """The time without a beat after which others may consider the writer dead."""
        return self.interval_ms * self.tolerable_misses

    def is_expired(self, now_ms: int) -> bool:
        """Check if the last beat is older than its own bound, or the heartbeat was given up."""
        return self.is_given_up or now_ms - self.beat_ms > self.bound_ms


@dataclass(frozen=True, slots=True)
class HeartbeatContent:
    """The description of a writer in its heartbeat file."""

    options: WriteOptions
    writer: str
    operation: str
    stream: str | None
    sink: str | None = None
    sink_epoch: int | None = None

    def encode(self, process: ProcessName) -> bytes:
        """Return the file's content: JSON that names the writer, its bounds and `process`, which
        writes it.
        """
        body: dict[str, object] = {
            "writer": self.writer,
            "operation_id": self.options.operation_id or None,
            "stream": self.stream,
            "mode": self.options.mode.value,
            "operation": self.operation,
            "interval_ms": self.options.heartbeat_interval_ms,
            "tolerable_misses": self.options.heartbeat_misses,
            **process.to_json(),
        }
        if self.sink is not None:
            body |= {"sink": self.sink, "sink_epoch": self.sink_epoch}
        return json.dumps(body).encode()


class HeartbeatKeeper:
    """Writes the heartbeat of one instant until it is stopped. A beat that fails is tried again at
    the next interval (bug C1).
    """

    def __init__(
        self, storage: Storage, ports: Ports, instant: InstantTime, content: HeartbeatContent
    ) -> None:
        self._storage = storage
        self.instant = instant
        self._path = heartbeat_path(instant)
        self._content = content.encode(ports.processes.here())
        self._ports = ports
        self._interval_s = content.options.heartbeat_interval_ms / 1000
        self._bound_s = self._interval_s * content.options.heartbeat_misses
        self._last_beat_s = 0.0
        self._was_silent = False
        self._repetition: RepeatingTask | None = None
        self.is_fenced = False
        """The instant is decided: the writer must stop (invariant HB4)."""

    def start(self) -> None:
        """Write the first beat, which is durable when this returns, and start to repeat it."""
        self._put()
        self._repetition = self._ports.scheduler.every(
            self._interval_s, self._beat, name="sluice-heartbeat"
        )

    def _beat(self) -> None:
        try:
            if self.is_fenced or decisions.is_decided(self._storage, self.instant):
                self.is_fenced = True
                return
            self._put()
        except (StorageFailed, WriteOutcomeUnknown, OSError) as error:
            _log.warning("heartbeat failed, trying again: path=%s error=%s", self._path, error)

    def _put(self) -> None:
        began_s = self._ports.clock.monotonic_s()
        self._storage.put(self._path, self._content, HEARTBEATS.durability)
        self._was_silent = self._repetition is not None and self.has_lapsed
        self._last_beat_s = began_s

    @property
    def has_lapsed(self) -> bool:
        """True if other writers could consider this writer dead, now or some time before. A process
        that stalled beats again as soon as it resumes.
        """
        silent_s = self._ports.clock.monotonic_s() - self._last_beat_s
        return self._was_silent or silent_s > self._bound_s

    def stop(self) -> None:
        """Stop the beats. The file stays, and expires. Does nothing if it was not started."""
        if self._repetition is not None:
            self._repetition.stop()
            self._repetition = None

    def remove(self) -> None:
        """Stop, and delete the file, so that no process judges the instant by it. Raises
        StorageFailed.
        """
        self.stop()
        delete_heartbeat(self._storage, self.instant)


def heartbeat_path(instant: InstantTime) -> str:
    """Return the path of an instant's heartbeat, relative to the table."""
    return HEARTBEATS.file(instant)


def delete_heartbeat(storage: Storage, instant: InstantTime) -> None:
    """Delete the heartbeat of `instant`, whichever process wrote it. Raises StorageFailed."""
    storage.delete(heartbeat_path(instant), HEARTBEATS.durability)


def read_heartbeats(storage: Storage) -> list[Heartbeat]:
    """Return all heartbeats except those that were given up."""
    return [heartbeat for heartbeat in read_every_heartbeat(storage) if not heartbeat.is_given_up]


def read_every_heartbeat(storage: Storage) -> list[Heartbeat]:
    """Return all heartbeats, given up or not, for cleaning."""
    heartbeats = (_read(storage, file) for file in storage.list_files(HEARTBEATS.path))
    return [heartbeat for heartbeat in heartbeats if heartbeat is not None]


def read_heartbeat(storage: Storage, instant: InstantTime) -> Heartbeat | None:
    """Return the heartbeat of `instant`; None if there is none, or if it was given up."""
    file = storage.info(heartbeat_path(instant))
    heartbeat = _read(storage, file) if file else None
    return None if heartbeat is None or heartbeat.is_given_up else heartbeat


def _read(storage: Storage, file: FileInfo) -> Heartbeat | None:
    try:
        body = read_json(storage.read(file.path) or b"{}")
    except NotFound:
        return None
    except ValueError:
        body = {}
    if not (file.name.isascii() and file.name.isdigit()):
        return None
    if not isinstance(body, dict):
        body = {}  # Not ours: Hudi's bounds hold.
    return Heartbeat(
        instant=file.name,
        beat_ms=file.modified_ms,
        interval_ms=_positive(body.get("interval_ms"), _INTERVAL_MS),
        tolerable_misses=_positive(body.get("tolerable_misses"), _MISSES),
        writer=body.get("writer"),
        operation_id=body.get("operation_id"),
        stream=body.get("stream"),
        mode=body.get("mode"),
        operation=body.get("operation"),
        host=body.get("host"),
        pid=body.get("pid"),
        process=ProcessName.from_json(body),
        sink=body.get("sink"),
        sink_epoch=body.get("sink_epoch"),
        is_given_up=body.get("is_given_up") is True,
    )


def _positive(value: object, default: int) -> int:
    return value if isinstance(value, int) and value > 0 else default
