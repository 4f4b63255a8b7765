"""Reporter to the control plane over HTTP: one thread, a bounded queue, no waiting caller.

A full queue drops its oldest report. An unreachable control plane costs one warning per report, and
never a commit. A request posts one JSON object. It follows no redirect and uses no proxy, so the
token is sent only to the configured address.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from workers.clock import Clock, SystemClock
from workers.log_lines import current_request_id
from workers.reporting.report import OperationReport, Reporter, ReportState, SilentReporter
from workers.reporting.tokens import find_token

_BODY_BYTES_MAX = 512 * 1024
_QUEUE_MAX = 200
_TIMEOUT_S = 3.0
_FINAL_ATTEMPTS_MAX = 5
_RETRY_S = 0.5

_log = logging.getLogger(__name__)


class ReportRejected(HTTPException):
    """The control plane rejects this body. Another attempt is useless."""


def post(
    url: str, token: str, body: Mapping[str, Any], timeout_s: float, *, request_id: str = ""
) -> None:
    """Post the body, and return once it was accepted. `request_id` is the id of its request.

    Raises ReportRejected for an invalid body; OSError and HTTPException if a retry may succeed.
    """
    status = post_for_status(url, token, body, timeout_s, request_id=request_id)
    if status in (400, 413, 422):
        raise ReportRejected(f"status={status}")
    if not 200 <= status < 300:
        raise HTTPException(f"status={status}")


def post_for_status(
    url: str, token: str, body: Mapping[str, Any], timeout_s: float, *, request_id: str = ""
) -> int:
    """Post the body and return the status. Raises ReportRejected for a body that is too large,
    OSError, HTTPException.
    """
    return post_for_answer(url, token, body, timeout_s, request_id=request_id)[0]


def post_for_answer(
    url: str, token: str, body: Mapping[str, Any], timeout_s: float, *, request_id: str = ""
) -> tuple[int, bytes]:
    """Post the body and return status and body of the answer. Raises ReportRejected for a body
    that is too large, OSError, HTTPException.
    """
    encoded = json.dumps(body).encode()
    if len(encoded) > _BODY_BYTES_MAX:
        raise ReportRejected(f"report is too large: bytes={len(encoded)}")
    parts = urlsplit(url)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=timeout_s)
    headers = {"Content-Type": "application/json", "Authorization": f"Worker {token}"}
    if request_id:
        headers["X-Request-ID"] = request_id
    try:
        connection.request("POST", parts.path or "/", body=encoded, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(_BODY_BYTES_MAX)
    finally:
        connection.close()


def build_reporter(
    report_url: str | None, operation_id: str, environment: Mapping[str, str]
) -> Reporter:
    """Build an HTTP reporter, or a silent one without a URL."""
    if report_url is None:
        return SilentReporter()
    return HttpReporter(report_url, token=find_token(operation_id, environment))


class HttpReporter:
    """Reporter with its own daemon thread, which starts at once. Thread-safe.

    Its reports have the id of the current request, also in the control plane's logs and audit.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str,
        clock: Clock | None = None,
        queue_max: int = _QUEUE_MAX,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._url = url
        self._token = token
        self._request_id = current_request_id.get()
        self._clock = clock or SystemClock()
        self._timeout_s = timeout_s
        self._queue_max = queue_max
        self._changed = threading.Condition()
        self._queue: deque[OperationReport] = deque()
        self._is_closing = False
        self._is_sending = False
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Number of dropped reports."""
        return self._dropped

    @property
    def is_sending(self) -> bool:
        """True while a report is being sent. Queued reports no longer change it."""
        return self._is_sending

    def send(self, report: OperationReport) -> None:
        """Queue the report. Progress replaces a queued progress right before it, if both are of the
        same operation.

        After `close` reports are ignored.
        """
        with self._changed:
            if self._is_closing:
                return
            report = self._merge_outdated(report)
            if len(self._queue) >= self._queue_max:
                self._drop(self._queue.popleft(), "the queue is full")
            self._queue.append(report)
            self._changed.notify_all()

    def close(self, *, wait_s: float = 5.0) -> None:
        """Wait at most `wait_s` until the queue is empty. Then drop the remaining reports with a
        warning.
        """
        deadline = self._clock.monotonic_s() + wait_s
        with self._changed:
            while self._queue or self._is_sending:
                left_s = deadline - self._clock.monotonic_s()
                if left_s <= 0:
                    break
                self._changed.wait(left_s)
            self._is_closing = True
            while self._queue:
                self._drop(self._queue.popleft(), "the reporter closes")
            self._changed.notify_all()

    def _merge_outdated(self, report: OperationReport) -> OperationReport:
        """Return the report, merged with an older queued progress of the same operation, which it
        replaces.
        """
        if report.state is not ReportState.PROGRESS or not self._queue:
            return report
        last = self._queue[-1]
        if last.state is ReportState.PROGRESS and last.operation_id == report.operation_id:
            return report.merge_older(self._queue.pop())
        return report

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_sending = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._queue) or self._is_closing)
                if not self._queue:
                    return
                report = self._queue.popleft()
                self._is_sending = True
            self._deliver(report)

    def _deliver(self, report: OperationReport) -> None:
        attempts_max = _FINAL_ATTEMPTS_MAX if report.state.is_final else 1
        problem = ""
        for attempt in range(attempts_max):
            try:
                self._post(report)
            except (OSError, HTTPException, ValueError) as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                return
            if self._is_closing:
                break
            if attempt + 1 < attempts_max:
                self._clock.sleep(_RETRY_S * 2**attempt)
        self._drop(report, problem)

    def _post(self, report: OperationReport) -> None:
        worker = {"host": socket.gethostname(), "process": os.getpid()}
        message, request_id = {**report.to_message(), **worker}, self._request_id
        post(self._url, self._token, message, self._timeout_s, request_id=request_id)

    def _drop(self, report: OperationReport, reason: str) -> None:
        self._dropped += 1
        _log.warning(
            "report not delivered: operation=%s state=%s reason=%s",
            report.operation_id,
            report.state.value,
            reason,
        )
