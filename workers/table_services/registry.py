"""A registry of the table services by name, for the shell, the API, Celery and the handle."""

from __future__ import annotations

from workers.errors import InvalidInput
from workers.table_services.adopt import Adopt
from workers.table_services.archive import Archive
from workers.table_services.clean import Clean
from workers.table_services.clustering.service import ClusteringService
from workers.table_services.compaction.service import CompactionService
from workers.table_services.deletes.partitions import DeletePartition
from workers.table_services.deletes.rows import Delete
from workers.table_services.orphaned_markers import DeleteMarkers
from workers.table_services.overwrites import Overwrite
from workers.table_services.repair import Repair
from workers.table_services.restore import Restore
from workers.table_services.rollback_instants import RollbackInstants
from workers.table_services.savepoint import DeleteSavepoint, Savepoint
from workers.table_services.service import Service
from workers.table_services.upgrade.service import Upgrade

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
    RollbackInstants(),
    ClusteringService(),
    Adopt(),
    Upgrade(),
    Repair(),
    DeleteMarkers(),
)
_SERVICES = {service.name: service for service in _ALL}
FINISHED_ONCE_BEGUN = frozenset({Restore.name})
"""While its plan is pending all writers wait, so it is never stopped midway."""


def get_service(name: str) -> Service:
    """Return the service of this name. Raises InvalidInput for an unknown name."""
    try:
        return _SERVICES[name]
    except KeyError as error:
        raise InvalidInput("unknown service", service=name, known=list_service_names()) from error


def list_service_names() -> list[str]:
    """Return the names of all services, sorted."""
    return sorted(_SERVICES)
