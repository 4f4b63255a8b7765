"""The heartbeat of one attempt to carry a plan out.

A pending plan outlives its executors, so the heartbeat of its instant also names the attempt.
Taking a plan over replaces the file, if it is still the one that was checked. A stalled attempt
finds the name of another attempt in it, stops its heartbeat and publishes nothing. No process
replaces or removes a heartbeat that it has not read.
"""

from __future__ import annotations

import json
import logging
import zlib

from workers.clock import InstantTime
from workers.concurrency.heartbeat import GIVEN_UP, HeartbeatContent, heartbeat_path
from workers.errors import NotFound, ServiceBusy, StorageFailed, WriteOutcomeUnknown
from workers.files.names import WriteToken, write_token
from workers.json_text import read_json
from workers.options.write_options import WriteOptions
from workers.ports import Ports, RepeatingTask
from workers.storage.base import Storage, Tagged
from workers.table_layout import HEARTBEATS

_log = logging.getLogger(__name__)


class AttemptHeartbeat:
    """A repeated heartbeat for one attempt at an instant, until it is stopped or replaced by
    another attempt's.
    """

    def __init__(
        self,
        storage: Storage,
        ports: Ports,
        instant: InstantTime,
        *,
        service: str,
        options: WriteOptions,
    ) -> None:
        self.attempt = ports.ids.token()
        self._storage = storage
        self._ports = ports
        self._instant = instant
        heartbeat = HeartbeatContent(options, options.writer or service, service, None)
        body = read_json(heartbeat.encode(ports.processes.here())) | {"attempt": self.attempt}
        self._content = json.dumps(body).encode()
        self._interval_s = options.heartbeat_interval_ms / 1000
        self._bound_s = self._interval_s * options.heartbeat_misses
        self._last_beat_s = 0.0
        self._was_silent = False
        self._repetition: RepeatingTask | None = None

    def start(self, former: Tagged | None) -> None:
        """Put this heartbeat in the place of `former`, which expired or was released; None if there
        was none. Every former attempt is fenced from now on.

        Call it under the table lock. A stalled process loses that lock, so this raises ServiceBusy
        when the file is the heartbeat of another attempt by now.
        """
        path = heartbeat_path(self._instant)
        if former is None:
            is_ours = self._storage.put_if_absent(path, self._content)
        else:
            is_ours = (
                self._storage.replace_if_match(
                    path, self._content, former.tag, HEARTBEATS.durability
                )
                is not None
            )
        if not is_ours:
            raise ServiceBusy("another process took the plan up first", instant=self._instant)
        self._last_beat_s = self._ports.clock.monotonic_s()
        self._repetition = self._ports.scheduler.every(
            self._interval_s, self._beat, name="sluice-heartbeat"
        )

    @property
    def has_lapsed(self) -> bool:
        """Others could take this attempt for dead, now or some time before."""
        silent_s = self._ports.clock.monotonic_s() - self._last_beat_s
        return self._was_silent or silent_s > self._bound_s

    def _beat(self) -> None:
        path = heartbeat_path(self._instant)
        self._was_silent = self.has_lapsed
        try:
            heartbeat = self._storage.read_tagged(path)
            if heartbeat.content == self._content:
                self._storage.replace_if_match(
                    path, self._content, heartbeat.tag, HEARTBEATS.durability
                )
                self._last_beat_s = self._ports.clock.monotonic_s()
        except NotFound:  # Deleted by a rollback; `confirm` raises in the executor.
            return
        except (StorageFailed, WriteOutcomeUnknown) as error:
            _log.warning("heartbeat failed, trying again: path=%s error=%s", path, error)

    def stop(self) -> None:
        """Stop the heartbeat; the file stays, and expires. Harmless when it was not started."""
        if self._repetition is not None:
            self._repetition.stop()
            self._repetition = None

    def give_up(self) -> None:
        """Stop, and let the next attempt begin without waiting for this heartbeat to expire."""
        self.stop()
        is_fresh = self._ports.clock.monotonic_s() - self._last_beat_s < self._bound_s
        # Once it has expired another attempt may be replacing this very content.
        heartbeat = read_current_heartbeat(self._storage, self._instant) if is_fresh else None
        if heartbeat is not None and heartbeat.content == self._content:
            self._storage.replace_if_match(
                heartbeat_path(self._instant), GIVEN_UP, heartbeat.tag, HEARTBEATS.durability
            )


def read_current_heartbeat(storage: Storage, instant: InstantTime) -> Tagged | None:
    """Read the heartbeat file of an instant with its tag, of any attempt; None if there is none."""
    try:
        return storage.read_tagged(heartbeat_path(instant))
    except NotFound:
        return None


def is_current(storage: Storage, instant: InstantTime, attempt: str) -> bool:
    """Check whether `attempt` is the one that carries the instant's plan out."""
    try:
        body = read_json(storage.read(heartbeat_path(instant)) or b"{}")
    except (NotFound, ValueError):
        return False
    return isinstance(body, dict) and body.get("attempt") == attempt


def build_attempt_token(attempt: str, *, partition: int, stage: int = 0) -> WriteToken:
    """Names files so that two attempts at one plan never pick the same name."""
    number = zlib.crc32(attempt.encode()) & 0x7FFFFFFF  # Hudi keeps it in a Java int.
    return write_token(partition, stage, number)
