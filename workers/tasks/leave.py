"""Whether a job may begin now."""

from __future__ import annotations

import os

from workers.clock import Clock
from workers.jobs import DriverJob, ReplayJob, RollbackJob, ServiceJob
from workers.reporting.leave import has_leave


def may_begin(job: DriverJob | ReplayJob | RollbackJob | ServiceJob, clock: Clock) -> bool:
    """Whether whoever asked for the job still may; always for one that no person asked for. Where
    nobody is there to be asked, nothing that a person asked for begins.
    """
    if not job.asks_leave:
        return True
    if job.report_url is None:
        return False
    return has_leave(job.operation_id, job.report_url, os.environ, clock)
