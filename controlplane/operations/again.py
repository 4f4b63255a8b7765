"""An operation that has ended, asked for once more: the same or with changed parameters, by the
same road as at first, so with the same roles, words, idempotency and a plan made anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from controlplane.audit.actions import do_record
from controlplane.errors import NotAllowedNow
from controlplane.operations.ask import Requester
from controlplane.operations.kinds.kind import kind_of
from controlplane.operations.log_storing import do_note
from controlplane.operations.models import Operation
from controlplane.operations.requesting import Given, do_request
from controlplane.operations.states import FINAL, OperationState


def do_request_again(
    operation: Operation, changed: Mapping[str, Any], given: Given, by: User
) -> Operation:
    """Queue another operation in the manner of this one. `changed` replaces parameters by name;
    the audit says which, and of which operation.

    Raises NotAllowedNow while it is open, and for a kind that is begun again in another way; else
    what `do_request` raises.
    """
    if OperationState(operation.state) not in FINAL:
        raise NotAllowedNow("the operation has not ended", state=operation.state)
    kind = kind_of(operation)
    if kind.again is None:
        raise NotAllowedNow(f"a {kind.name} is begun again on its sink's page", kind=kind.name)
    again = do_request(kind.again(operation, changed), Requester.person(by), given)
    if again.again_of_id is None:  # Else the same request has come before.
        _note_origin(again, operation, changed, by)
    return again


def _note_origin(
    again: Operation, operation: Operation, changed: Mapping[str, Any], by: User
) -> None:
    job = operation.parameters["job"]
    before = job.get("parameters", job)
    again.again_of = operation
    with transaction.atomic():
        again.save(update_fields=["again_of"])
        do_record(
            who=by.get_username(),
            what="operation.again",
            subject=operation.table.slug,
            result="requested",
            reason=again.reason,
            details={
                "operation": str(again.pk),
                "again_of": str(operation.pk),
                "changed": {
                    name: {"before": before.get(name), "after": changed[name]}
                    for name in sorted(changed)
                },
            },
        )
        do_note(again, f"asked for again, after operation {operation.pk}")
