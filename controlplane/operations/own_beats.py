"""The heartbeats of an operation, as storage has them now: the mirror may be late, and a beat that
it has not seen is no death.
"""

from __future__ import annotations

from controlplane.mirror.storage import storage_of
from controlplane.operations.models import Operation
from workers.concurrency.heartbeat import Heartbeat, read_heartbeats


def own_beats(operation: Operation) -> list[Heartbeat]:
    """Heartbeats of what it has pending. Raises LakehouseError, OSError when storage does not
    answer.
    """
    beats = read_heartbeats(storage_of(operation.table))
    return [one for one in beats if one.operation_id == str(operation.pk)]
