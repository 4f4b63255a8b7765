"""Reporter of an operation's growing log file to the control plane, with its own thread.

The file is the queue. Lines that could not be sent are read again, so an unreachable control plane
loses nothing while the file exists, and no caller waits. A line that is sent twice is stored once,
by its offset.
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
from workers.reporting.http import ReportRejected, post
from workers.reporting.stored_lines import LogChunk, LogLine, read_lines
from workers.reporting.tokens import find_token

EVERY_S: Final = 1.0
_REPORTS_MAX = 5
"""Most reports per interval, so that a busy log does not slow the job down."""
_TIMEOUT_S = 3.0
_TRY_AGAIN_S = 0.25
_CLOSE_TRIES_MAX = 3
"""The control plane reads the rest from the file, if it has access to it."""
_log = logging.getLogger(__name__)


class LogSender(Protocol):
    """Reporter of a file, until it is closed."""

    def close(self, *, wait_s: float = 5.0) -> None:
        """Try for at most `wait_s` to report what the file still holds."""


class SilentLogReporter:
    """Reporter that sends nothing, for jobs without a report URL."""

    def close(self, *, wait_s: float = 5.0) -> None:
        """Do nothing."""
        return


def build_log_reporter(
    path: Path,
    report_url: str | None,
    operation_id: str,
    environment: Mapping[str, str],
    masker: Masker,
    *,
    attempt: int = 0,
) -> LogSender:
    """Start a reporter, or return a silent one without a report URL."""
    if report_url is None:
        return SilentLogReporter()
    facts = {
        "operation_id": operation_id,
        "host": socket.gethostname(),
        "stream": path.name,
        "attempt": attempt,
    }
    url, token = build_log_url(report_url), find_token(operation_id, environment)
    request_id = current_request_id.get()

    def send(body: Mapping[str, Any]) -> None:
        post(url, token, body, _TIMEOUT_S, request_id=request_id)

    return LogReporter(path, send, facts, masker)


def build_log_url(report_url: str) -> str:
    """Return the URL for log lines, next to that for other reports."""
    return f"{report_url.rstrip('/')}/log/"


class LogReporter:
    """Reporter with its own thread, which starts at once. Never raises, and only `close` waits."""

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
        """Start the thread. `send` raises as `post`; each report contains `facts` and its lines."""
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
        """Report the rest of the file, for at most `wait_s`. A failure is logged to the file."""
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
        """Send the next lines. Return whether there were any, so that more may follow."""
        try:
            piece = self._read(is_over=is_over)
            self._send_lines(piece.lines)
        except (OSError, HTTPException, ValueError) as error:
            self._note_failure(error)
            return False
        self._position = piece.position
        self._note_success(piece.lines)
        return bool(piece.lines)

    def _read(self, *, is_over: bool) -> LogChunk:
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
        except ReportRejected as error:
            # The same lines would always be rejected.
            _log.warning("%s lines of this log were refused and are lost: %s", len(lines), error)

    def _note_failure(self, error: Exception) -> None:
        """Log the first of several failures, because each warning is another line to report."""
        if not self._is_failing:
            _log.warning("this log is not taken at the moment: %s: %s", type(error).__name__, error)
        self._is_failing = True

    def _note_success(self, lines: list[LogLine]) -> None:
        if self._is_failing and lines:
            _log.info("this log is taken again")
        self._is_failing = self._is_failing and not lines
