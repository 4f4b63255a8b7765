"""Celery's side of the mirror. It has a queue and processes of its own, so that neither the work on
tables nor the settling of operations waits for it, nor it for them.
"""

from __future__ import annotations

import time

from controlplane.celery import SYNC_EVERY_S, app
from controlplane.instruments import count_round
from controlplane.mirror.measuring import measure_round
from controlplane.mirror.rounds import follow_changes, sync_round
from workers.traces import span


@app.task(name="controlplane.mirror.sync_tables")
def sync_tables() -> None:
    """Read the tables that are due, then follow those that change until the next message is due."""
    began_s = time.monotonic()
    with span("mirror round") as current:
        ended = sync_round()
        current.note(
            {
                "sluice.tables.looked_at": ended.looked_at,
                "sluice.tables.synced": ended.synced,
                "sluice.tables.left": ended.left,
            }
        )
        count_round(
            looked_at=ended.looked_at,
            synced=ended.synced,
            left=ended.left,
            took_s=time.monotonic() - began_s,
        )
        follow_changes(began_s + SYNC_EVERY_S)


@app.task(name="controlplane.mirror.measure_streams")
def measure_streams() -> None:
    measure_round()
