"""Asking the control plane, right before a job begins, whether the person who asked for it still
may (threat T14): roles may have been taken away while it waited.

Without an answer nothing is begun, and the control plane sends the job again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http.client import HTTPException
from typing import Final

from workers.clock import Clock
from workers.log_lines import current_request_id
from workers.reporting.posting import posted_status
from workers.reporting.tokens import token_for

_TRIES: Final = 4
_TIMEOUT_S: Final = 3.0
_TRY_AGAIN_S: Final = 0.5
_GIVEN: Final = 204
_REFUSED: Final = frozenset({401, 403, 404})
"""Not any more; or of a worker that this control plane does not know, or an operation."""

_log = logging.getLogger(__name__)


def has_leave(
    operation_id: str, report_url: str, environment: Mapping[str, str], clock: Clock
) -> bool:
    """Whether the operation may begin; False also where nobody answers, after some 15 s."""
    url = f"{report_url.rstrip('/')}/leave/"
    body = {"operation_id": operation_id}
    token, request_id = token_for(operation_id, environment), current_request_id.get()
    problem = ""
    for attempt in range(_TRIES):
        if attempt:
            clock.sleep(_TRY_AGAIN_S * 2**attempt)
        try:
            status = posted_status(url, token, body, _TIMEOUT_S, request_id=request_id)
        except (OSError, HTTPException, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
            continue
        if status == _GIVEN:
            return True
        problem = f"status={status}"
        if status in _REFUSED:
            break
    _log.warning("not begun, no leave was given: operation=%s reason=%s", operation_id, problem)
    return False
