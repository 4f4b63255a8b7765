"""Start the driver program of a sink, detached, and say which process it is. It outlives any task:
whether it lives is looked up, and what it does stands beside the table.
"""

from __future__ import annotations

import os
from typing import Any

from celery import shared_task

from workers.jobs import SinkJob
from workers.tasks.launching import launch_driver
from workers.tasks.signed import SignedTask


@shared_task(base=SignedTask, name=SinkJob.TASK, acks_late=True)
def launch_sink(message: dict[str, Any]) -> None:
    """Celery task for a SinkJob; see `launch_driver`."""
    launch_driver(SinkJob.from_message(message), os.environ)
