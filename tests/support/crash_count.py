"""How many distinct crash cases a run tried: said at its end, and too few of them fail it."""

from __future__ import annotations

import pytest

CASES = "crash cases"
"""The property by which a test reports the digests of its cases."""
SUITE_TESTS = "crash suite tests"
"""The property by which each test of the full suite reports how many tests that has."""
CASES_LEAST = 20_000
"""Of all tests of the suite; of a part as many as the part is of the whole."""
DRAWN_EVERY = 4
"""Of so many tests of the suite `make longer` draws one. Fewer are somebody's choice, and only
counted.
"""


class CrashCount:
    """A plugin of the process that collects the reports."""

    def __init__(self) -> None:
        self._cases: set[str] = set()
        self._suite_passed = 0
        self._suite_tests = 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" or not report.passed:
            return
        for name, value in report.user_properties:
            if name == CASES:
                self._cases.update(value)  # type: ignore[arg-type]
            elif name == SUITE_TESTS:
                self._suite_passed += 1
                self._suite_tests = value  # type: ignore[assignment]

    @property
    def cases_least(self) -> int:
        passed = min(self._suite_passed, self._suite_tests)
        if passed * DRAWN_EVERY < self._suite_tests:
            return 0
        return CASES_LEAST * passed // self._suite_tests

    @property
    def is_too_few(self) -> bool:
        return len(self._cases) < self.cases_least

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.is_too_few:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._cases:
            return
        terminalreporter.write_line(f"crash cases: {len(self._cases):,} distinct")
        if self.is_too_few:
            terminalreporter.write_line(
                f"the crash suite must try at least {self.cases_least:,} distinct cases", red=True
            )
