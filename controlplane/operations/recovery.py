"""Rolling back writers whose heartbeat ran out, also when no other writer comes along to do it."""

from __future__ import annotations

import logging
from datetime import datetime

from django.utils import timezone

from controlplane.audit.actions import do_record
from controlplane.errors import ControlPlaneError
from controlplane.mirror.models import HeartbeatRecord
from controlplane.mirror.storage import engine_table
from controlplane.tables.models import Table
from workers.errors import LakehouseError
from workers.options.write_options import SHORT_LIVED, write_options
from workers.recovery.failed_writes import roll_back_dead_writers

log = logging.getLogger(__name__)

WRITER = "control-plane"
LOCK_WAIT_MS = 5_000


def recover_tables(*, now: datetime | None = None) -> int:
    """Recover every table on which the mirror sees an expired heartbeat. How many instants were
    rolled back.

    The mirror only says where to look; the engine looks at storage again under the table lock
    (invariant MR3).
    """
    at = now or timezone.now()
    tables = {
        beat.table
        for beat in HeartbeatRecord.objects.filter(is_gone=False).select_related("table")
        if beat.liveness(age_s=(at - beat.beat_at).total_seconds()) == "expired"
    }
    return sum(_recover(table) for table in sorted(tables, key=lambda table: table.slug))


def _recover(table: Table) -> int:
    options = write_options(
        {
            **SHORT_LIVED,
            "sluice.writer.name": WRITER,
            "hoodie.write.lock.wait_time_ms": str(LOCK_WAIT_MS),
        }
    )
    try:
        outcomes = roll_back_dead_writers(engine_table(table), options)
    except (LakehouseError, ControlPlaneError, OSError) as error:
        log.warning("recovery failed and will be retried: table=%s error=%s", table.slug, error)
        return 0
    for outcome in outcomes:
        do_record(
            who=WRITER,
            what="recovery.rollback",
            subject=table.slug,
            result="committed" if outcome.is_committed else "rolled_back",
            reason="its writer's heartbeat ran out",
            details={
                "instant": outcome.target,
                "by": outcome.rollback_instant,
                "files": outcome.files_deleted,
            },
        )
    return len(outcomes)
