"""Start the driver program of a sink, detached, and report its process.

The driver lives longer than any task. Its process shows whether it runs, and its state is stored
next to the table.
"""

from __future__ import annotations

import os
from typing import Any

from celery import shared_task

from workers.jobs import SinkJob
from workers.tasks.launch import launch_driver
from workers.tasks.signed_task import SignedTask


@shared_task(base=SignedTask, name=SinkJob.TASK, acks_late=True)
def launch_sink(message: dict[str, Any]) -> None:
    """Run a SinkJob; see `launch_driver`."""
    launch_driver(SinkJob.from_message(message), os.environ)
