"""Celery's side of the mirror. It has a queue and processes of its own, so that neither the work on
tables nor the settling of operations waits for it, nor it for them.
"""

from __future__ import annotations

from controlplane.celery import app
from controlplane.mirror.measuring import measure_round
from controlplane.mirror.rounds import sync_round


@app.task(name="controlplane.mirror.sync_tables")
def sync_tables() -> None:
    sync_round()


@app.task(name="controlplane.mirror.measure_streams")
def measure_streams() -> None:
    measure_round()
