"""Whether what lies at another place is the same table: by its properties and its history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controlplane.errors import InvalidRequest, StorageUnavailable
from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table
from workers.errors import LakehouseError, TableNotFound
from workers.files.properties import load_properties
from workers.ports import system_ports
from workers.storage.opener import open_storage
from workers.table import table as engine
from workers.timeline.timeline import with_archived

_SAME: Final = (
    "hoodie.table.name",
    "hoodie.table.type",
    "hoodie.table.recordkey.fields",
    "hoodie.table.partition.fields",
    "hoodie.table.initial.version",
)
"""What no engine changes during a table's life."""


def check_same_table(table: Table, resolved: str) -> None:
    """Reads storage at `resolved`. Raises InvalidRequest, which says what differs: no table is
    there, its properties are another table's, or it lacks a commit that this table has; and
    StorageUnavailable.
    """
    try:
        opened = engine.open_(open_storage(resolved), system_ports())
        there = load_properties(opened.storage)
        _check_properties(table.properties, there, resolved)
        _check_history(table, opened, resolved)
    except TableNotFound as error:
        raise InvalidRequest("no table found at the new location", location=resolved) from error
    except (LakehouseError, OSError) as error:
        raise StorageUnavailable(
            "the new location cannot be read", location=resolved, why=str(error)[:300]
        ) from error


def _check_properties(ours: Mapping[str, str], there: Mapping[str, str], resolved: str) -> None:
    if not ours:
        raise InvalidRequest(
            "the table was never read at its registered location, so it cannot be "
            "compared: unregister it, then register the new location",
            location=resolved,
        )
    for key in _SAME:
        before, after = ours.get(key, ""), there.get(key, "")
        if before != after:
            raise InvalidRequest(
                "the new location contains another table",
                location=resolved,
                property=key,
                registered=before[:200],
                there=after[:200],
            )


def _check_history(table: Table, opened: engine.Table, resolved: str) -> None:
    """Two tables may have been made with the same words; the newest commit that the mirror knows
    was made once.
    """
    completed = InstantRecord.objects.filter(table=table, state="completed", is_archived=False)
    newest = completed.order_by("-completed_at").first()
    if newest is None:
        return
    there = with_archived(opened.list_archived_times(is_partial=True), opened.timeline().instants)
    if not any(
        instant.requested_at == newest.requested_at and instant.completed_at == newest.completed_at
        for instant in there
    ):
        raise InvalidRequest(
            "the table at the new location lacks a commit of this table",
            location=resolved,
            instant=newest.requested_at,
        )
