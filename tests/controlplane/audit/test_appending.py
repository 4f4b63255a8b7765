"""Concurrent writers make one chain without a fork or a gap, and none waits for ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.support.postgres import postgres_cluster

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("appending.py")
THREADS, ROUNDS = 4, 8


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "db.sqlite3")
    else:
        with postgres_cluster() as address:
            yield address


@pytest.mark.slow
def test_writers_at_the_same_time_make_one_chain(database: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), str(THREADS), str(ROUNDS)],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "controlplane.settings.prod",
            "PYTHONPATH": str(ROOT),
            "SLUICE_HOME": str(tmp_path),
            "SLUICE_DATABASE": database,
            "SLUICE_SECRET_KEY": "of-a-test",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert ended.returncode == 0, ended.stderr[-3000:]
    assert json.loads(ended.stdout) == {
        "rows": 2 * THREADS * ROUNDS,
        "through": 2 * THREADS * ROUNDS,
        "problem": "",
        "waiting": 0,
        "what": ["alone", "within"],
    }
    assert "deadlock" not in ended.stderr
    assert "are not chained yet" not in ended.stderr
