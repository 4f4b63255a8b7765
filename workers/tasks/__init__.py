"""Celery tasks: each decodes a message, calls the engine and sends reports. All are idempotent."""

from __future__ import annotations

from workers.tasks.cancel import cancel_write
from workers.tasks.launch import launch_sink, launch_write
from workers.tasks.replay import replay_letters
from workers.tasks.rollback import rollback
from workers.tasks.table_service import run_service

__all__ = [
    "cancel_write",
    "launch_sink",
    "launch_write",
    "replay_letters",
    "rollback",
    "run_service",
]
