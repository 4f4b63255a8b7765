"""Whether a job may begin now, and the named connection that it is given for that."""

from __future__ import annotations

import os
from collections.abc import Mapping

from workers.clock import Clock
from workers.given_connection import connection_environment
from workers.jobs import DriverJob, ReplayJob, RollbackJob, ServiceJob
from workers.reporting.leave import request_leave


def may_begin(job: DriverJob | ReplayJob | RollbackJob | ServiceJob, clock: Clock) -> bool:
    """Whether whoever asked for the job still may; always for one that no person asked for. Where
    nobody is there to be asked, nothing that a person asked for begins.
    """
    return leave_of(job, clock) is not None


def leave_of(
    job: DriverJob | ReplayJob | RollbackJob | ServiceJob, clock: Clock
) -> Mapping[str, str] | None:
    """None where the job may not begin, as `may_begin` says; else the variables of its environment
    that hold the connection which it names, secrets included.

    Raises InvalidInput for an answer with a connection that none can open.
    """
    if not job.asks_leave:
        return {}
    if job.report_url is None:
        return None
    given = request_leave(job.operation_id, job.report_url, os.environ, clock)
    return connection_environment(given) if given else given
