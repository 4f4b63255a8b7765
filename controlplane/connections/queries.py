"""Find the connections that a user sees or a request may use, and the settings for a worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404

from controlplane.connections.models import Connection
from controlplane.encryption import CONNECTIONS, SealBroken
from controlplane.errors import InvalidRequest
from controlplane.tables.access import (
    Permission,
    may_everywhere,
    may_in_namespace,
    may_somewhere,
    visible_tables,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRow:
    """A connection without its secrets."""

    name: str
    kind: str
    address: str
    settings: dict[str, Any] | None
    """For admins alone, as is everything below `namespaces`; None for other users."""
    secrets: list[str]
    """The names of the secrets that are stored."""
    namespaces: list[str]
    """Those that may use it; for users who are not admins, those of them that the user operates."""
    created_by: str
    created_at: datetime | None
    changed_by: str
    changed_at: datetime | None
    tested_at: datetime | None
    tested_by: str
    test_problem: str


def find_granted_connection(name: str, kind: str, namespace: str) -> Connection:
    """Return the connection of this name and kind that tables of the namespace may use.

    Raises InvalidRequest, with the same words where there is none and where it is not granted.
    """
    connection = Connection.objects.filter(
        name=name, kind=kind, grants__namespace=namespace
    ).first()
    if connection is None:
        raise InvalidRequest(
            f"no {kind} connection of this name is granted to the namespace: ask an admin to "
            "create or grant it",
            connection=name[:80],
            namespace=namespace,
        )
    return connection


def usable_connections(kind: str, namespace: str) -> list[tuple[str, str]]:
    """Return the name and the address of each connection of the kind that tables of the namespace
    may use, by name. For users who may see a table of it.
    """
    rows = Connection.objects.filter(kind=kind, grants__namespace=namespace).order_by("name")
    return list(rows.values_list("name", "shown_address"))


def connection_settings(connection: Connection) -> dict[str, Any]:
    """Return the settings and the secrets of the connection, for the client that opens it alone.

    Raises InvalidRequest where the node's secret key is not the one that sealed them.
    """
    sealed = connection.sealed_secrets
    try:
        secrets: dict[str, str] = json.loads(CONNECTIONS.open(sealed)) if sealed else {}
    except SealBroken as error:
        raise InvalidRequest(str(error), connection=connection.name) from error
    return {**connection.settings, **secrets}


def check_admin(user: User) -> None:
    """Raise PermissionDenied unless the user is an admin of everything."""
    if not may_everywhere(user, Permission.ADMINISTER):
        raise PermissionDenied("this requires the admin role")


def connection_rows(user: User) -> list[ConnectionRow]:
    """Return the connections by name: all for an admin, for others those that are granted to a
    namespace in which they operate a table.

    Raises PermissionDenied for users who operate nothing.
    """
    if not may_somewhere(user, Permission.OPERATE):
        raise PermissionDenied("this requires the operator role")
    rows = Connection.objects.prefetch_related("grants")
    is_admin = may_everywhere(user, Permission.ADMINISTER)
    if is_admin or may_everywhere(user, Permission.OPERATE):
        namespaces = None
    else:
        namespaces = _find_operated_namespaces(
            user, rows.values_list("grants__namespace", flat=True)
        )
        rows = rows.filter(grants__namespace__in=namespaces).distinct()
    listed = (_row(connection, is_admin, namespaces) for connection in rows.order_by("name"))
    return [row for row in listed if is_admin or row.namespaces]


def connection_row(user: User, name: str) -> ConnectionRow:
    """Return this connection. Raises PermissionDenied as `connection_rows` does, and Http404 where
    there is none or the user does not see it.
    """
    row = next((row for row in connection_rows(user) if row.name == name), None)
    if row is None:
        raise Http404("no connection has this name")
    return row


def _find_operated_namespaces(user: User, namespaces: Any) -> set[str]:
    """Return the namespaces in which the user operates a table, or every future table."""
    of_tables = set(
        visible_tables(user, Permission.OPERATE).values_list("namespace", flat=True).distinct()
    )
    return {
        namespace
        for namespace in set(namespaces) - {None}
        if namespace in of_tables or may_in_namespace(user, Permission.OPERATE, namespace)
    }


def _row(connection: Connection, is_admin: bool, namespaces: set[str] | None) -> ConnectionRow:
    granted = sorted(grant.namespace for grant in connection.grants.all())
    visible = granted if namespaces is None else [name for name in granted if name in namespaces]
    return ConnectionRow(
        name=connection.name,
        kind=connection.kind,
        address=connection.shown_address,
        settings=connection.settings if is_admin else None,
        secrets=list(connection.secret_names) if is_admin else [],
        namespaces=visible,
        created_by=connection.created_by if is_admin else "",
        created_at=connection.created_at if is_admin else None,
        changed_by=connection.changed_by if is_admin else "",
        changed_at=connection.changed_at if is_admin else None,
        tested_at=connection.tested_at if is_admin else None,
        tested_by=connection.tested_by if is_admin else "",
        test_problem=connection.test_problem if is_admin else "",
    )


FindUses = Callable[[Connection], list[str]]
_FINDERS: list[FindUses] = []


def add_finder(find: FindUses) -> None:
    """Register a finder of uses, for an app that stores names of connections. A connection for
    which it returns a use is not deleted.
    """
    if find not in _FINDERS:
        _FINDERS.append(find)


def find_uses(connection: Connection) -> list[str]:
    """Return a description of each use of the connection."""
    return [use for find in _FINDERS for use in find(connection)]
