"""Which role each table service needs. What takes committed data away is an admin's."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import dataclass

from controlplane.operations.descriptions.services import get_service
from controlplane.tables.access import Caller, Permission
from controlplane.tables.models import Table
from controlplane.tables.row_access import row_access
from workers.loading.options import DECODED_KEY
from workers.table_services import registry
from workers.table_services.input_rows import PATH_KEY

DELETE = "delete"
_NOT_SCHEDULED = frozenset({"savepoint", "delete_markers"})
"""A savepoint names an instant, so a person requests it. Orphaned markers go with the next writer.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceKind:
    name: str
    title: str
    is_destructive: bool
    """Then the table's name is typed and a reason given."""
    role: str


def service_kinds() -> list[ServiceKind]:
    """All services that the engine has, by name."""
    return [
        ServiceKind(
            name=name,
            title=get_service(name).title,
            is_destructive=is_destructive(name),
            role=permission_of(name).role,
        )
        for name in registry.list_service_names()
    ]


def schedulable_services() -> list[str]:
    """Those that may run by themselves, by name: none takes committed data away."""
    return [
        kind.name
        for kind in service_kinds()
        if not kind.is_destructive and kind.name not in _NOT_SCHEDULED
    ]


def is_destructive(service: str) -> bool:
    return get_service(service).permission is Permission.ADMINISTER


def permission_of(service: str) -> Permission:
    """What running the service needs."""
    return get_service(service).permission


def permission_to_plan(parameters: Mapping[str, str]) -> Permission:
    """Whoever sees a table may see what would be done to it; a plan that opens another file needs
    more, and one that lets a file decode to any size an admin.
    """
    if parameters.get(DECODED_KEY):
        return Permission.ADMINISTER
    return Permission.OPERATE if PATH_KEY in parameters else Permission.VIEW


def check_row_choice(user: Caller, table: Table, service: str, parameters: Sized) -> None:
    """A plan that chooses rows by what they hold says how many do, and enough such plans say what:
    it is for whoever sees all values of the rows. Raises PermissionDenied.
    """
    if service == DELETE and parameters:
        row_access(user, table).check_all()
