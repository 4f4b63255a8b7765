"""The writers that wait for the lock: one small file each, written when a wait has become long.

They are hints for users, never read by the protocol. The file of a dead process counts until its
wait would have ended, which its name contains: `<until, ms>-<token>.json`.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.errors import NotFound, StorageFailed, WriteOutcomeUnknown
from workers.json_text import read_json
from workers.ports import Ports
from workers.storage.base import Storage
from workers.table_layout import LOCK_WAITERS

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Waiter:
    """One wait that has become long; times in epoch ms."""

    writer: str | None
    instant: InstantTime | None
    """The one that it wants to decide; None of a writer that has not begun."""
    since_ms: int
    until_ms: int
    """When it gives up."""
    holder: str
    """The holder when the wait became long."""
    host: str
    pid: int


class StorageWaitObserver:
    """The observer of one wait, which writes it to the table's storage."""

    def __init__(self, storage: Storage, ports: Ports, *, writer: str, wait_ms: int) -> None:
        self._storage = storage
        self._ports = ports
        self._writer = writer
        self._wait_ms = wait_ms
        self._path = ""

    def begin(self, completing: InstantTime | None, holder: str, waited_ms: int) -> None:
        """Write the file of the wait. A failure is logged."""
        now_ms = self._ports.clock.now_ms()
        until_ms = now_ms - waited_ms + self._wait_ms
        body = {
            "writer": self._writer or None,
            "instant": completing,
            "since_ms": now_ms - waited_ms,
            "until_ms": until_ms,
            "holder": holder,
            "host": socket.gethostname(),
            "pid": os.getpid(),
        }
        self._path = f"{LOCK_WAITERS.path}/{until_ms}-{self._ports.ids.token()}.json"
        try:
            self._storage.put(self._path, json.dumps(body).encode(), LOCK_WAITERS.durability)
            self._sweep(now_ms)
        except (StorageFailed, WriteOutcomeUnknown) as error:
            _log.warning("waiting unseen: path=%s error=%s", self._path, error)

    def end(self) -> None:
        """Delete the file of the wait. A failure is logged: the file no longer counts after the
        wait's end.
        """
        try:
            self._storage.delete(self._path, LOCK_WAITERS.durability)
        except (StorageFailed, WriteOutcomeUnknown) as error:
            _log.warning("still listed as waiting: path=%s error=%s", self._path, error)

    def _sweep(self, now_ms: int) -> None:
        """Delete expired files by their names, because each read is a call to storage."""
        for name in self._storage.list_names(LOCK_WAITERS.path):
            path = LOCK_WAITERS.file(name)
            if now_ms > _until_ms(self._storage, path):
                self._storage.delete(path, LOCK_WAITERS.durability)


def _until_ms(storage: Storage, path: str) -> int:
    """Return the end of the wait by the file's name, else by its content; 0 if that is damaged."""
    until_text, dash, _ = path.rpartition("/")[2].partition("-")
    if dash and until_text.isascii() and until_text.isdigit():
        return int(until_text)
    waiter = _read(storage, path)
    return waiter.until_ms if waiter else 0


def read_waiters(storage: Storage, now_ms: int) -> list[Waiter]:
    """Return the writers that are still waiting, longest first."""
    read = (_read(storage, file.path) for file in storage.list_files(LOCK_WAITERS.path))
    waiters = [waiter for waiter in read if waiter is not None and now_ms <= waiter.until_ms]
    return sorted(waiters, key=lambda waiter: waiter.since_ms)


def _read(storage: Storage, path: str) -> Waiter | None:
    try:
        return _decode(storage.read(path))
    except NotFound:
        return None  # It has the lock by now.


def _decode(content: bytes) -> Waiter | None:
    try:
        body = read_json(content)
        return Waiter(
            writer=body["writer"],
            instant=body["instant"],
            since_ms=int(body["since_ms"]),
            until_ms=int(body["until_ms"]),
            holder=str(body["holder"]),
            host=str(body["host"]),
            pid=int(body["pid"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
