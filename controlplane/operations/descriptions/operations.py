"""Requests about an operation or a writer that exists: cancel, run again, stop."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from controlplane.operations.descriptions.field import (
    NEEDED_REASON,
    PLAN_HASH,
    REASON,
    TABLE_NAME,
    Description,
    Field,
    FieldType,
)
from controlplane.tables.access import Permission

CANCEL: Final = Description(
    name="cancel",
    purpose="Ask an operation to stop. Steps that have not begun never will.",
    address="operations/{operation_id}/cancel/",
    body="CancelRequest",
    call="cancel",
    answer="OperationDetail",
    permission=Permission.OPERATE,
    takes_key=False,
    fields=(REASON,),
)
RUN_AGAIN: Final = Description(
    name="again",
    purpose="Run an operation that has ended again, with its parameters or changed ones.",
    address="operations/{operation_id}/again/",
    body="AgainRequest",
    call="run_again",
    answer="OperationDetail",
    permission=Permission.OPERATE,
    fields=(
        Field(
            "parameters",
            "Parameters",
            "Those to replace, by name.",
            type=FieldType.OBJECT,
            default=dict,
        ),
        REASON,
        # No row of a plan fits every kind: the caller passes the hash and the name.
        replace(PLAN_HASH, help="The hash of a plan that is made now, where one is needed."),
        TABLE_NAME,
    ),
)
STOP_WRITER: Final = Description(
    name="abort",
    purpose="Stop a writer by its pending instant, which is rolled back unless it commits first.",
    address="tables/{slug}/writers/{requested_at}/abort/",
    body="AbortRequest",
    call="stop_writer",
    answer="OperationDetail",
    permission=Permission.OPERATE,
    fields=(NEEDED_REASON,),
)
