"""The token of a worker's reports: made of the operation that it is for and of the node's worker
token, so that whoever has it can report about that operation and about no other. And the signature
of a job's message, made of the same token.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, Final

KEY_VARIABLE: Final = "SLUICE_WORKER_TOKEN"
"""What all tokens are made of. The control plane and its Celery workers have it, no driver does."""
TOKEN_VARIABLE: Final = "SLUICE_REPORT_TOKEN"  # noqa: S105 -- the name of a variable, not a token
"""What a driver has: the token of its own operation."""
SIGNATURE: Final = "sluice_signature"
"""The header of a job's message that carries its signature."""


def report_token(key: str, operation_id: str) -> str:
    """Empty where there is no key, which opens nothing."""
    if not key:
        return ""
    signed = hmac.new(key.encode(), f"report {operation_id}".encode(), hashlib.sha256)
    return f"{operation_id}.{signed.hexdigest()}"


def operation_of(token: str, key: str) -> str | None:
    """The operation that this token is for; None when it is none of ours. In constant time."""
    operation_id = token.rpartition(".")[0]
    expected = report_token(key, operation_id)
    is_ours = hmac.compare_digest(token.encode(), expected.encode())
    return operation_id if expected and operation_id and is_ours else None


def message_signature(key: str, task: str, message: Mapping[str, Any], parent: str = "") -> str:
    """Hexadecimal digits that prove a job's message to the task of this name, and the span that it
    was sent in, if any; empty where there is no key.
    """
    if not key:
        return ""
    signed_parts = [task, message, parent] if parent else [task, message]
    text = json.dumps(signed_parts, sort_keys=True, separators=(",", ":"))
    return hmac.new(key.encode(), f"job {text}".encode(), hashlib.sha256).hexdigest()


def token_for(operation_id: str, environment: Mapping[str, str]) -> str:
    """The operation's token: made from the key where this process has it, else the one that it was
    given; empty without both.
    """
    key = environment.get(KEY_VARIABLE, "")
    return report_token(key, operation_id) or environment.get(TOKEN_VARIABLE, "")
