"""The gate that each submission passes: `make gate`, and `make gate-repeat` to measure its own
reliability.

Every step runs, whatever failed before it. Tests marked `process` that failed run a second time,
alone, after everything else; one that passes then is reported as unstable. No other test runs
twice. The last lines name the failed tests with the first line of each error, and the verdict.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.run_report import REPORT, Failure, RunReport

REPOSITORY = Path(__file__).resolve().parents[1]
UNSTABLE_MAX = 3
"""More unstable tests than this fail the gate."""
PYTEST_STEPS = ("test", "core")
COLLECTION = ("pytest", "--collect-only", "--quiet")
"""Compiles all modules. Each worker of `make test` would, at the same time as the others."""
BACKGROUND = (
    ("tests.support.java_options",),
    ("tests.support.kafka_jars",),
    ("tests.support.hudi_peer", "--prepare"),
    COLLECTION,
)
"""Modules that prepare what later steps use. They run next to `make check`, and leave the processor
to its type checker, which takes longest.
"""


@dataclass(slots=True)
class Gate:
    """One run of the gate: what its steps did so far."""

    reports: dict[str, RunReport] = field(default_factory=dict)
    broken_steps: list[str] = field(default_factory=list)
    """Steps that ended with an error that no test explains."""
    unstable: list[Failure] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)

    def run_step(self, name: str) -> None:
        """Run `make <name>`."""
        show_step(f"make {name}")
        if name not in PYTEST_STEPS:
            command = ["make", "--jobs=2", "--keep-going", "--output-sync=target", name]
            if subprocess.run(command, cwd=REPOSITORY, check=False).returncode != 0:
                self.broken_steps.append(f"make {name}")
            return
        report, returncode = run_pytest(["make", name])
        self.reports[name] = report
        if returncode != 0 and not report.failures:
            self.broken_steps.append(f"make {name} (exit {returncode})")

    def repeat_process_tests(self) -> None:
        """Run failed process tests again, one by one."""
        for failure in [one for report in self.reports.values() for one in report.failures]:
            if not failure.is_process:
                self.failed.append(failure)
                continue
            show_step(f"again, alone: {failure.test}")
            command = [sys.executable, "-m", "pytest", "-p", "no:xdist", failure.test]
            report, returncode = run_pytest(command)
            passed = returncode == 0 and report.passed > 0
            (self.unstable if passed else self.failed).append(failure)

    @property
    def has_passed(self) -> bool:
        return not (self.failed or self.broken_steps or len(self.unstable) > UNSTABLE_MAX)

    def print_verdict(self) -> None:
        show_step("verdict")
        for step in self.broken_steps:
            print_line(f"failed step: {step}")
        for word, failures in (("unstable", self.unstable), ("failed", self.failed)):
            for failure in failures:
                print_line(f"{word}: {failure.test}\n    {failure.error}")
        if len(self.unstable) > UNSTABLE_MAX:
            print_line(f"{len(self.unstable)} tests are unstable; the limit is {UNSTABLE_MAX}")
        passed = sum(report.passed for report in self.reports.values()) + len(self.unstable)
        skipped = sum(report.skipped for report in self.reports.values())
        failed = len(self.failed) + len(self.broken_steps)
        print_line(f"the gate has {'passed' if self.has_passed else 'failed'}")
        print_line(f"gate: {passed} passed, {failed} failed, {skipped} skipped")


def run_gate(steps: Sequence[str]) -> Gate:
    gate = Gate()
    with prepared_in_background() if "check" in steps else nullcontext():
        if "check" in steps:
            gate.run_step("check")
            if os.environ.get("SLUICE_ADVISORIES"):
                gate.run_step("advisories")
    for step in steps:
        if step in PYTEST_STEPS:
            gate.run_step(step)
    gate.repeat_process_tests()
    gate.print_verdict()
    return gate


def run_pytest(command: Sequence[str]) -> tuple[RunReport, int]:
    """Run a command that runs pytest; return its report, which is empty if pytest wrote none."""
    with tempfile.TemporaryDirectory(prefix="sluice-gate-") as folder:
        path = Path(folder) / "report.json"
        environment = {**os.environ, REPORT: str(path)}
        done = subprocess.run(command, cwd=REPOSITORY, env=environment, check=False)
        report = RunReport.read(path) if path.exists() else RunReport()
    return report, done.returncode


@contextmanager
def prepared_in_background() -> Iterator[None]:
    """Prepare what later steps use, and wait for it at the end of the block.

    A preparation that fails prints why. It fails no step: the tests that need it say what is
    missing.
    """
    started = [
        subprocess.Popen(
            ["nice", sys.executable, "-m", *words],
            cwd=REPOSITORY,
            stdout=subprocess.DEVNULL if words == COLLECTION else None,
        )
        for words in BACKGROUND
    ]
    try:
        yield
    finally:
        for process in started:
            process.wait()


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep `count` cores busy during the block."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def repeat_gate(steps: Sequence[str], *, runs: int, busy: int) -> bool:
    """Run the gate several times, every second time next to `busy` busy loops, and print a table.

    Return True if each run passed and no test was unstable twice.
    """
    rows = []
    unstable = Counter[str]()
    has_passed = True
    for number in range(1, runs + 1):
        loops = busy if number % 2 == 0 else 0
        started_at = time.monotonic()
        with busy_loops(loops):
            gate = run_gate(steps)
        minutes = (time.monotonic() - started_at) / 60
        has_passed = has_passed and gate.has_passed
        unstable.update(failure.test for failure in gate.unstable)
        tests = sum(report.passed for report in gate.reports.values())
        failed = [failure.test for failure in gate.failed] + gate.broken_steps
        unstable_here = [failure.test for failure in gate.unstable]
        rows.append(
            f"| {number} | {loops} | {minutes:.1f} | {tests} | {len(failed)} | "
            f"{len(unstable_here)} | {', '.join([*failed, *unstable_here]) or '-'} |"
        )
    show_step("repeated runs")
    print_line("| run | busy loops | minutes | passed | failed | unstable | which |")
    print_line("|---|---|---|---|---|---|---|")
    for row in rows:
        print_line(row)
    twice = [test for test, count in unstable.items() if count > 1]
    for test in twice:
        print_line(f"unstable twice: {test}")
    return has_passed and not twice


def show_step(text: str) -> None:
    print_line(f"\n== {text} ({time.monotonic() - _STARTED_AT:.0f} s)")


def print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


_STARTED_AT = time.monotonic()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gate", description=__doc__)
    parser.add_argument("--only", choices=("check", *PYTEST_STEPS), help="run this step alone")
    parser.add_argument("--runs", type=int, default=1, help="run the gate so many times")
    parser.add_argument("--busy", type=int, default=0, help="busy loops next to each second run")
    options = parser.parse_args(arguments)
    steps = [options.only] if options.only else ["check", *PYTEST_STEPS]
    if options.runs > 1:
        return int(not repeat_gate(steps, runs=options.runs, busy=options.busy))
    return int(not run_gate(steps).has_passed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
