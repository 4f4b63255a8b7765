"""What workers report about an operation: a hint, checked and kept. It changes the progress; how an
operation ended is taken from storage (its `Kind`), at which a last report is an occasion to look.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import transaction

from controlplane.errors import ControlPlaneError, InvalidRequest
from controlplane.fields import INSTANT_TIME
from controlplane.mirror.turns import make_due
from controlplane.operations.attempts import is_new_worker, read_worker
from controlplane.operations.kinds.kind import kind_of
from controlplane.operations.models import Operation
from controlplane.operations.moves import amend, move, record_worker
from controlplane.operations.outcomes import Outcome
from controlplane.operations.spark_stages import reported_stages
from controlplane.operations.states import FINAL, OperationState, may_move
from controlplane.writers.actions import do_record_hint
from workers.errors import LakehouseError

log = logging.getLogger(__name__)

MESSAGE_CHARS_MAX = 2000
SETTLED_MAX = 10
SETTLED_CHARS_MAX = 100_000
_STATES = {
    "running": OperationState.RUNNING,
    "progress": OperationState.RUNNING,
    "succeeded": OperationState.SUCCEEDED,
    "failed": OperationState.FAILED,
    "conflicted": OperationState.CONFLICTED,
    "rolled_back": OperationState.ROLLED_BACK,
    "cancelled": OperationState.CANCELLED,
    "unknown": OperationState.UNKNOWN,
    "fenced": OperationState.FENCED,
}


def do_record_report(payload: Mapping[str, Any]) -> bool:
    """Take a worker's report in; False when it is about no operation we know.

    Safe to receive twice, late or out of order. Raises InvalidRequest when it is malformed.
    """
    operation_id, state = _operation_id(payload), _state(payload)
    operation = Operation.objects.filter(pk=operation_id).first()
    if operation is None:
        return False
    kind = kind_of(operation)
    message = _text(payload.get("message"))
    values = {**_progress(payload), **_facts(payload), **reported_stages(payload)}
    with transaction.atomic():
        if payload["state"] != "progress":
            do_record_hint(
                operation_ref=str(operation_id),
                state=str(payload["state"]),
                message=message,
                body={key: payload[key] for key in ("instant", "pid", "outcome") if key in payload},
            )
        if OperationState(operation.state) in FINAL:
            values = {}
        if "instant" in values and not kind.may_name(operation, values["instant"]):
            del values["instant"]
        if state not in FINAL and OperationState(operation.state) not in FINAL and message:
            values["message"] = message
        if values:
            amend(operation_id, **values)
        if state not in FINAL:
            if is_new_worker(operation, worker := read_worker(payload)):
                record_worker(operation_id, worker)
            move(operation_id, state, message=message)
    if state in FINAL:
        _end(operation_id, state, message)
    make_due(operation.table_id)
    return True


def _end(operation_id: UUID, claimed: OperationState, message: str) -> None:
    """Move the operation to the end that storage shows. Where storage does not show it, or does not
    answer, the claim stays a note, and `settling` finds out how the operation ends.
    """
    operation = Operation.objects.select_related("table").get(pk=operation_id)
    if not may_move(OperationState(operation.state), claimed):
        return
    try:
        outcome = kind_of(operation).confirm(operation, claimed)
    except (LakehouseError, ControlPlaneError, OSError) as error:
        log.warning(
            "the result of an operation cannot be confirmed: operation=%s error=%s",
            operation_id,
            error,
        )
        return
    if outcome is None:
        log.warning(
            "storage does not confirm the reported result: operation=%s claim=%s",
            operation_id,
            claimed,
        )
        amend(
            operation_id, message=f"its worker reported {claimed}, but storage does not confirm it"
        )
        return
    ended = move(operation_id, outcome.state, message=_words(outcome, claimed, message))
    if ended is not None:
        _complete(ended, outcome)


def _words(outcome: Outcome, claimed: OperationState, message: str) -> str:
    """A claim that storage does not bear out is told beside the worker's own words."""
    if outcome.message or outcome.state is claimed:
        return outcome.message or message
    return (
        f"its worker reported {claimed}: {message}" if message else f"its worker reported {claimed}"
    )


def _complete(ended: Operation, outcome: Outcome) -> None:
    values: dict[str, Any] = {}
    if outcome.instant and outcome.instant != ended.instant:
        values["instant"] = outcome.instant
    is_whole = kind_of(ended).is_done_as_a_whole
    if is_whole and outcome.state is OperationState.SUCCEEDED:
        values["progress_done"] = ended.progress_total
    if values:
        amend(ended.pk, **values)


def _operation_id(payload: Mapping[str, Any]) -> UUID:
    try:
        return UUID(str(payload["operation_id"]))
    except (KeyError, ValueError) as error:
        raise InvalidRequest("a report must contain the id of its operation") from error


def _state(payload: Mapping[str, Any]) -> OperationState:
    given = payload.get("state")
    if not isinstance(given, str) or given not in _STATES:
        raise InvalidRequest("invalid state in the report", known=sorted(_STATES))
    return _STATES[given]


def _progress(payload: Mapping[str, Any]) -> dict[str, Any]:
    progress = payload.get("progress")
    if progress is None:
        return {}
    if not isinstance(progress, Mapping):
        raise InvalidRequest("progress must contain done, total and unit")
    return {
        "progress_done": _count(progress.get("done", 0)),
        "progress_total": _count(progress.get("total", 0)),
        "progress_unit": str(progress.get("unit", ""))[:32],
    }


def _facts(payload: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    instant = payload.get("instant")
    if instant is not None:
        if not isinstance(instant, str) or not INSTANT_TIME.match(instant):
            raise InvalidRequest("the instant of a report must have 17 digits")
        values["instant"] = instant
    if payload.get("settled") is not None:
        values["settled"] = _settled(payload["settled"])
    if payload.get("pid") is not None:
        values["pid"] = _count(payload["pid"])
    return values


def _settled(given: object) -> dict[str, str]:
    if not isinstance(given, Mapping) or len(given) > SETTLED_MAX:
        raise InvalidRequest("settled must be a small JSON object")
    if not all(isinstance(text, str) and len(text) <= SETTLED_CHARS_MAX for text in given.values()):
        raise InvalidRequest("the values of settled must be texts", most=SETTLED_CHARS_MAX)
    return {str(name)[:64]: text for name, text in given.items()}


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise InvalidRequest("invalid number in the report", value=str(value)[:40])
    return value


def _text(value: object) -> str:
    return "" if value is None else str(value)[:MESSAGE_CHARS_MAX].replace("\x00", "")
