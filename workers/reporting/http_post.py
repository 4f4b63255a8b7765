"""HTTP client for the control plane: it posts one JSON object.

It follows no redirect and uses no proxy, so the token is sent only to the configured address.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

_BODY_BYTES_MAX = 512 * 1024


class ReportRejected(HTTPException):
    """The control plane rejects this body. Another attempt is useless."""


def post(
    url: str, token: str, body: Mapping[str, Any], timeout_s: float, *, request_id: str = ""
) -> None:
    """Post the body, and return once it was accepted. `request_id` is the id of its request.

    Raises ReportRejected for an invalid body; OSError and HTTPException if a retry may succeed.
    """
    status = post_for_status(url, token, body, timeout_s, request_id=request_id)
    if status in (400, 413, 422):
        raise ReportRejected(f"status={status}")
    if not 200 <= status < 300:
        raise HTTPException(f"status={status}")


def post_for_status(
    url: str, token: str, body: Mapping[str, Any], timeout_s: float, *, request_id: str = ""
) -> int:
    """Post the body and return the status. Raises ReportRejected for a body that is too large,
    OSError, HTTPException.
    """
    return post_for_answer(url, token, body, timeout_s, request_id=request_id)[0]


def post_for_answer(
    url: str, token: str, body: Mapping[str, Any], timeout_s: float, *, request_id: str = ""
) -> tuple[int, bytes]:
    """Post the body and return status and body of the answer. Raises ReportRejected for a body
    that is too large, OSError, HTTPException.
    """
    encoded = json.dumps(body).encode()
    if len(encoded) > _BODY_BYTES_MAX:
        raise ReportRejected(f"report is too large: bytes={len(encoded)}")
    parts = urlsplit(url)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=timeout_s)
    headers = {"Content-Type": "application/json", "Authorization": f"Worker {token}"}
    if request_id:
        headers["X-Request-ID"] = request_id
    try:
        connection.request("POST", parts.path or "/", body=encoded, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(_BODY_BYTES_MAX)
    finally:
        connection.close()
