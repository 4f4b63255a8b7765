"""Whether a dead worker had done its work: storage says so, and nothing is to be done again."""

from __future__ import annotations

from datetime import datetime

from controlplane.operations.kinds.kind import kind_of
from controlplane.operations.models import Operation
from controlplane.operations.moves import amend, move
from controlplane.operations.states import OperationState


def settled_by_storage(operation: Operation, _now: datetime) -> bool:
    """Ends it when storage proves that it is done; false when another worker is to take it."""
    if operation.state == OperationState.CANCELLING.value:
        return False
    outcome = kind_of(operation).confirm(operation, OperationState.SUCCEEDED)
    if outcome is None:
        return False
    if outcome.instant and outcome.instant != operation.instant:
        amend(operation.pk, instant=outcome.instant)
    message = outcome.message or "done, as storage shows; its worker ended without a word"
    return move(operation.pk, outcome.state, message=message) is not None
