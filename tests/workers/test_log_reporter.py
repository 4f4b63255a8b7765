"""A log is reported from its file: late, in order, without a hole, and never in anybody's way."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.support.crash_ports import StillClock
from workers.clock import Clock
from workers.errors import InvalidInput
from workers.jobs import ServiceJob
from workers.masking import Masker
from workers.reporting import OperationReport, RecordingReporter, ReportState
from workers.reporting.http import ReportRejected
from workers.reporting.log_reporter import LogReporter
from workers.reporting.task_log import LoggedReporter, capture_task_log

PATIENCE_S = 60.0
_log = logging.getLogger("workers.tests")


@dataclass
class Plane:
    """Takes reports, once it stops failing."""

    failures: list[Exception] = field(default_factory=list)
    is_away: bool = False
    refusals: int = 0
    bodies: list[Mapping[str, Any]] = field(default_factory=list)

    def send(self, body: Mapping[str, Any]) -> None:
        if self.is_away:
            self.refusals += 1
            raise OSError("away")
        if self.failures:
            raise self.failures.pop(0)
        self.bodies.append(body)

    @property
    def messages(self) -> list[str]:
        return [line["message"] for body in self.bodies for line in body["lines"]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "worker-0.log"


def reporter(path: Path, plane: Plane, clock: Clock | None = None) -> LogReporter:
    return LogReporter(path, plane.send, {"host": "here"}, Masker(), clock=clock, every_s=0.01)


def append(path: Path, *messages: str) -> None:
    with path.open("a") as log:
        log.writelines(f"{message}\n" for message in messages)


def await_true(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def until(plane: Plane, count: int) -> None:
    await_true(lambda: len(plane.messages) >= count)


def test_lines_are_reported_while_the_process_goes_on(path: Path) -> None:
    plane = Plane()
    reporting = reporter(path, plane)
    append(path, "one", "two")
    until(plane, 2)
    append(path, "three")
    until(plane, 3)
    reporting.close()

    assert plane.messages == ["one", "two", "three"]
    assert plane.bodies[0]["host"] == "here"


def test_an_outage_loses_nothing(path: Path) -> None:
    plane = Plane(failures=[OSError("away"), HTTPException("status=503"), OSError("away")])
    append(path, *(str(number) for number in range(500)))
    reporting = reporter(path, plane)
    until(plane, 500)
    reporting.close()

    assert plane.messages == [str(number) for number in range(500)]


def test_a_control_plane_that_is_away_holds_nobody(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plane, clock = Plane(is_away=True), StillClock()
    append(path, "one")
    reporting = reporter(path, plane, clock)
    await_true(lambda: plane.refusals > 0)

    began_s = clock.monotonic_s()
    reporting.close(wait_s=PATIENCE_S)

    assert clock.monotonic_s() - began_s < 3
    assert "the end of this log was not reported" in caplog.text
    assert caplog.text.count("this log is not taken at the moment") == 1


def test_what_is_refused_is_not_sent_for_ever_and_its_loss_is_said(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plane = Plane(failures=[ReportRejected("status=400")])
    append(path, "one", "two")
    reporting = reporter(path, plane)
    await_true(lambda: not plane.failures)
    append(path, "three")
    until(plane, 1)
    reporting.close()

    assert plane.messages == ["three"]
    assert "2 lines of this log were refused and are lost" in caplog.text


def job(tmp_path: Path, **more: Any) -> ServiceJob:
    return ServiceJob(
        operation_id="7", table="/lake/t", service="clean", by="ada", attempt=2,
        run_dir=str(tmp_path / "run"), **more,
    )  # fmt: skip


def connect(tmp_path: Path) -> None:
    environment = {"SLUICE_KAFKA_PASSWORD": "c4nary-password"}
    with capture_task_log(job(tmp_path), "worker", environment):
        _log.info("connecting with c4nary-password")
        raise InvalidInput("no such thing")


def test_what_a_task_logs_stands_in_the_file_of_its_attempt(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        connect(tmp_path)
    _log.info("after it")

    text = (tmp_path / "run" / "worker-2.log").read_text()
    assert " INFO workers.tests connecting with ***" in text
    assert "c4nary" not in text
    assert "after it" not in text


def test_a_task_runs_without_a_place_for_its_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "run").write_text("a file where the directory should be")

    with capture_task_log(job(tmp_path), "worker", {}):
        done = True

    assert done
    assert "no log is kept: operation=7" in caplog.text


def test_reports_are_told_once_progress_seldom_and_no_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, sent = StillClock(), RecordingReporter()
    reporting = LoggedReporter(sent, _log, Masker(["c4nary-value"]), clock)

    with caplog.at_level(logging.INFO):
        for at in range(25):
            clock.sleep(1)
            reporting.send(said(ReportState.RUNNING, "at work"))
            reporting.send(said(ReportState.PROGRESS, f"round {at}"))
        reporting.send(said(ReportState.FAILED, "login with c4nary-value"))

    logged = [record.getMessage() for record in caplog.records]
    assert [text for text in logged if text.startswith("progress")] == [
        "progress: round 0", "progress: round 10", "progress: round 20",
    ]  # fmt: skip
    assert logged[-1] == "failed: login with ***"
    assert sent.reports[-1].message == "login with ***"
    assert len(sent.reports) == 51


def said(state: ReportState, message: str) -> OperationReport:
    return OperationReport(operation_id="7", state=state, message=message)
