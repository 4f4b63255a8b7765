"""The marker server stands still for a while: its callers wait, try again, and lose nothing."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.workers.markers.harness import INSTANT, ServerProcess, new_table
from workers.clock import SystemClock
from workers.markers import IOType, Marker, open_markers, read_markers

pytestmark = pytest.mark.process

CALLS = 2_000
PAUSE_S = 5.0


@pytest.mark.slow
def test_d10_2000_calls_over_a_pause_of_five_seconds_lose_nothing_and_fail_nobody(
    own_server: ServerProcess,
) -> None:
    own_server.start()
    storage = new_table(own_server.root)
    markers = open_markers(own_server.settings(storage), storage, INSTANT)
    wanted = [Marker("p=1", f"f{number}.parquet", IOType.CREATE) for number in range(CALLS)]

    with ThreadPoolExecutor(200) as threads:
        created = threads.map(markers.create, wanted)
        os.kill(own_server.pid, signal.SIGSTOP)
        SystemClock().sleep(PAUSE_S)
        os.kill(own_server.pid, signal.SIGCONT)
        answers = list(created)

    assert answers == ["created"] * CALLS
    assert read_markers(storage, INSTANT) == tuple(sorted(wanted))
