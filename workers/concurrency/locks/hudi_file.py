"""Apache Hudi's filesystem lock, held together with our own lease, for tables that Hudi writes as
well.

The lease comes first, so our writers do not depend on the file: exclusion, epochs and takeover are
the lease's, and its holder may remove a file that one of our writers left. The file keeps Hudi's
writers out while it is held, as far as Hudi's own rules allow. Hudi checks and then opens, so it
may overwrite ours; so there are the token, the pause, and the second check. And a Hudi client that
closes removes any holder's file, so two *Hudi* writers may hold it at the same time.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.clock import InstantTime
from workers.concurrency.locks.lease import ANNOUNCED_AFTER_S, LeaseLock, WaitObserver
from workers.concurrency.locks.record import DRIFT_MS
from workers.concurrency.locks.record_lease import RecordLease
from workers.concurrency.locks.staleness import StalenessTracker
from workers.errors import LeaseLost, LockTimeout, StorageFailed
from workers.json_text import read_json
from workers.ports import Ports
from workers.storage.lock_file import LockFile, SeenFile

FILE_NAME = "lock"
SETTLE_S = 0.05
"""After which a Hudi client that saw no file has opened its own."""
_POLL_S = 0.1
_ENGINE = "sluice"
HUDI = "Apache Hudi"
_log = logging.getLogger(__name__)


class HudiFileLock:
    """A `TableLock` that holds our lease and, within it, the file `lock` of `directory` that Hudi's
    writers use. After `expire_minutes` a Hudi file counts as left by a dead writer, with 0 never.
    After each holding that completes something, it waits `pause_ms` so that Hudi's writers get a
    chance.
    """

    def __init__(
        self,
        lease_lock: LeaseLock,
        ports: Ports,
        *,
        table: str,
        directory: Path,
        expire_minutes: int = 0,
        pause_ms: int = 0,
        lease_s: float = 30,
        renew_s: float = 10,
        wait_ms: int = 60_000,
        waiting: WaitObserver | None = None,
        sightings: StalenessTracker | None = None,
    ) -> None:
        self._lease_lock = lease_lock
        self._ports = ports
        self._table = table
        self._file = LockFile(directory / FILE_NAME)
        self._expire_minutes = expire_minutes
        self._pause_ms = pause_ms
        self._lease_ms = int(lease_s * 1000)
        self._renew_s = renew_s
        self._wait_ms = wait_ms
        self._waiting = waiting
        self._sightings = sightings or StalenessTracker()

    @contextmanager
    def hold(self, *, completing: InstantTime | None = None) -> Iterator[FileLease]:
        """Hold the lease and the file, as `TableLock.hold` describes."""
        began_s = self._ports.clock.monotonic_s()
        with self._lease_lock.hold(completing=completing) as lease:
            mine = self._content(lease)
            self._take(lease, mine, completing, began_s)
            waited_ms = int((self._ports.clock.monotonic_s() - began_s) * 1000)
            keep = self._ports.scheduler.every(
                self._renew_s, lambda: self._keep(mine), name="sluice-lock-file"
            )
            try:
                yield FileLease(lease, self._file, mine, waited_ms)
            finally:
                keep.stop()
                self._release(mine)
        if completing is not None and self._pause_ms:
            # Hudi polls every few seconds only; a writer that retakes the lock at once starves it.
            self._ports.clock.sleep(self._add_jitter(self._pause_ms / 1000))

    def _content(self, lease: RecordLease) -> bytes:
        body = {
            "engine": _ENGINE,
            "table": self._table,
            "owner": lease.owner.rpartition("/")[0],
            "leaseMs": self._lease_ms,
        }
        return json.dumps(body).encode()

    def _take(
        self, lease: RecordLease, mine: bytes, completing: InstantTime | None, began_s: float
    ) -> None:
        announced = False
        try:
            for holder, waited_s in self._tries(lease, mine, began_s):
                if waited_s >= ANNOUNCED_AFTER_S and not announced and self._waiting is not None:
                    announced = True
                    self._waiting.begin(completing, holder, int(waited_s * 1000))
        finally:
            if announced and self._waiting is not None:
                self._waiting.end()

    def _tries(
        self, lease: RecordLease, mine: bytes, began_s: float
    ) -> Iterator[tuple[str, float]]:
        """Yield (holder of the file, seconds waited) after each failed attempt. Raises
        LockTimeout.
        """
        clock = self._ports.clock
        while True:
            file = self._file.read()
            if file is None:
                lease.confirm()
                if self._create(mine):
                    return
            elif (why := self._find_leftover_reason(file)) is not None:
                lease.confirm()
                if self._file.remove(file):
                    _log.warning("lock file removed: path=%s reason=%s", self._file.path, why)
                continue
            waited_s = clock.monotonic_s() - began_s
            if waited_s * 1000 >= self._wait_ms:
                raise self._timeout(file)
            yield _format_holder(file), waited_s
            clock.sleep(self._add_jitter(_POLL_S))

    def _create(self, mine: bytes) -> bool:
        """Create the file, and check that it is still ours. A file of another writer is not
        removed.
        """
        if not self._file.create(mine):
            return False
        self._ports.clock.sleep(SETTLE_S)
        file = self._file.read()
        return file is not None and file.content == mine

    def _find_leftover_reason(self, file: SeenFile) -> str | None:
        """Return why no process can be holding the file; None if one may. Requires our lease."""
        # Whichever is more: its time may be that of a clock that was ahead.
        age_ms = max(self._ports.clock.now_ms() - file.modified_ms, self._unchanged_for_ms(file))
        ours = _parse_own(file.content)
        if ours is None:
            is_old = 0 < self._expire_minutes * 60_000 < age_ms
            return f"expired after {self._expire_minutes} minutes" if is_old else None
        table, lease_ms, owner = ours
        if table == self._table:
            return f"left by {owner}, whose lease is over"
        # Another table shares the directory; a live holder keeps the file young.
        return f"left by a writer of {table}" if age_ms > lease_ms + DRIFT_MS else None

    def _unchanged_for_ms(self, file: SeenFile) -> float:
        now_s = self._ports.clock.monotonic_s()
        return 1000 * self._sightings.unchanged_for_s(str(self._file.path), file, now_s)

    def _timeout(self, file: SeenFile | None) -> LockTimeout:
        return LockTimeout(
            "the lock file stayed with somebody else; where no writer of Apache Hudi runs any more "
            "remove it, or set hoodie.write.lock.filesystem.expire",
            table=self._table,
            path=self._file.path,
            holder=_format_holder(file),
            waited_ms=self._wait_ms,
            provider="filesystem",
        )

    def _keep(self, mine: bytes) -> None:
        try:
            self._file.renew(mine)
        except StorageFailed as error:
            _log.warning("lock file not kept young, trying again: error=%s", error)

    def _release(self, mine: bytes) -> None:
        try:
            file = self._file.read()
            if file is not None and file.content == mine:
                self._file.remove(file)
        except StorageFailed as error:
            # What was done under it is done; the next of ours to hold the lease removes it.
            _log.warning("lock file not removed: error=%s", error)

    def _add_jitter(self, seconds: float) -> float:
        """Return between 0.5 and 1.5 times the seconds, so that two waiting writers do not stay in
        step.
        """
        return seconds * (0.5 + (hash(self._ports.ids.token()) % 1000) / 1000)


class FileLease:
    """A `Lease` of our record and Hudi's file."""

    provider = "filesystem"

    def __init__(self, lease: RecordLease, file: LockFile, mine: bytes, waited_ms: int) -> None:
        self._lease = lease
        self._file = file
        self._mine = mine
        self.epoch = lease.epoch
        self.acquired_at_ms = lease.acquired_at_ms
        self.waited_ms = waited_ms
        self.skew = lease.skew

    def completes(self, what: str) -> None:
        """Record the instant that is about to be decided, as `Lease.completes` describes."""
        self._lease.completes(what)
        self.confirm()

    def confirm(self) -> None:
        """Confirm the lease and the file, as `Lease.confirm` describes."""
        self._lease.confirm()
        file = self._file.read()
        if file is None or file.content != self._mine:
            raise LeaseLost(
                "another engine took the lock file away while it was held",
                path=self._file.path,
                owner=self._lease.owner,
            )


def file_holder(directory: Path) -> SeenFile | None:
    """Return the lock file if a writer of Apache Hudi created it."""
    file = LockFile(directory / FILE_NAME).read()
    return file if file is not None and _parse_own(file.content) is None else None


def _format_holder(file: SeenFile | None) -> str:
    ours = _parse_own(file.content) if file else None
    return ours[2] if ours else HUDI


def _parse_own(content: bytes) -> tuple[str, int, str] | None:
    """Return (table, lease in ms, owner) of a file that one of our writers created; None for
    another one.
    """
    try:
        body = read_json(content)
        if body["engine"] != _ENGINE:
            return None
        return str(body["table"]), int(body["leaseMs"]), str(body["owner"])
    except (ValueError, KeyError, TypeError):
        return None
