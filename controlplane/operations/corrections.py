"""Ends that were believed and that storage contradicts since: a write that was reported as failed
and commits after all, a rollback whose worker was only slow.

The mirror says where to look: a completed instant that carries the operation's name. What leaves no
such trace is looked at for a while after it ended, and for as long as a worker is at it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from controlplane.errors import ControlPlaneError
from controlplane.mirror.models import InstantRecord
from controlplane.operations.kinds.kind import kind_of, kinds
from controlplane.operations.models import Operation
from controlplane.operations.moves import amend, move
from controlplane.operations.outcomes import CLOCKS_APART_MS, Outcome
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import OperationState
from workers.clock import InstantTime, format_instant
from workers.errors import LakehouseError
from workers.reporting.run_lock import is_running

log = logging.getLogger(__name__)

LOOKED_AT_FOR = timedelta(minutes=2)
TRACED_FOR = timedelta(days=1)
LOOKED_AT_MAX = 500
"""Of the operations that ended last."""
_S = OperationState
_CORRECTABLE = sorted({_S.FAILED, _S.CANCELLED, _S.CONFLICTED, _S.ROLLED_BACK, _S.REFUSED})


def correct_ends(now: datetime) -> int:
    """How many operations ended otherwise than was said."""
    ended = list(
        Operation.objects.filter(
            kind__in=[kind.name for kind in kinds().values() if kind.is_corrected],
            state__in=_CORRECTABLE,
            finished_at__gt=now - TRACED_FOR,
        )
        .exclude(approval__isnull=False, sent_at__isnull=True)  # Nobody ever sent it.
        .select_related("table", "requested_by")
        .order_by("-finished_at")[:LOOKED_AT_MAX]
    )
    traces = _traces(ended)
    return sum(_correct(one) for one in ended if _is_due(one, traces.get(str(one.pk), ""), now))


def _traces(ended: Iterable[Operation]) -> dict[str, InstantTime]:
    """Operation -> the newest completed instant that carries its name. A query for each table."""
    by_table: dict[int, list[Operation]] = defaultdict(list)
    for operation in ended:
        by_table[operation.table_id].append(operation)
    traces: dict[str, InstantTime] = {}
    for table_id, operations in by_table.items():
        requested_ms = min(one.requested_at for one in operations).timestamp() * 1000
        completed = InstantRecord.objects.filter(
            table_id=table_id,
            completed_at__gte=format_instant(int(requested_ms) - CLOCKS_APART_MS),
            operation_ref__in=[str(one.pk) for one in operations],
        ).order_by("requested_at")
        traces |= dict(completed.values_list("operation_ref", "requested_at"))
    return traces


def _is_due(operation: Operation, trace: InstantTime, now: datetime) -> bool:
    if trace:
        return trace not in operation.message  # Else it says so already.
    if kind_of(operation).has_trace:
        return False
    if is_running(Path(run_dir(operation.pk))):
        Operation.objects.filter(pk=operation.pk).update(changed_at=now)
        return True
    return now - operation.changed_at < LOOKED_AT_FOR


def _correct(operation: Operation) -> bool:
    before = OperationState(operation.state)
    try:
        outcome = kind_of(operation).confirm(operation, before)
    except (LakehouseError, ControlPlaneError, OSError) as error:
        log.warning(
            "the result of an operation cannot be checked: operation=%s error=%s",
            operation.pk,
            error,
        )
        return False
    if outcome is None:
        return False
    if outcome.state is before:
        _say_what_was_committed(operation, outcome)
        return False
    correction = f"{outcome.message or 'storage shows its effect'}; reported as {before} before"
    if move(operation.pk, outcome.state, message=correction) is None:
        return False
    if outcome.instant:
        amend(operation.pk, instant=outcome.instant)
    log.info(
        "the result of an operation was corrected: operation=%s from=%s to=%s",
        operation.pk,
        before,
        outcome.state,
    )
    return True


def _say_what_was_committed(operation: Operation, outcome: Outcome) -> None:
    """Of many rounds some may stand, and what was cancelled may have committed first."""
    at = outcome.instant
    if at and at not in operation.message:
        sentences = [operation.message] if operation.message else []
        amend(operation.pk, instant=at, message="; ".join([*sentences, f"{at} was committed"]))
