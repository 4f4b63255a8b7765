"""The example of docs/stop-points.md does what the page says, to the letter."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_example_of_the_page_on_stop_points_runs_as_described() -> None:
    page = (REPOSITORY / "docs" / "stop-points.md").read_text()
    [script] = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    # The page says where `make setup` puts Python; a test may run under another.
    script = script.replace(".venv/bin/python", sys.executable)

    ran = subprocess.run(
        ["bash", "-euc", script],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    fast, slow = (
        next(line for line in ran.stdout.splitlines() if line.startswith(name))
        for name in ("fast", "slow")
    )
    assert fast.startswith("fast Committed(")
    assert slow.startswith("slow Conflicted(")
    assert "rival_writer='fast'" in slow
    assert "00000000-0000-0000-0000-000000000000-0" in slow
    assert ran.stdout.count("[{'id': 1, 'city': 'Bergen'}]") == 2
