"""The set `install`: from the wheel to the first commit in an empty environment.

Packages come from the cache of pip: a first round that is not counted fills it. The index is still
asked which versions there are.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.engine import ROOT, JobFailed
from bench.lines import Goal, Line
from workers.clock import SystemClock

_ROUNDS: Final = 3
_GOAL: Final = Goal(60, " s", is_least=False)
_LIMIT: Final = "(a limit)"
_PROGRAM: Final = """
import pyarrow as pa
from sluice import Committed, create_table

rows = pa.table({"id": ["a"], "at": [1]})
table = create_table("t", name="t", schema=rows.schema, record_key=["id"], ordering=["at"])
assert isinstance(table.write(rows), Committed)
"""


def install(folder: Path) -> Iterator[Line]:
    """Measure the engine alone. Raises JobFailed if it is not installed or does not commit."""
    build = folder / "wheel"
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(build), cwd=ROOT)
    [wheel] = build.glob("*.whl")
    _measure(folder / "warm", wheel)
    seconds = [_measure(folder / f"round-{number}", wheel) for number in range(_ROUNDS)]
    value = statistics.median(seconds)
    details = {"runs": _ROUNDS, "min_s": min(seconds), "max_s": max(seconds)}
    yield Line("pip install to the first commit", _LIMIT, value, None, value, _GOAL, details)


def _measure(place: Path, wheel: Path) -> float:
    place.mkdir(parents=True)
    clock = SystemClock()
    begun_s = clock.monotonic_s()
    venv.create(place / "environment", with_pip=False, symlinks=True)
    python = str(place / "environment" / "bin" / "python")
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    _run(*pip, "install", "--quiet", str(wheel), cwd=place)
    _run(python, "-I", "-c", _PROGRAM, cwd=place)
    taken_s = clock.monotonic_s() - begun_s
    shutil.rmtree(place)
    return taken_s


def _run(*words: str, cwd: Path) -> None:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise JobFailed(f"{' '.join(words[:4])} failed: {done.stderr.strip()[-500:]}")
