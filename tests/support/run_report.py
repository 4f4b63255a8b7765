"""Write what a run of pytest counted and which tests failed, for the program that started it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

REPORT = "SLUICE_TEST_REPORT"
"""Names the file to write. It is written when pytest ends, also when that ends early."""
PROCESS = "process"
"""Marks a test that starts real processes. Only such a test may run a second time."""
STARTING_PROCESSES = ("spark", "kafka", "browser", "interop")
"""Marks whose tests are marked `process` as well,"""
FOLDERS_STARTING_PROCESSES = (
    "tests/controlplane/kills/",
    "tests/controlplane/node/",
    "tests/controlplane/sink_resets/",
    "tests/sink/",
)
"""and folders whose tests are."""
_ERROR_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class Failure:
    """A test that failed, or a file that pytest could not collect."""

    test: str
    error: str
    is_process: bool = False


@dataclass(slots=True)
class RunReport:
    passed: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> RunReport:
        values = json.loads(path.read_text(encoding="utf-8"))
        failures = [Failure(**failure) for failure in values["failures"]]
        return cls(values["passed"], values["skipped"], failures)


class ReportWriter:
    """A plugin of the process that collects the reports."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._report = RunReport()
        self._failed = set[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._add(report, is_process=PROCESS in report.keywords)
        elif report.when == "call" and report.passed:
            self._report.passed += 1
        elif report.skipped:
            self._report.skipped += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._add(report, is_process=False)

    def _add(self, report: pytest.TestReport | pytest.CollectReport, *, is_process: bool) -> None:
        """A test that fails and whose teardown fails as well is one failure."""
        if report.nodeid in self._failed:
            return
        self._failed.add(report.nodeid)
        failure = Failure(report.nodeid, first_line_of(report), is_process)
        self._report.failures.append(failure)

    def pytest_sessionfinish(self) -> None:
        self._report.write(self._path)


def first_line_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the first line of the error, shortened."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr or "")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:_ERROR_CHARS_MAX] if lines else "no error text"


def mark_process_tests(items: Iterable[pytest.Item]) -> None:
    for item in items:
        is_in_folder = item.nodeid.startswith(FOLDERS_STARTING_PROCESSES)
        if is_in_folder or any(item.get_closest_marker(mark) for mark in STARTING_PROCESSES):
            item.add_marker(PROCESS)


def register(config: pytest.Config) -> None:
    if path := os.environ.get(REPORT):
        config.pluginmanager.register(ReportWriter(Path(path)), "run report")
