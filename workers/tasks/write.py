"""Start the driver program of a write, detached, and report its process."""

from __future__ import annotations

import os
from typing import Any

from celery import shared_task

from workers.jobs import WriteJob
from workers.tasks.launch import launch_driver
from workers.tasks.signed_task import SignedTask


@shared_task(base=SignedTask, name=WriteJob.TASK, acks_late=True)
def launch_write(message: dict[str, Any]) -> None:
    """Run a WriteJob; see `launch_driver`."""
    launch_driver(WriteJob.from_message(message), os.environ)
