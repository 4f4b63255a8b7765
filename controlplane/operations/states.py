"""The states of an operation and the moves between them, as one table. Pure.

A report is a hint and may come late, twice or never; the mirror's proof may arrive first. So a
state that a hint set may still be corrected by proof: `unknown` ends in whatever the decision
object says.
"""

from __future__ import annotations

from enum import StrEnum


class OperationState(StrEnum):
    AWAITING = "awaiting"
    """A second person has to approve of it before it is queued."""
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    """A sink that ends its transaction before it stops."""
    CANCELLING = "cancelling"
    UNKNOWN = "unknown"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CONFLICTED = "conflicted"
    ROLLED_BACK = "rolled_back"
    CANCELLED = "cancelled"
    LOST = "lost"
    """A sink whose process is gone and left no word."""
    FENCED = "fenced"
    """A sink that another launch has taken over."""
    REFUSED = "refused"
    """Nobody began it: whoever asked for it might not any more, or nobody approved of it."""


_S = OperationState
FINAL: frozenset[OperationState] = frozenset(
    {
        _S.SUCCEEDED,
        _S.FAILED,
        _S.CONFLICTED,
        _S.ROLLED_BACK,
        _S.CANCELLED,
        _S.LOST,
        _S.FENCED,
        _S.REFUSED,
    }
)
OPEN: frozenset[OperationState] = frozenset(_S) - FINAL
_ENDS = FINAL - {_S.LOST, _S.REFUSED} | {_S.UNKNOWN}

ALLOWED: dict[OperationState, frozenset[OperationState]] = {
    _S.AWAITING: frozenset({_S.QUEUED, _S.CANCELLED, _S.REFUSED}),
    _S.QUEUED: frozenset({_S.STARTING, _S.RUNNING, _S.CANCELLING, _S.REFUSED}) | _ENDS,
    _S.STARTING: frozenset({_S.QUEUED, _S.RUNNING, _S.STOPPING, _S.CANCELLING, _S.LOST}) | _ENDS,
    _S.RUNNING: frozenset({_S.STOPPING, _S.CANCELLING, _S.LOST}) | _ENDS,
    _S.STOPPING: frozenset({_S.CANCELLING, _S.LOST}) | _ENDS,
    _S.CANCELLING: _ENDS,
    _S.UNKNOWN: FINAL - {_S.REFUSED},
    # Its last word may come late.
    _S.LOST: frozenset({_S.SUCCEEDED, _S.FAILED, _S.CANCELLED, _S.FENCED}),
    # A failed driver may have committed before it died, and recovery may undo what it left.
    _S.FAILED: frozenset({_S.SUCCEEDED, _S.CONFLICTED, _S.ROLLED_BACK}),
    _S.CANCELLED: frozenset({_S.SUCCEEDED, _S.ROLLED_BACK}),
    _S.SUCCEEDED: frozenset(),
    # What was told too early is corrected by what was committed after all.
    _S.CONFLICTED: frozenset({_S.SUCCEEDED}),
    _S.ROLLED_BACK: frozenset({_S.SUCCEEDED}),
    _S.FENCED: frozenset(),
    # A worker that nobody heard of may have done it before.
    _S.REFUSED: frozenset({_S.SUCCEEDED, _S.CONFLICTED, _S.ROLLED_BACK}),
}


def may_move(current: OperationState, wanted: OperationState) -> bool:
    return wanted in ALLOWED[current]
