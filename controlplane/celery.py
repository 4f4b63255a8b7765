"""The Celery application: JSON only, no result backend, and the schedule of the control plane's own
tasks.

Each queue has processes of its own, so that none of them waits for another: `engine` carries jobs
out, `control` settles operations and watches the marker server, `mirror` reads table storage,
`messages` sends word of alerts.
Engine work goes to its queue by task name, so that a bigger installation can run those workers
elsewhere with nothing of Django beside them.
"""

from __future__ import annotations

import logging.config
import os

from celery import Celery
from django.conf import settings
from kombu import Queue

from workers.log_lines import log_uncaught
from workers.task_logs import follow_requests
from workers.traces import configure_traces

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.prod")
# Django's checks of the code import every page: a third of a worker's start, and 50 MB.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

QUEUES = ("control", "engine", "mirror", "messages")
SYNC_EVERY_S = 1.0
RECONCILE_EVERY_S = 5.0
SUPERVISE_EVERY_S = 2.0
MEASURE_EVERY_S = 5.0
SERVICES_EVERY_S = 10.0
SCHEDULES_EVERY_S = 5.0
AUDIT_EVERY_S = 60.0
JUDGE_EVERY_S = 10.0
SEND_EVERY_S = 5.0
HOUR_S = 3600.0

app = Celery("sluice", task_cls="workers.task_messages:QueuedTask")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    task_serializer="json",
    result_serializer="json",
    accept_content=["json"],
    result_backend=None,
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    # Longer than any task runs: a message that comes back while it runs would run twice.
    broker_transport_options={"visibility_timeout": 6 * 3600, "socket_timeout": 30},
    task_default_queue="control",
    task_queues=[Queue(name) for name in QUEUES],
    task_routes={
        "workers.tasks.*": {"queue": "engine"},
        "controlplane.mirror.*": {"queue": "mirror"},
        "controlplane.monitoring.messages.*": {"queue": "messages"},
    },
    imports=["workers.tasks"],
    beat_schedule={
        name: {"task": task, "schedule": every_s, "options": {"expires": 2 * every_s}}
        for name, task, every_s in (
            ("mirror table storage", "controlplane.mirror.sync_tables", SYNC_EVERY_S),
            ("measure joins", "controlplane.mirror.measure_streams", MEASURE_EVERY_S),
            ("settle operations", "controlplane.operations.reconcile", RECONCILE_EVERY_S),
            ("run due services", "controlplane.operations.run_due_services", SERVICES_EVERY_S),
            (
                "run due schedules",
                "controlplane.operations.run_due_schedules",
                SCHEDULES_EVERY_S,
            ),
            ("watch the marker server", "controlplane.operations.supervise", SUPERVISE_EVERY_S),
            ("verify the audit", "controlplane.audit.verify", AUDIT_EVERY_S),
            ("judge tables", "controlplane.monitoring.judge_tables", JUDGE_EVERY_S),
            ("send messages", "controlplane.monitoring.messages.send_due", SEND_EVERY_S),
            ("forget old alerts", "controlplane.monitoring.forget", HOUR_S),
            ("forget old samples", "controlplane.operations.forget", HOUR_S),
        )
    },
)


def _configure_logs() -> None:
    logging.config.dictConfig(settings.LOGGING)
    log_uncaught()
    configure_traces(os.environ, "sluice-worker")


follow_requests(_configure_logs)
app.autodiscover_tasks()  # `tasks.py` of each installed app.
