"""Work in a process with limits ends with the process that asked for it, and imports little."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from workers.bounded_process import ProcessLimits, run_bounded

CHILD = "workers.sql.child"
DRIVER = f"""
import os
from workers.bounded_process import ProcessLimits, run_bounded

text = "SELECT count(*) AS n FROM range(1000000000000) WHERE range % 7 = 9"
job = {{"text": text, "names": ["n"], "tables": [], "rows_max": 1, "file": os.devnull}}
limits = ProcessLimits(wall_s=60, cpu_s=60)
run_bounded("{CHILD}", job, limits=limits, work="the statement", environ=os.environ)
"""


@pytest.mark.slow
def test_process_ends_with_the_group_of_the_driver_that_started_it() -> None:
    """As a write is cancelled: `workers.spark.process.kill_driver`."""
    with subprocess.Popen([sys.executable, "-c", DRIVER], start_new_session=True) as driver:
        try:
            child = _child_of(psutil.Process(driver.pid))
        finally:
            os.killpg(driver.pid, signal.SIGKILL)

    gone, alive = psutil.wait_procs([child], timeout=30)
    assert (gone, alive) == ([child], [])


def test_process_makes_arrays_of_lists_without_pandas() -> None:
    """Arrow would import it, for half a second of each statement and each page of rows."""
    answer = run_bounded(
        "tests.support.listing_child", {}, limits=ProcessLimits(), work="it", environ=os.environ
    )

    assert answer.head == {"has_pandas": False}


def _child_of(driver: psutil.Process) -> psutil.Process:
    while True:
        for process in driver.children():
            if CHILD in process.cmdline():
                return process
        assert driver.is_running()
        time.sleep(0.05)
