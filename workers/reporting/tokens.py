"""Tokens of workers' reports, and signatures of jobs' messages.

A report token is derived from the operation and the node's worker token. It authorizes reports
about that operation and no other. The signature of a message is derived from the same worker token.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, Final

KEY_VARIABLE: Final = "SLUICE_WORKER_TOKEN"
"""Variable of the key of all tokens. The control plane and its Celery workers have it; drivers do
not.
"""
TOKEN_VARIABLE: Final = "SLUICE_REPORT_TOKEN"  # noqa: S105 -- the name of a variable, not a token
"""Variable of a driver with the token of its operation."""
SIGNATURE: Final = "sluice_signature"
"""Header of a job's message with its signature."""


def build_report_token(key: str, operation_id: str) -> str:
    """Return the token of the operation; empty without a key, which authorizes nothing."""
    if not key:
        return ""
    signed = hmac.new(key.encode(), f"report {operation_id}".encode(), hashlib.sha256)
    return f"{operation_id}.{signed.hexdigest()}"


def find_operation(token: str, key: str) -> str | None:
    """Return the operation of the token, or None if it is invalid. Takes constant time."""
    operation_id = token.rpartition(".")[0]
    expected = build_report_token(key, operation_id)
    is_ours = hmac.compare_digest(token.encode(), expected.encode())
    return operation_id if expected and operation_id and is_ours else None


def sign_message(key: str, task: str, message: Mapping[str, Any], parent: str = "") -> str:
    """Return the signature, in hexadecimal digits, of a job's message to the task of this name.
    It covers the message and its `parent` span, if any. Empty without a key.
    """
    if not key:
        return ""
    signed_parts = [task, message, parent] if parent else [task, message]
    text = json.dumps(signed_parts, sort_keys=True, separators=(",", ":"))
    return hmac.new(key.encode(), f"job {text}".encode(), hashlib.sha256).hexdigest()


def find_token(operation_id: str, environment: Mapping[str, str]) -> str:
    """Return the operation's token: derived from the key if this process has it, else the token
    in the environment; empty without both.
    """
    key = environment.get(KEY_VARIABLE, "")
    return build_report_token(key, operation_id) or environment.get(TOKEN_VARIABLE, "")
