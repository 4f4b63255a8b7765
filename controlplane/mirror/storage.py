"""From a registered table to the engine's handle on its storage: the roots are checked again at
every opening.
"""

from __future__ import annotations

from controlplane.tables.locations import checked_location
from controlplane.tables.models import Table
from workers.ports import system_ports
from workers.storage.base import Storage
from workers.storage.opener import open_storage
from workers.table import table as engine


def storage_of(table: Table) -> Storage:
    """The storage of a registered table. Raises InvalidRequest when the location no longer lies
    under a configured root.
    """
    return open_storage(checked_location(table.location))


def engine_table(table: Table) -> engine.Table:
    """As the engine opens it. Raises its TableNotFound, UnsupportedTable, MalformedTable."""
    return engine.open_(storage_of(table), system_ports())
