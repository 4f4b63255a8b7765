"""All table services by name, for the shell, the API, Celery and the handle."""

from __future__ import annotations

from workers.errors import InvalidInput
from workers.services.adopt import Adopt
from workers.services.archive import Archive
from workers.services.clean import Clean
from workers.services.clustering.service import ClusteringService
from workers.services.compaction.service import CompactionService
from workers.services.deletes.partitions import DeletePartition
from workers.services.deletes.rows import Delete
from workers.services.overwrites import Overwrite
from workers.services.repair import Repair
from workers.services.restore import Restore
from workers.services.savepoint import DeleteSavepoint, Savepoint
from workers.services.service import Service
from workers.services.upgrade.service import Upgrade

_ALL: tuple[Service, ...] = (
    # One line each.
    CompactionService(),
    Archive(),
    Clean(),
    Savepoint(),
    DeleteSavepoint(),
    Delete(),
    DeletePartition(),
    Overwrite("insert_overwrite"),
    Overwrite("insert_overwrite_table"),
    Restore(),
    ClusteringService(),
    Adopt(),
    Upgrade(),
    Repair(),
)
_SERVICES = {one.name: one for one in _ALL}
FINISHED_ONCE_BEGUN = frozenset({Restore.name})
"""While its plan is pending all writers wait, so nobody stops it midway."""


def service(name: str) -> Service:
    """Raises InvalidInput for a name that no service has."""
    try:
        return _SERVICES[name]
    except KeyError as error:
        raise InvalidInput("unknown service", service=name, known=service_names()) from error


def service_names() -> list[str]:
    return sorted(_SERVICES)
