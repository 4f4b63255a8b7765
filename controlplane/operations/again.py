"""An operation that has ended, asked for once more: the same or with changed parameters, by the
same road as at first, so with the same roles, words, idempotency and a plan made anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from controlplane.errors import NotAllowedNow
from controlplane.operations.ask import Origin, Requester
from controlplane.operations.kinds.kind import kind_of
from controlplane.operations.models import Operation
from controlplane.operations.query_sources import shown_whole, without_statement
from controlplane.operations.requesting import Given, do_request
from controlplane.operations.states import FINAL, OperationState
from controlplane.tables.access import Caller


def do_request_again(
    operation: Operation, changed: Mapping[str, Any], given: Given, by: User
) -> Operation:
    """Queue another operation in the manner of this one. `changed` replaces parameters by name;
    the audit says which, and of which operation.

    Raises NotAllowedNow while it is open, and for a kind that is begun again in another way; else
    what `do_request` raises.
    """
    if OperationState(operation.state) not in FINAL:
        raise NotAllowedNow("the operation has not ended: wait or cancel it", state=operation.state)
    kind = kind_of(operation)
    if kind.again is None:
        raise NotAllowedNow(
            f"a {kind.name} cannot be rerun here: use the page of the sink", kind=kind.name
        )
    ask = kind.again(operation, changed)
    return do_request(ask, Requester.person(by), given, origin=Origin(operation, changed))


def load_parameters(operation: Operation, user: Caller) -> dict[str, Any]:
    """Return what the operation was asked for with, without what `user` may not read of its source.

    Raises NotAllowedNow for a kind that is begun again in another way.
    """
    kind = kind_of(operation)
    if kind.again is None:
        raise NotAllowedNow(
            f"a {kind.name} cannot be rerun here: use the page of the sink", kind=kind.name
        )
    parameters = dict(kind.again(operation, {}).body)
    if "source" in parameters and operation.pk not in shown_whole(user, [operation]):
        parameters["source"] = without_statement(parameters["source"])
    return parameters
