"""Authorization of a job to start, and the named connection that comes with it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from workers.clock import Clock
from workers.given_connection import connection_environment
from workers.jobs import DriverJob, ReplayJob, RollbackJob, ServiceJob
from workers.reporting.authorization import request_authorization


def is_authorized_to_start(
    job: DriverJob | ReplayJob | RollbackJob | ServiceJob, clock: Clock
) -> bool:
    """Check whether the job's user is still authorized. Jobs without a user always are. Without a
    control plane to ask, jobs of users are not.
    """
    return request_job_authorization(job, clock) is not None


def request_job_authorization(
    job: DriverJob | ReplayJob | RollbackJob | ServiceJob, clock: Clock
) -> Mapping[str, str] | None:
    """Request the authorization of the job. Return the environment variables with its named
    connection, secrets included, or None if the job may not begin.

    Raises InvalidInput for an answer with an invalid connection.
    """
    if not job.asks_leave:
        return {}
    if job.report_url is None:
        return None
    settings = request_authorization(job.operation_id, job.report_url, os.environ, clock)
    return connection_environment(settings) if settings else settings
