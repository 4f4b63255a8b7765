"""A rollback: the instant, and what confirms its plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from controlplane.operations.descriptions.field import CONFIRMED, Description, Field, FieldType
from controlplane.tables.access import Permission

_INSTANT: Final = Field(
    "instant",
    "Instant",
    "The instant's requested time, 17 digits.",
    type=FieldType.INSTANT,
    is_needed=True,
    is_first=True,
    in_form="",  # The address of the page has it.
    argument="instant",
)
PLAN_ROLLBACK: Final = Description(
    name="rollback.plan",
    purpose="Plan the rollback of an instant: what it would delete. Nothing is changed.",
    address="tables/{slug}/rollbacks/plan/",
    body="PlanRequest",
    call="plan_rollback",
    answer="PlanView",
    permission=Permission.ADMINISTER,
    takes_key=False,
    fields=(_INSTANT,),
)
ROLLBACK: Final = Description(
    name="rollback",
    purpose="Roll back an instant exactly as planned. Rejected as `plan_changed` if the table "
    "has changed.",
    address="tables/{slug}/rollbacks/",
    body="RollbackRequest",
    call="roll_back",
    answer="OperationDetail",
    permission=Permission.ADMINISTER,
    command="rollback",
    plan="PlanView",
    fields=(replace(_INSTANT, is_of_plan=True), *CONFIRMED),
)
