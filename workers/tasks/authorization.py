"""Authorization of a job by the control plane, right before it begins (threat T14), and the named
connection that comes with it.

The user's roles may have been revoked while the job was queued. Without an answer the job does not
begin, and the control plane sends it again.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final

from workers.clock import Clock
from workers.given_connection import connection_environment
from workers.jobs import DriverJob, ReplayJob, RollbackJob, ServiceJob
from workers.log_lines import current_request_id
from workers.reporting.http import post_for_answer
from workers.reporting.tokens import find_token

_TRIES: Final = 4
_TIMEOUT_S: Final = 3.0
_TRY_AGAIN_S: Final = 0.5
_GIVEN: Final = 204
_WITH_CONNECTION: Final = 200
_REFUSED: Final = frozenset({401, 403, 404})
"""The user is no longer authorized, or the worker or operation is unknown."""

_log = logging.getLogger(__name__)


def request_authorization(
    operation_id: str, report_url: str, environment: Mapping[str, str], clock: Clock
) -> Mapping[str, Any] | None:
    """Request the authorization to begin. Return the named connection of the operation, as
    `workers.given_connection` reads it, or an empty mapping without one. Return None if the
    operation may not begin, or the control plane does not answer for 15 s.
    """
    url = f"{report_url.rstrip('/')}/leave/"
    body = {"operation_id": operation_id}
    token, request_id = find_token(operation_id, environment), current_request_id.get()
    problem = ""
    for attempt in range(_TRIES):
        if attempt:
            clock.sleep(_TRY_AGAIN_S * 2**attempt)
        try:
            status, answer = post_for_answer(url, token, body, _TIMEOUT_S, request_id=request_id)
            settings = json.loads(answer) if status == _WITH_CONNECTION else {}
        except json.JSONDecodeError:  # Its text would be logged, and may hold secrets.
            problem = "the answer is not JSON"
            continue
        except (OSError, HTTPException, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
            continue
        if status in (_GIVEN, _WITH_CONNECTION):
            return settings if isinstance(settings, Mapping) else {}
        problem = f"status={status}"
        if status in _REFUSED:
            break
    _log.warning("not begun, no leave was given: operation=%s reason=%s", operation_id, problem)
    return None


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
