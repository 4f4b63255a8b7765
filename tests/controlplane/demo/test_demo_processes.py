"""What the demo adds to a node: two processes without secrets, which wait until it starts them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.demo.processes import processes
from controlplane.node.additions import additions
from controlplane.node.doctor import Surroundings, examine
from controlplane.node.identity import Identity, write_identity
from controlplane.node.places import PROJECT, Places
from controlplane.node.secrets_file import ensure_secrets
from controlplane.node.supervision import settings_text

IDENTITY = Identity(
    node="n1", web_port=8000, spark_port=15002, marker_port=8766, sockets="/tmp/sluice-x"
)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(home=tmp_path / "home")


def test_broker_and_orders_get_no_secret_and_wait_for_the_demo(places: Places) -> None:
    [addition] = additions()

    added = addition.processes(places)

    assert [(process.name, dict(process.secrets)) for process in added] == [
        ("kafka", {}),
        ("orders", {}),
    ]
    assert addition.name == "demo"
    assert not any(process.starts_with_node for process in added)
    assert settings_text(places, IDENTITY, added).count("-m controlplane.demo.launch ") == 2


def test_launcher_becomes_the_process_that_names_it(places: Places) -> None:
    places.create()
    write_identity(places.identity, IDENTITY)
    ensure_secrets(places.secrets)

    for process in processes(places):
        done = subprocess.run(
            [sys.executable, "-m", process.launcher, process.name],
            env={"SLUICE_HOME": str(places.home), "PYTHONPATH": str(PROJECT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

        assert f"the demo's broker has no ports yet: directory={places.home}/kafka" in done.stderr


@pytest.mark.django_db
def test_doctor_tells_of_the_demos_kafka_and_misses_nothing_without_it(places: Places) -> None:
    around = Surroundings(
        environ={}, places=places, identity=None, is_running=True, free_bytes=lambda path: 2**40
    )

    [kafka] = [finding for finding in examine(around) if finding.name == "demo's kafka"]

    assert kafka.is_fine
    assert "is fetched when the demo first starts" in kafka.line
