"""What the gate accepts, and what its report of a run keeps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate import REPOSITORY, UNSTABLE_MAX, Gate
from tests.support.run_report import REPORT, Failure, RunReport

FAILURE = Failure("tests/test_x.py::test_y", "assert 1 == 2", is_process=True)


def test_gate_without_failures_passes() -> None:
    assert Gate(reports={"test": RunReport(passed=3)}).has_passed


@pytest.mark.parametrize("gate", [Gate(failed=[FAILURE]), Gate(broken_steps=["make check"])])
def test_failed_test_or_step_fails_the_gate(gate: Gate) -> None:
    assert not gate.has_passed


@pytest.mark.parametrize("count", [UNSTABLE_MAX, UNSTABLE_MAX + 1])
def test_more_than_three_unstable_tests_fail_the_gate(count: int) -> None:
    assert Gate(unstable=[FAILURE] * count).has_passed == (count == UNSTABLE_MAX)


def test_failure_that_is_no_process_test_does_not_run_again() -> None:
    failure = Failure("tests/no_such_file.py::test_y", "assert 1 == 2")
    gate = Gate(reports={"test": RunReport(failures=[failure])})

    gate.repeat_process_tests()

    assert (gate.failed, gate.unstable) == ([failure], [])


def test_verdict_names_each_failure_with_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    Gate(reports={"test": RunReport(passed=2, skipped=1)}, failed=[FAILURE]).print_verdict()

    shown = capsys.readouterr().out.splitlines()
    assert f"failed: {FAILURE.test}" in shown
    assert f"    {FAILURE.error}" in shown
    assert shown[-1] == "gate: 2 passed, 1 failed, 1 skipped"


@pytest.mark.slow
def test_report_names_a_file_that_cannot_be_collected(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    command = [sys.executable, "-c", _RUN_WITH_REPORT, str(path), str(tmp_path / "test_broken.py")]
    (tmp_path / "test_broken.py").write_text("import no_such_module\n")

    subprocess.run(command, cwd=REPOSITORY, capture_output=True, timeout=120, check=False)

    [failure] = RunReport.read(path).failures
    assert failure.test.endswith("test_broken.py")
    assert "no_such_module" in failure.error or "ImportError" in failure.error


def test_report_counts_and_shortens(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    (tmp_path / "test_three.py").write_text(
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): assert 1 == 2, 'the reason\\nand more'\n"
        "def test_c(): pytest.skip('not here')\n"
    )
    command = [sys.executable, "-c", _RUN_WITH_REPORT, str(path), str(tmp_path / "test_three.py")]

    subprocess.run(command, cwd=REPOSITORY, capture_output=True, timeout=120, check=False)

    report = RunReport.read(path)
    assert (report.passed, report.skipped) == (1, 1)
    assert [failure.error for failure in report.failures] == ["AssertionError: the reason"]


_RUN_WITH_REPORT = f"""
import os, sys, pytest
from tests.support.run_report import ReportWriter
from pathlib import Path
os.environ.pop("{REPORT}", None)
arguments = ["-p", "no:cacheprovider", "-p", "no:django", "-c", os.devnull, sys.argv[2]]
sys.exit(pytest.main(arguments, plugins=[ReportWriter(Path(sys.argv[1]))]))
"""
