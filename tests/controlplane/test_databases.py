"""The control plane's tests run on PostgreSQL, a fixed share of them on SQLite as well. And what
only PostgreSQL has: connections that requests share.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.support.postgres import postgres_cluster

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
_ON_SQLITE = (
    "tests/controlplane/audit/test_chain.py",
    "tests/controlplane/mirror/test_comparing.py",
    "tests/controlplane/operations/test_schedules.py",
    "tests/controlplane/tables/test_table_changes.py",
    "tests/security/test_odd_characters.py",
    "tests/web/test_busy_database.py",
)
"""Where SQLite is asked by other statements, or has another behaviour, than PostgreSQL."""


@pytest.fixture
def cluster() -> Iterator[str]:
    with postgres_cluster() as address:
        yield address


@pytest.mark.slow
def test_a_fixed_share_of_the_tests_passes_on_sqlite() -> None:
    environment = {**os.environ, "SLUICE_TEST_DATABASE": ":memory:"}

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *_ON_SQLITE],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]


@pytest.mark.slow
def test_many_requests_at_once_share_a_bounded_number_of_connections(
    cluster: str, tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.prod",
        "SLUICE_DATABASE": cluster,
        "SLUICE_DATABASE_POOL": "6",
        "SLUICE_HOME": str(tmp_path),
        "SLUICE_SECRET_KEY": "of-a-test",
    }

    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.pooled_requests"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout)
    assert seen["statuses"] == [200]
    assert 1 <= seen["backends"] <= 6
