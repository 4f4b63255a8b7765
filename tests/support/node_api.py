"""A node's API as a program uses it that knows that the node may die: it asks again, under the same
key, until somebody has answered.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

import requests

ANSWERS_WITHIN_S = 120.0
_TIMEOUT_S = 20.0
_POLL_S = 0.3
_LATER = (429, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class NodeApi:
    url: str
    """Of the node's pages, with a slash at its end."""
    token: str

    def get(self, path: str) -> Any:
        """Raises AssertionError for a refusal, and when nobody answers."""
        return self._asked("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Raises as `get`. It has one effect where the address takes a key."""
        return self._asked("POST", path, body)

    def _asked(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        headers = {"Authorization": f"Token {self.token}", "Idempotency-Key": uuid.uuid4().hex}
        deadline = time.monotonic() + ANSWERS_WITHIN_S
        problem = ""
        while time.monotonic() < deadline:
            try:
                answer = requests.request(
                    method,
                    f"{self.url}api/v1/{path}",
                    json=body,
                    headers=headers,
                    timeout=_TIMEOUT_S,
                )
            except requests.ConnectionError as error:
                problem = str(error)
            except requests.Timeout as error:
                problem = str(error)
            else:
                if answer.ok:
                    return answer.json()
                problem = f"{answer.status_code}: {answer.text[:2000]}"
                assert answer.status_code in _LATER, (method, path, problem)
            time.sleep(_POLL_S)
        raise AssertionError((method, path, problem))
