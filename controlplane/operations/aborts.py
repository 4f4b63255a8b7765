"""Ending a writer that still runs: its instant is decided to be rolled back, so whatever it does
from then on is in vain. No committed data goes, hence an operator may.

It has no plan to confirm, because the writer still adds to what would be deleted; a writer that
commits first has won, and keeps all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from controlplane.errors import NotAllowedNow
from controlplane.mirror.models import HeartbeatRecord, InstantRecord
from controlplane.operations.ask import Ask, Request, Requester, Wanted
from controlplane.operations.confirmation import Confirmation
from controlplane.operations.kinds import rollback
from controlplane.operations.kinds.kind import Kind
from controlplane.operations.kinds.rollback import rollback_job
from controlplane.operations.models import Operation
from controlplane.operations.requesting import Given, do_request
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from workers.clock import InstantTime


@dataclass(frozen=True, slots=True)
class AbortAsk(Ask[None]):
    """End the writer of one pending instant."""

    instant: InstantTime
    confirmation = Confirmation.REASON
    request_name = "AbortAsk"
    busy = "this instant is being rolled back already"

    @property
    def kind(self) -> Kind:
        return rollback.KIND

    @property
    def body(self) -> dict[str, Any]:
        return {"instant": self.instant}

    def plan(self) -> None:
        pending = InstantRecord.objects.filter(
            table=self.table, requested_at=self.instant, action__in=DATA_ACTIONS
        ).exclude(state="completed")
        if not pending.exists():
            raise NotAllowedNow("no write of this instant is pending", instant=self.instant)

    def wanted(self, request: Request, plan: None) -> Wanted:
        beat = HeartbeatRecord.objects.filter(table=self.table, instant=self.instant).first()
        writer = beat.writer_name if beat else ""
        return Wanted(
            job=rollback_job(self.table, self.instant, request),
            what="operation.abort",
            columns={"instant": self.instant, "progress_unit": "files"},
            parameters={"writer": writer},
            details={"instant": self.instant, "writer": writer},
        )


def do_request_abort(
    table: Table,
    instant: InstantTime,
    *,
    reason: str,
    by: User,
    idempotency_key: str | None = None,
) -> Operation:
    """Queue the end of the writer of `instant`. Raises what `do_request` raises."""
    given = Given(reason=reason, idempotency_key=idempotency_key)
    return do_request(AbortAsk(table, instant), Requester.person(by), given)
