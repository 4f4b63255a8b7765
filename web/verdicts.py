"""What proves that an operation did its work, check by check: what storage says, not what the
worker said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controlplane.operations.kinds.kind import kind_named
from controlplane.operations.queries import OperationDetail, operation_checks


@dataclass(frozen=True, slots=True)
class ShownCheck:
    name: str
    title: str
    state: str
    word: str
    words: str


_STATES = {
    True: ("completed", "verified"),
    False: ("failed", "not verified"),
    None: ("inflight", "checking"),
}


def verification(operation: OperationDetail) -> dict[str, Any]:
    """The checks of an operation; of one that was planned first also the step of that which they
    stand for. A sink runs for days and is checked all along.
    """
    kind = kind_named(operation.row.kind)
    if not operation.row.is_final and not kind.is_checked_while_open:
        waiting = [
            ShownCheck(name, title, "requested", "waiting", "")
            for name, title in kind.titles.items()
        ]
        step = {"step": 3} if kind.is_planned else {}
        return {**step, "checks": waiting, "checks_settled": False}
    checks = [
        ShownCheck(check.name, check.title, *_STATES[check.is_proved], check.words)
        for check in operation_checks(operation.row.id)
    ]
    is_proved = all(check.state == "completed" for check in checks)
    step = {"step": 5 if is_proved else 4} if kind.is_planned else {}
    return {**step, "checks": checks, "checks_settled": True}
