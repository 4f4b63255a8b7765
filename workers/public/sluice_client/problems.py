"""What a client raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ProblemError(Exception):
    """The node refused a request. `code` is stable; docs/api.md lists all that there are."""

    def __init__(
        self, *, status: int, code: str, detail: str, values: Mapping[str, Any], request_id: str
    ) -> None:
        self.status = status
        self.code = code
        self.detail = detail
        self.values = values
        self.request_id = request_id
        """Under which the node's log and its audit have the request."""
        fields = values.get("fields")
        more = f": {fields}" if fields else ""
        super().__init__(f"{detail}{more} ({code}, request {request_id})")


class NodeUnreachable(Exception):
    """No answer came, however often it was tried."""


class OperationFailed(Exception):
    """An operation that was waited for did not succeed."""

    def __init__(self, operation_id: str, state: str, message: str) -> None:
        self.operation_id = operation_id
        self.state = state
        self.message = message
        super().__init__(f"operation {operation_id} {state}: {message}")
