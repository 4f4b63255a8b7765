"""Operations of every kind through four Celery workers, of which a random one is killed every five
seconds: each effect is there exactly once, and none is unsettled a minute after its worker died.

Real PostgreSQL, Redis, Kafka, web process and workers. Half of the operations are small writes by
Arrow, a kind of the test's own (`arrow_kind.py`); the rest are table services, rollbacks, and dead
letters that are sent again. What each was to do is kept by the test (`asking.py`), and storage
alone is held against it (`oracle.py`): our reader and hudi-rs, the commits that carry an
operation's id, the topic of the letters; then the states, the audit and the counts of the node.

Planted in 300 operations, each was seen: nothing is sent again (`settling._send_again`: open after
60 s); what storage does not show is settled as done (`settled_by_storage`: rows are lost); a write
that comes again does not look whether the one before it committed (`arrow_task`: two commits of one
operation). That two may be at one job (`hold_run_lock`) was not: the second one finds the
effect of the first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.engine import ROOT
from bench.support.postgres import postgres_cluster
from bench.support.redis_server import redis_server
from tests.controlplane.kills.processes import environment_of
from workers.sink.kafka.broker import Broker

SEED = int(os.environ["SLUICE_TEST_SEED"])
"""Chosen in `tests/conftest.py`, and printed at the head of a run."""


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize(
    ("operations", "kill_every_s"),
    [
        (300, 5.0),
        pytest.param(10_000, 5.0, marks=pytest.mark.soak),
        pytest.param(1_500, 2.0, marks=pytest.mark.soak),
    ],
)
def test_each_effect_is_there_once_whoever_is_killed(
    operations: int, kill_every_s: float, kafka: Broker, tmp_path: Path
) -> None:
    """A line with the figures of the run stands in its output."""
    orders = {
        "folder": str(tmp_path),
        "operations": operations,
        "seed": SEED,
        "kill_every_s": kill_every_s,
        "bootstrap": kafka.bootstrap,
    }
    with postgres_cluster() as database, redis_server("of-the-test") as redis:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.controlplane.kills.conduct"],
            input=json.dumps(orders),
            cwd=ROOT,
            env=environment_of(tmp_path, database, redis.address),
            capture_output=True,
            text=True,
            check=False,
            timeout=300 + operations,
        )

    sys.stdout.write(ended.stdout)
    assert ended.returncode == 0, f"seed {SEED}: {ended.stderr[-12_000:]}"
