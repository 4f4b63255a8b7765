"""Writers in threads that pause at a stop point: one of them runs at a time, in a chosen order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from workers import failpoints

PAUSES = ("after_start", "after_data")
_WAIT_MAX_S = 120.0


class PausedWriter(threading.Thread):
    """Calls `act` in a thread of its own and pauses once, when it reaches `point`."""

    def __init__(self, name: str, point: str, act: Callable[[], Any]) -> None:
        super().__init__(name=name, daemon=True)
        self.point = point
        self._act = act
        self._has_paused = threading.Event()
        self._may_continue = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._result = self._act()
        except BaseException as error:  # noqa: BLE001 - `finish` raises it in the story's thread
            self._error = error
        self._has_paused.set()

    def begin(self) -> None:
        """Return when the writer has paused, or has ended before its stop point."""
        self.start()
        assert self._has_paused.wait(_WAIT_MAX_S), f"{self.name} hangs before {self.point}"

    def pause(self) -> None:
        self._has_paused.set()
        assert self._may_continue.wait(_WAIT_MAX_S), f"{self.name} was never released"

    def finish(self) -> Any:
        """Return what the writer returned."""
        self.release()
        if self._error is not None:
            raise self._error
        return self._result

    def release(self) -> None:
        self._may_continue.set()
        self.join(_WAIT_MAX_S)
        assert not self.is_alive(), f"{self.name} hangs after {self.point}"


class Stage:
    """The paused writers of one story."""

    def __init__(self) -> None:
        self._writers: dict[str, PausedWriter] = {}

    def begin(self, name: str, point: str, act: Callable[[], Any]) -> PausedWriter:
        writer = self._writers[name] = PausedWriter(name, point, act)
        writer.begin()
        return writer

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Stop points lead here; at the end every writer is released."""
        before = failpoints.hit_failpoint
        failpoints.hit_failpoint = self._reach
        try:
            yield
        finally:
            for writer in self._writers.values():
                writer.release()
            failpoints.hit_failpoint = before

    def _reach(self, point: str, *, writer: str | None = None) -> None:
        paused = self._writers.get(writer or "")
        if paused is not None and paused.point == point:
            paused.pause()
