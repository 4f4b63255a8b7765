"""The supervisor itself, with processes of a test."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from controlplane.node.identity import Identity
from controlplane.node.living import supervisor_pid
from controlplane.node.places import Places
from controlplane.node.processes import Process
from controlplane.node.supervision import settings_text, start_supervisor
from tests.support.ending_together import NAMES

pytestmark = pytest.mark.process


def test_processes_end_at_the_same_time(tmp_path: Path) -> None:
    places = Places(tmp_path / "home")
    places.create()
    with tempfile.TemporaryDirectory(prefix="sluice-") as sockets:
        identity = Identity("n1", web_port=1, spark_port=2, marker_port=3, sockets=sockets)
        first = Process(
            NAMES[0], (), {}, tmp_path, stop_wait_s=5, launcher="tests.support.ending_together"
        )
        processes = [first, replace(first, name=NAMES[1])]
        places.supervisor_settings.write_text(settings_text(places, identity, processes))
        supervisor = start_supervisor(places, identity)
        pid = supervisor_pid(places)
        assert pid is not None
        try:
            _wait_for(places, "runs")
            supervisor.stop_processes([*NAMES, "unknown"])
            states = [state.state for state in supervisor.states().values()]
        finally:
            supervisor.shut_down()
            psutil.Process(pid).wait(60)

    assert states == ["STOPPED", "STOPPED"]
    assert all((places.home / f"{name}.ended").exists() for name in NAMES)


def _wait_for(places: Places, what: str) -> None:
    deadline_s = time.monotonic() + 60
    while not all((places.home / f"{name}.{what}").exists() for name in NAMES):
        assert time.monotonic() < deadline_s, (places.log / f"{NAMES[0]}.log").read_text()
        time.sleep(0.02)
