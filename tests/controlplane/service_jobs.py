"""A table service as a person asks for it and as a worker runs it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User

from controlplane.celery import app
from controlplane.operations.actions import (
    do_record_report,
    do_request_rollback,
    do_request_service,
    plan_rollback,
    plan_service,
)
from controlplane.operations.models import Operation
from tests.controlplane.lake import Lake
from workers.tasks import run_service


def ask(lake: Lake, service: str, by: User, **changed: Any) -> Operation:
    parameters = changed.pop("parameters", {})
    confirmation = {
        "plan_hash": plan_service(lake.row, service, parameters, by).plan_hash,
        "reason": "tidy up",
        "typed_name": "trips",
    } | changed
    return do_request_service(lake.row, service, parameters, by=by, **confirmation)


def ask_rollback(lake: Lake, instant: str, by: User, **changed: str) -> Operation:
    confirmation = {
        "plan_hash": plan_rollback(lake.row, instant).plan_hash,
        "reason": "wrong file",
        "typed_name": "trips",
    } | changed
    return do_request_rollback(lake.row, instant, by=by, **confirmation)


def begun(lake: Lake, service: str, by: User, **changed: Any) -> Operation:
    """Asked for, and its worker says that it begins."""
    operation = ask(lake, service, by, **changed)
    do_record_report({"operation_id": str(operation.pk), "state": "running", "message": "begins"})
    operation.refresh_from_db()
    return operation


def work(operation: Operation, **changed: Any) -> Operation:
    run_service.apply(args=[operation.parameters["job"] | changed]).get()
    operation.refresh_from_db()
    return operation


def sent_jobs() -> list[tuple[str, dict[str, Any]]]:
    """What the queue holds; it is empty afterwards."""
    jobs = []
    with app.connection_for_write() as connection:
        queue = connection.SimpleQueue("engine")
        while len(queue):
            message = queue.get(block=False)
            message.ack()
            jobs.append((message.headers["task"], message.payload[0][0]))
        queue.close()
    return jobs
