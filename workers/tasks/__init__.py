"""Celery adapters: a message in, one call of the engine, reports out. All are safe to run twice.

`carry_out_...` is what a task does once the job is its own, for a process that is no worker.
"""

from __future__ import annotations

from workers.tasks.cancel import cancel_write
from workers.tasks.replay import replay_letters
from workers.tasks.rollback import carry_out_rollback, rollback
from workers.tasks.sink import launch_sink
from workers.tasks.table_service import carry_out_service, run_service
from workers.tasks.write import launch_write

__all__ = [
    "cancel_write",
    "carry_out_rollback",
    "carry_out_service",
    "launch_sink",
    "launch_write",
    "replay_letters",
    "rollback",
    "run_service",
]
