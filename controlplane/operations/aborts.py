"""Ending a writer that still runs: its instant is decided to be rolled back, so whatever it does
from then on is in vain. No committed data goes, hence an operator may.

It has no plan to confirm, because the writer still adds to what would be deleted; a writer that
commits first has won, and keeps all of it.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.mirror.models import HeartbeatRecord, InstantRecord
from controlplane.operations.models import Operation
from controlplane.operations.queueing import Wanted, known_request, queue_once
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import OperationKind
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.jobs import RollbackJob

WRITES = ("commit", "deltacommit", "replacecommit")


def request_abort(
    table: Table,
    instant: InstantTime,
    *,
    reason: str,
    by: User,
    idempotency_key: str | None = None,
) -> Operation:
    """Queue the end of the writer of `instant`. The same key by the same person has one effect.

    Raises InvalidRequest without a reason, NotAllowedNow when the mirror knows no such pending
    write, or when one is being rolled back already.
    """
    same = {"table_id": table.pk, "instant": instant, "plan_hash": ""}
    if known := known_request(by, idempotency_key, same):
        return known
    reason = reason.strip()
    if not reason:
        raise InvalidRequest("say why it is ended; that is kept in the audit record")
    pending = InstantRecord.objects.filter(
        table=table, requested_at=instant, action__in=WRITES
    ).exclude(state="completed")
    if not pending.exists():
        raise NotAllowedNow("no write of this instant is pending", instant=instant)
    beat = HeartbeatRecord.objects.filter(table=table, instant=instant).first()
    writer = beat.writer_name if beat else ""
    operation_id = uuid.uuid4()
    job = RollbackJob(
        operation_id=str(operation_id),
        table=table.location,
        instant=instant,
        plan_hash="",
        reason=reason,
        by=by.get_username(),
        run_dir=run_dir(operation_id),
        report_url=settings.SLUICE_REPORT_URL,
    )
    wanted = Wanted(
        table=table,
        kind=OperationKind.ROLLBACK,
        job=job,
        by=by,
        who=by.get_username(),
        what="operation.abort",
        reason=reason,
        idempotency_key=idempotency_key,
        columns={"instant": instant, "progress_unit": "files"},
        parameters={"writer": writer},
        details={"instant": instant, "writer": writer},
    )
    return queue_once(wanted, same, busy="this instant is being rolled back already")
