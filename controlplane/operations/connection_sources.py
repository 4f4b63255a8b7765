"""Sources that a named connection reaches: files in a bucket, and rows of a database (threat T33).

A request names the connection and what to read there. It can name neither an address nor a secret.
Everything is checked when the write is requested, at each turn of a schedule, and again as its
worker begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django.conf import settings

from controlplane.connections.queries import connection_settings, find_granted_connection
from controlplane.errors import InvalidRequest
from controlplane.operations.descriptions.write import FILES, part_names
from controlplane.operations.source_places import tables_above
from workers.connections import (
    BucketConnection,
    Connection,
    DatabaseConnection,
    connection_from_json,
)
from workers.errors import InvalidInput
from workers.loading.options import OPTION_KEYS
from workers.loading.source_files import SourceFile, find_named_places, find_source_files
from workers.locations import resolve_location
from workers.storage.source_places import IN_A_TABLE, place_in_bucket

if TYPE_CHECKING:
    from workers.postgresql import DatabaseQuery

POSTGRESQL: Final = "postgresql"
SOURCE_KEY: Final = "connection"
_KEYS: Final[Mapping[str, frozenset[str]]] = {
    **{kind: frozenset({"kind", *part_names(kind), *OPTION_KEYS}) for kind in FILES},
    POSTGRESQL: frozenset({"kind", *part_names(POSTGRESQL)}),
}
_Kind = TypeVar("_Kind", BucketConnection, DatabaseConnection)


def has_connection(source: Mapping[str, Any]) -> bool:
    """Return whether the source reads files or rows by a connection; a topic has its own check."""
    kind = source.get("kind")
    return kind == POSTGRESQL or (kind in _KEYS and bool(source.get(SOURCE_KEY)))


def check_connection_source(source: Mapping[str, Any], namespace: str) -> None:
    """Refuse, as InvalidRequest, a source of `has_connection` that names a connection which tables
    of the namespace may not use, another key, or what cannot be read there. Connects to nothing.
    """
    if source["kind"] == POSTGRESQL:
        database_query(source, namespace)
    else:
        _check_bucket_path(source, namespace)


def bucket_files(
    source: Mapping[str, Any], namespace: str, kind: str
) -> tuple[list[SourceFile], BucketConnection]:
    """Return the files that the source names, one, a folder or a pattern, and the connection that
    reads them. Their names show the format `kind`, or none; empty takes any one format.

    Raises InvalidRequest, also for a file in a registered table or below a table root, where
    nothing matches, and where files differ in format; StorageFailed.
    """
    connection, path = _open_bucket(source, namespace)

    def check(named: str) -> str:
        return _find_object(named, connection)

    try:
        return find_source_files(path, check, kind=kind, connection=connection), connection
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error


def _check_bucket_path(source: Mapping[str, Any], namespace: str) -> None:
    connection, path = _open_bucket(source, namespace)
    find_named_places(path, lambda named: _find_object(named, connection), is_here=False)


def _open_bucket(source: Mapping[str, Any], namespace: str) -> tuple[BucketConnection, str]:
    connection = _open_connection(source, namespace, BucketConnection)
    path = source.get("path")
    if not isinstance(path, str):
        raise InvalidRequest("a file in a bucket requires a path (text)", key="path")
    return connection, path


def _find_object(path: str, connection: BucketConnection) -> str:
    """Return the place of an object by its name alone. Raises InvalidRequest."""
    tables = [resolve_location(root) for root in settings.SLUICE_TABLE_ROOTS]
    try:
        place = place_in_bucket(connection, path, tables)
        if tables_above(place).exists():
            raise InvalidInput(IN_A_TABLE, path=path[:200])
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
    return place


def database_query(
    source: Mapping[str, Any], namespace: str
) -> tuple[DatabaseQuery, DatabaseConnection]:
    """Return what the source asks for, and the connection to its database. The text of a query is
    checked by the database, when it runs. Raises InvalidRequest.
    """
    from workers.postgresql import DatabaseQuery  # Late: it loads a database's client.

    connection = _open_connection(source, namespace, DatabaseConnection)
    table, query = source.get("table", ""), source.get("query", "")
    if not isinstance(table, str) or not isinstance(query, str):
        raise InvalidRequest("a source of kind postgresql requires a table or a query (text)")
    try:
        return DatabaseQuery(table=table, query=query), connection
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error


def _open_connection(source: Mapping[str, Any], namespace: str, cls: type[_Kind]) -> _Kind:
    kind = str(source["kind"])
    if unknown := sorted(str(key)[:40] for key in set(source) - _KEYS[kind]):
        raise InvalidRequest(
            "a connection already contains its address and user: omit these keys",
            keys=unknown,
            known=sorted(_KEYS[kind]),
        )
    name = source.get(SOURCE_KEY)
    if not isinstance(name, str) or not name:
        raise InvalidRequest(
            "a source of this kind requires the name of a connection", key=SOURCE_KEY
        )
    stored = find_granted_connection(name, cls.KIND, namespace)
    try:
        opened: Connection = connection_from_json(cls.KIND, connection_settings(stored))
    except InvalidInput as error:
        raise InvalidRequest(error.message, connection=name) from error
    assert isinstance(opened, cls)
    return opened
