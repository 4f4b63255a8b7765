"""Peak memory of a process that compacts one large file group."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from bench.engine import JobFailed, driver_environment
from bench.lines import Goal, Line
from bench.workloads import Bench

BASE_FILE_MB: Final = 120


def compaction_memory(bench: Bench) -> Iterator[Line]:
    """One process makes the table, another compacts it and says what it held at most."""
    table = bench.table("large-group")
    _large_group("make", table)
    said = json.loads(_large_group("compact", table))
    name = f"compaction, peak memory, {said['base_mb']:.0f} MB file group"
    limit = Goal(600, " MB", is_least=False)
    yield Line(name, "(a limit)", said["seconds"], None, said["peak_mb"], limit)


def _large_group(step: str, table: str) -> str:
    done = subprocess.run(
        [*(sys.executable, "-m", "bench.drivers.large_group"), step, table, str(BASE_FILE_MB)],
        env=driver_environment(),
        stdout=subprocess.PIPE,
        check=False,
        text=True,
    )
    if done.returncode:
        raise JobFailed(f"a large file group: {step} failed")
    return done.stdout
