"""The age of the oldest log that no base file holds yet: one of the numbers that say how far
compaction lags. Never touches storage.
"""

from __future__ import annotations

from django.db.models import Exists, OuterRef

from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table
from workers.clock import InstantTime


def oldest_unmerged(table: Table) -> InstantTime | None:
    """When the first delta commit after the last compaction completed; None when there is none.

    One query.
    """
    done = InstantRecord.objects.filter(table=table, state="completed")
    compactions = InstantRecord.objects.filter(
        table=OuterRef("table"),
        operation_type="COMPACT",
        state="completed",
        completed_at__gt=OuterRef("completed_at"),
    )
    return (
        done.filter(~Exists(compactions), action="deltacommit", files__gt=0)
        .order_by("completed_at")
        .values_list("completed_at", flat=True)
        .first()
    )
