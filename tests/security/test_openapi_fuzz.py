"""Requests of every kind that the OpenAPI document allows, and of kinds that it does not, by every
role on PostgreSQL. No answer is a fault of ours, each is one that the document lists and has its
form, and none holds anything of a table, or of rows, that the role may not see.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.support.postgres import programs

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(programs() is None, reason="PostgreSQL's server programs are missing"),
]


def fuzz(*words: str, timeout_s: int) -> str:
    """What `python -m tests.openapi_fuzz` prints; a fault fails the test."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.openapi_fuzz", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-4000:]
    return ended.stdout


@pytest.mark.slow
def test_sample_of_requests_ends_in_no_fault_and_shows_nothing_of_other_tables() -> None:
    output = fuzz("400", "--addresses", "25", timeout_s=280)

    assert "0 faults" in output


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_20000_requests_end_in_no_fault_and_show_nothing_of_other_tables() -> None:
    output = fuzz("20000", timeout_s=7000)

    [marks] = [line for line in output.splitlines() if line.startswith("answers with marks")]
    assert "0 faults" in output
    assert ": 0" not in marks, "no role was shown what this searches for"
