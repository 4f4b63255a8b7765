"""A Celery application of the engine alone, for workers that run without the control plane.

`celery --app workers.celery worker --queues engine`. JSON only, no result backend: outcomes travel
as reports, and storage is the proof.
"""

from __future__ import annotations

import os

from celery import Celery
from kombu import Queue

from workers.log_lines import configure
from workers.task_logs import follow_requests
from workers.traces import configure_traces

_redis = os.environ.get("SLUICE_REDIS_URL", "").replace("unix://", "redis+socket://", 1)

app = Celery(
    "sluice-engine",
    broker=_redis or "memory://",
    task_cls="workers.task_messages:QueuedTask",
)
app.conf.update(
    accept_content=["json"],
    broker_connection_retry_on_startup=True,
    # Longer than any task runs: a message that comes back while it runs would run twice.
    broker_transport_options={"visibility_timeout": 6 * 3600},
    imports=["workers.tasks"],
    result_backend=None,
    result_serializer="json",
    task_acks_late=True,
    task_default_queue="engine",
    task_ignore_result=True,
    task_queues=[Queue("engine")],
    task_reject_on_worker_lost=True,
    task_serializer="json",
    worker_hijack_root_logger=False,
    worker_prefetch_multiplier=1,
)


def _configure() -> None:
    configure(os.environ)
    configure_traces(os.environ, "sluice-worker")


follow_requests(_configure)
