"""The token of a worker's reports: made of the operation that it is for and of the node's worker
token, so that whoever has it can report about that operation and about no other.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

KEY_VARIABLE: Final = "SLUICE_WORKER_TOKEN"
"""What all tokens are made of. The control plane and its Celery workers have it, no driver does."""
TOKEN_VARIABLE: Final = "SLUICE_REPORT_TOKEN"  # noqa: S105 -- the name of a variable, not a token
"""What a driver has: the token of its own operation."""


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


def token_for(operation_id: str, environment: Mapping[str, str]) -> str:
    """The operation's token: made from the key where this process has it, else the one that it was
    given; empty without both.
    """
    key = environment.get(KEY_VARIABLE, "")
    return report_token(key, operation_id) or environment.get(TOKEN_VARIABLE, "")
