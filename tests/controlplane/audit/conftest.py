"""A chain of rows, and how to tamper with it: as somebody who has the database and its triggers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection

from controlplane.audit.actions import do_append_to_chain, do_record
from controlplane.audit.guards import remove
from controlplane.audit.models import AuditEvent

ROWS = 6


@pytest.fixture
def chain(db: None) -> list[AuditEvent]:
    """Six rows, oldest first, all of them in the chain."""
    for number in range(ROWS):
        do_record(
            who="ada",
            what="service.clean",
            subject="trips",
            result="done",
            reason=f"because {number}",
            plan_hash="ab12",
            details={"number": number, "share": 1.0, "nested": [{"deep": 1e20}, None]},
        )
    do_append_to_chain()
    return list(AuditEvent.objects.order_by("sequence"))


@pytest.fixture
def sql(chain: list[AuditEvent]) -> Callable[..., None]:
    """Run a statement on the database, with its guards out of the way."""
    remove(connection)

    def execute(statement: str, *values: str | int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement, values)

    return execute
