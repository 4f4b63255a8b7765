"""Reports a growing log file of an operation to the control plane, from a thread of its own.

The file is the queue: what could not be sent is read again from where it stopped, so a control
plane that is away loses nothing while the file is there, and nothing ever waits. A line that is
sent twice is stored once, by the place where it begins.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, Protocol

from workers.clock import Clock, SystemClock
from workers.log_lines import current_request_id
from workers.masking import Masker
from workers.reporting.posting import Refused, post
from workers.reporting.stored_lines import LogLine, Piece, read_lines
from workers.reporting.tokens import token_for

EVERY_S: Final = 1.0
_REPORTS_MAX = 5
"""At each look, so that a busy log takes little from the job itself."""
_TIMEOUT_S = 3.0
_TRY_AGAIN_S = 0.25
_CLOSE_TRIES_MAX = 3
"""The control plane reads the rest from the file, where it has it at hand."""
_log = logging.getLogger(__name__)


class ReportsItsLog(Protocol):
    """What reads a file on, until it is closed."""

    def close(self, *, wait_s: float = 5.0) -> None:
        """Try for at most `wait_s` to report what the file still holds."""


class SilentLogReporter:
    """Where nobody is to be reported to: the file is all there is."""

    def close(self, *, wait_s: float = 5.0) -> None:
        """Nothing waits."""
        return


def log_reporter_for(
    path: Path,
    report_url: str | None,
    operation_id: str,
    environment: Mapping[str, str],
    masker: Masker,
    *,
    attempt: int = 0,
) -> ReportsItsLog:
    """A reporter that began, or a silent one where there is nobody to report to."""
    if report_url is None:
        return SilentLogReporter()
    facts = {
        "operation_id": operation_id,
        "host": socket.gethostname(),
        "stream": path.name,
        "attempt": attempt,
    }
    url, token = log_url(report_url), token_for(operation_id, environment)
    request_id = current_request_id.get()

    def send(body: Mapping[str, Any]) -> None:
        post(url, token, body, _TIMEOUT_S, request_id=request_id)

    return LogReporter(path, send, facts, masker)


def log_url(report_url: str) -> str:
    """Where lines go, beside the other reports."""
    return f"{report_url.rstrip('/')}/log/"


class LogReporter:
    """Begins at once. Never raises, and holds nobody up but in `close`."""

    def __init__(
        self,
        path: Path,
        send: Callable[[Mapping[str, Any]], None],
        facts: Mapping[str, Any],
        masker: Masker,
        *,
        clock: Clock | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        """`send` raises what `post` raises; `facts` go beside the lines of each report."""
        self._path = path
        self._send = send
        self._facts = facts
        self._masker = masker
        self._clock = clock or SystemClock()
        self._every_s = every_s
        self._position = 0
        self._is_failing = False
        self._deadline_s: float | None = None
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log reporter", daemon=True)
        self._thread.start()

    def close(self, *, wait_s: float = 5.0) -> None:
        """See `ReportsItsLog`. Where that fails, the file says so, which may be read later."""
        self._deadline_s = self._clock.monotonic_s() + wait_s
        self._is_closing.set()
        self._thread.join(wait_s + _TIMEOUT_S)

    def _run(self) -> None:
        while not self._is_closing.wait(self._every_s):
            for _ in range(_REPORTS_MAX):
                if not self._report_next():
                    break
        self._report_the_rest()

    def _report_the_rest(self) -> None:
        assert self._deadline_s is not None
        failures = 0
        while failures < _CLOSE_TRIES_MAX and self._clock.monotonic_s() < self._deadline_s:
            if self._report_next(is_over=True):
                continue
            if not self._is_failing:
                return
            failures += 1
            self._clock.sleep(_TRY_AGAIN_S)
        _log.warning("the end of this log was not reported: path=%s", self._path)

    def _report_next(self, *, is_over: bool = False) -> bool:
        """Whether lines were sent, so that more may follow."""
        try:
            piece = self._read(is_over=is_over)
            self._send_lines(piece.lines)
        except (OSError, HTTPException, ValueError) as error:
            self._note_failure(error)
            return False
        self._position = piece.position
        self._note_success(piece.lines)
        return bool(piece.lines)

    def _read(self, *, is_over: bool) -> Piece:
        return read_lines(
            self._path,
            self._position,
            now_ms=self._clock.now_ms(),
            masker=self._masker,
            is_over=is_over,
        )

    def _send_lines(self, lines: list[LogLine]) -> None:
        if not lines:
            return
        try:
            self._send({**self._facts, "lines": [line.to_message() for line in lines]})
        except Refused as error:
            # The same lines would be refused for ever.
            _log.warning("%s lines of this log were refused and are lost: %s", len(lines), error)

    def _note_failure(self, error: Exception) -> None:
        """Once, however long it goes on: each warning is a line that has to be reported, too."""
        if not self._is_failing:
            _log.warning("this log is not taken at the moment: %s: %s", type(error).__name__, error)
        self._is_failing = True

    def _note_success(self, lines: list[LogLine]) -> None:
        if self._is_failing and lines:
            _log.info("this log is taken again")
        self._is_failing = self._is_failing and not lines
