"""The mirror and the operations on a real PostgreSQL: a cluster of its own, where one is installed.

What differs from SQLite is what is tried: migrations, row locks, partial unique constraints, JSON.
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
_CORE = (
    "tests/controlplane/audit/test_chain.py",
    "tests/controlplane/mirror/test_comparing.py",
    "tests/controlplane/mirror/test_history_counts.py",
    "tests/controlplane/mirror/test_quiet_looks.py",
    "tests/controlplane/mirror/test_rounds.py",
    "tests/controlplane/operations/test_approvals.py",
    "tests/controlplane/operations/test_lost_sinks.py",
    "tests/controlplane/operations/test_schedules.py",
    "tests/controlplane/test_read_together.py",
    "tests/controlplane/tables/test_table_changes.py",
    "tests/security/test_odd_characters.py",
)
_OTHERS = (
    "tests/controlplane/api/test_audit.py",
    "tests/controlplane/api/test_known_answers.py",
    "tests/controlplane/audit/test_audit_command.py",
    "tests/controlplane/audit/test_recording.py",
    "tests/controlplane/audit/test_verifying.py",
    "tests/controlplane/mirror/test_archive.py",
    "tests/controlplane/mirror/test_files.py",
    "tests/controlplane/mirror/test_fleet.py",
    "tests/controlplane/mirror/test_measuring.py",
    "tests/controlplane/mirror/test_sinks.py",
    "tests/controlplane/tables/test_creation.py",
    "tests/controlplane/tables/test_registration.py",
)


@pytest.fixture
def cluster() -> Iterator[str]:
    with postgres_cluster() as address:
        yield address


@pytest.mark.slow
@pytest.mark.parametrize("files", [_CORE, _OTHERS], ids=["core", "others"])
def test_the_same_tests_pass_on_postgresql(cluster: str, files: tuple[str, ...]) -> None:
    environment = {**os.environ, "SLUICE_TEST_DATABASE": cluster}

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--create-db", *files],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    assert "skipped" not in ended.stdout


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
