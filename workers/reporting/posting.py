"""One JSON object to the control plane. No redirect is followed and no proxy asked: the token goes
to the configured address or nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

_BODY_BYTES_MAX = 512 * 1024


class Refused(HTTPException):
    """The control plane will never take this body: sending it again is of no use."""


def post(
    url: str, token: str, body: Mapping[str, Any], timeout_s: float, *, request_id: str = ""
) -> None:
    """Returns once it was taken. `request_id` says for whose request it is sent.

    Raises Refused for a body that is wrong; OSError and HTTPException where another try may help.
    """
    status = posted_status(url, token, body, timeout_s, request_id=request_id)
    if status in (400, 413, 422):
        raise Refused(f"status={status}")
    if not 200 <= status < 300:
        raise HTTPException(f"status={status}")


def posted_status(
    url: str, token: str, body: Mapping[str, Any], timeout_s: float, *, request_id: str = ""
) -> int:
    """The status of the answer. Raises Refused for a body that is too large, OSError,
    HTTPException.
    """
    return posted_answer(url, token, body, timeout_s, request_id=request_id)[0]


def posted_answer(
    url: str, token: str, body: Mapping[str, Any], timeout_s: float, *, request_id: str = ""
) -> tuple[int, bytes]:
    """The status of the answer and its body. Raises Refused for a body that is too large, OSError,
    HTTPException.
    """
    encoded = json.dumps(body).encode()
    if len(encoded) > _BODY_BYTES_MAX:
        raise Refused(f"report is too large: bytes={len(encoded)}")
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
