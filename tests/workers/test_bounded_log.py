"""A process that prints without end does not fill the disk: its log keeps how it began and how it
goes on.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from workers.ports import system_ports
from workers.reporting.bounded_log import LogBounds, bound_log, cut_middle

BOUNDS = LogBounds(maximum=256 << 10, head=16 << 10, tail=32 << 10)
PRINTING = """
import os, time
for number in range(60_000):
    print(f"line {number}." + "x" * 90)
    deadline = time.monotonic() + 60
    while number % 6_000 == 0 and os.fstat(1).st_blocks * 512 > 1_000_000:
        assert time.monotonic() < deadline, "the log was not cut"
        time.sleep(0.02)
"""
"""Waits for the log to be cut, so that it is cut while lines come."""


def on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


@pytest.mark.slow
def test_log_of_a_process_that_prints_without_end_keeps_its_two_ends(tmp_path: Path) -> None:
    path, largest = tmp_path / "driver.log", 0
    with path.open("ab") as log, bound_log(path, system_ports().scheduler, BOUNDS):
        process = subprocess.Popen([sys.executable, "-uc", PRINTING], stdout=log)
        while process.poll() is None:
            largest = max(largest, on_disk(path))
            time.sleep(0.02)
    cut_middle(path, BOUNDS)
    written = path.read_bytes()

    assert process.returncode == 0
    assert len(written) > 6_000_000
    assert largest < 5_000_000
    assert on_disk(path) <= BOUNDS.maximum
    assert written.startswith(b"line 0.")
    assert written.endswith(b"line 59999." + b"x" * 90 + b"\n")
    assert b" bytes were cut here: this log keeps its first 16384" in written[: 20 << 10]


def test_short_log_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    path.write_bytes(b"line\n" * 40_000)

    assert cut_middle(path, BOUNDS) == 0
    assert path.read_bytes() == b"line\n" * 40_000
