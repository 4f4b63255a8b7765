"""How an operation ended, as storage shows it. What a worker says is a hint that it is worth
looking now: it decides nothing that storage can tell. What a kind's storage shows, the kind knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from controlplane.operations.models import Operation
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import OperationState
from workers.clock import InstantTime
from workers.spark.process import is_forbidden

_S = OperationState
CLOCKS_APART_MS = 10_000
"""What a worker's clock may be behind ours."""


@dataclass(frozen=True, slots=True)
class Outcome:
    state: OperationState
    message: str = ""
    """Empty where the worker's own words say it."""
    instant: InstantTime = ""
    """Its own on the timeline, where there is one."""


def without_effect(operation: Operation, claimed: OperationState) -> Outcome | None:
    """What a job may have ended as that storage shows nothing of. Should its effect come after all,
    `corrections` finds it.
    """
    match claimed:
        case _S.SUCCEEDED:
            return None
        case _S.UNKNOWN:
            return Outcome(claimed)
        case _S.CANCELLED if was_cancelled(operation):
            return Outcome(claimed)
        case _:
            return Outcome(_S.FAILED)


def was_cancelled(operation: Operation) -> bool:
    """Whether somebody asked for its end. The job that ends it forbids further launches."""
    is_known = operation.state in (_S.CANCELLING.value, _S.CANCELLED.value)
    return is_known or is_forbidden(Path(run_dir(operation.pk)))
