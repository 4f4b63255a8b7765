"""Whether the files that readers go to stand, after something was deleted beside them. Asked of
storage: the newest commits name their files.
"""

from __future__ import annotations

from controlplane.errors import ControlPlaneError
from controlplane.mirror.storage import engine_table
from controlplane.operations.own_instants import OwnInstant
from controlplane.operations.table_service_effects import missing_files
from controlplane.tables.models import Table
from workers.errors import LakehouseError

WRITES_CHECKED_MAX = 20


def missing_for_readers(table: Table) -> list[str] | None:
    """What the newest writes committed and storage has no more, as sentences. What later services
    took in their turn is not missed. None when storage does not answer.
    """
    try:
        opened = engine_table(table)
        timeline = opened.timeline()
        writes = timeline.list_completed_writes()[-WRITES_CHECKED_MAX:]
        owns = [OwnInstant(one, opened.storage.read(opened.layout.path(one))) for one in writes]
        return [gap for own in owns for gap in missing_files(opened, timeline, own)]
    except (LakehouseError, ControlPlaneError, OSError):
        return None
