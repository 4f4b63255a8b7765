"""Base class of tasks, which drops messages without a signature of the node (threat T8).

Only processes with the node's worker token can sign. A process with access to the queue can still
lose, delay or repeat messages, which jobs allow.
"""

from __future__ import annotations

import hmac
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from celery.exceptions import Ignore

from workers.reporting.tokens import KEY_VARIABLE, SIGNATURE, sign_message
from workers.task_messages import QueuedTask
from workers.traces import PARENT, sent_parent

_log = logging.getLogger(__name__)


class SignedTask(QueuedTask):
    """Task with a job's message as its only argument. A call in the process needs no signature."""

    abstract = True

    def before_start(self, task_id: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Drop a message with a missing or wrong signature. Raises Ignore for it."""
        # Not `request.is_eager`, which a message's header can set.
        if (self.request.delivery_info or {}).get("is_eager"):
            return
        key, signature = os.environ.get(KEY_VARIABLE, ""), self.request.get(SIGNATURE)
        is_form = len(args) == 1 and isinstance(args[0], dict) and not kwargs
        parent = sent_parent(self.request.get(PARENT))
        expected = sign_message(key, self.name, args[0], parent) if is_form else ""
        if (
            expected
            and isinstance(signature, str)
            and hmac.compare_digest(signature.encode(), expected.encode())
        ):
            return
        reason = "its signature is not this node's" if key else f"{KEY_VARIABLE} is not set here"
        _log.error("message dropped: task=%s id=%a reason=%s", self.name, task_id, reason)
        raise Ignore
