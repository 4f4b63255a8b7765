"""A client of a Sluice node's REST API: `from sluice_client import Client`.

Rows are dictionaries whose fields `sluice_client.rows` declares, made from the node's own OpenAPI
document.
"""

from __future__ import annotations

from .client import Client
from .problems import NodeUnreachable, OperationFailed, ProblemError

__all__ = ["Client", "NodeUnreachable", "OperationFailed", "ProblemError"]
