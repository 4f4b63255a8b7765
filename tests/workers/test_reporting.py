"""Reports reach a control plane that is there, and cost nothing but a warning where it is not."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from workers.reporting import (
    HttpReporter,
    OperationReport,
    Progress,
    ReportState,
    StageProgress,
    build_reporter,
)

PATIENCE_S = 60.0


@dataclass(slots=True)
class ControlPlane:
    url: str
    received: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """Answered first, one per request; then 204."""
    is_answering: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def control_plane() -> Iterator[ControlPlane]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert plane.is_answering.wait(PATIENCE_S)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = plane.statuses.pop(0) if plane.statuses else 204
            if status == 204:
                plane.received.append(json.loads(body))
                plane.tokens.append(self.headers["Authorization"])
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:9/")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    plane = ControlPlane(url=f"http://127.0.0.1:{server.server_address[1]}/reports/")
    plane.is_answering.set()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield plane
    server.shutdown()
    server.server_close()


def progress(done: int) -> OperationReport:
    state = ReportState.PROGRESS
    return OperationReport(operation_id="7", state=state, progress=Progress(done, 40, "rounds"))


STAGE = StageProgress(id=1, name="", state="running", tasks=4, done=1)
SUCCEEDED = OperationReport(operation_id="7", state=ReportState.SUCCEEDED, outcome={"instant": "1"})


def test_reports_arrive_in_order_with_the_worker_token(control_plane: ControlPlane) -> None:
    reporter = HttpReporter(control_plane.url, token="sesame")

    reporter.send(OperationReport(operation_id="7", state=ReportState.RUNNING, pid=4711))
    reporter.send(progress(1))
    reporter.send(SUCCEEDED)
    reporter.close()

    assert [message["state"] for message in control_plane.received] == [
        "running",
        "progress",
        "succeeded",
    ]
    assert control_plane.received[0]["pid"] == 4711
    assert control_plane.received[1]["progress"] == {"done": 1, "total": 40, "unit": "rounds"}
    assert control_plane.received[2]["outcome"] == {"instant": "1"}
    assert set(control_plane.tokens) == {"Worker sesame"}


def test_final_report_is_tried_again_and_progress_is_not(control_plane: ControlPlane) -> None:
    reporter = HttpReporter(control_plane.url, token="")
    control_plane.statuses = [503, 503]

    reporter.send(progress(1))
    reporter.send(SUCCEEDED)
    deadline = time.monotonic() + PATIENCE_S
    while not control_plane.received:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    reporter.close()

    assert [message["state"] for message in control_plane.received] == ["succeeded"]


def test_what_only_an_older_progress_says_is_not_lost_with_it(
    control_plane: ControlPlane,
) -> None:
    reporter = HttpReporter(control_plane.url, token="")
    control_plane.is_answering.clear()
    reporter.send(OperationReport(operation_id="7", state=ReportState.RUNNING))
    while not reporter.is_sending:
        time.sleep(0.001)
    settled = OperationReport(
        operation_id="7", state=ReportState.PROGRESS, message="settled", settled={"offsets": "3-9"}
    )

    reporter.send(settled)
    reporter.send(replace(progress(1), instant="20250101000000000", message="begun"))
    reporter.send(replace(progress(2), stages=(STAGE,)))
    control_plane.is_answering.set()
    reporter.close()

    [_, last] = control_plane.received
    assert last["progress"]["done"] == 2
    assert (last["settled"], last["message"]) == ({"offsets": "3-9"}, "begun")
    assert last["instant"] == "20250101000000000"
    assert [stage["tasks"] for stage in last["stages"]] == [4]


def test_redirect_is_not_followed_with_the_token(control_plane: ControlPlane) -> None:
    reporter = HttpReporter(control_plane.url, token="sesame")
    control_plane.statuses = [302]

    reporter.send(progress(1))
    reporter.close()

    assert control_plane.received == []
    assert reporter.dropped == 1


def test_control_plane_that_hangs_never_holds_the_writer(
    control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    """The first report is still on its way when the last one is sent: the others fill the queue."""
    reporter = HttpReporter(control_plane.url, token="", queue_max=3, timeout_s=PATIENCE_S)
    control_plane.is_answering.clear()

    with caplog.at_level(logging.WARNING):
        for done in range(50):
            reporter.send(OperationReport(operation_id=str(done), state=ReportState.PROGRESS))
    reporter.close(wait_s=0.1)
    control_plane.is_answering.set()

    assert caplog.text.count("reason=the queue is full") >= 46
    assert control_plane.received == []


def test_absent_control_plane_costs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    reporter = HttpReporter("http://127.0.0.1:9/", token="", timeout_s=0.2)

    with caplog.at_level(logging.WARNING):
        reporter.send(SUCCEEDED)
        reporter.close(wait_s=0.2)

    reporter.send(SUCCEEDED)
    assert reporter.dropped >= 0


def test_nobody_to_report_to_is_silence() -> None:
    reporter = build_reporter(None, "7", {})

    reporter.send(SUCCEEDED)
    reporter.close()
