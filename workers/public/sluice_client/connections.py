"""Named connections: Kafka clusters, buckets and databases that requests use by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .connection import Connection, segment
from .rows import ConnectionRow, ConnectionTest


class ConnectionCalls:
    """A part of `Client`."""

    _connection: Connection

    def connections(self) -> list[ConnectionRow]:
        """Return all connections to an admin; to others the usable ones, without settings."""
        return self._connection.get(list[ConnectionRow], "connections/")

    def connection(self, name: str) -> ConnectionRow:
        """Return one connection, without its secrets."""
        return self._connection.get(ConnectionRow, _path(name))

    def create_connection(
        self,
        name: str,
        kind: str,
        settings: Mapping[str, Any],
        *,
        secrets: Mapping[str, str] | None = None,
    ) -> ConnectionRow:
        """Store a connection of the kind `kafka`, `s3` or `postgresql`; `grant_connection` lets
        namespaces use it.
        """
        body = {"name": name, "kind": kind, "settings": dict(settings)}
        return self._connection.ask(
            ConnectionRow, "POST", "connections/", {**body, **_build_secrets(secrets)}
        )

    def change_connection(
        self,
        name: str,
        kind: str,
        settings: Mapping[str, Any],
        *,
        secrets: Mapping[str, str] | None = None,
    ) -> ConnectionRow:
        """Replace all settings. Without `secrets` the stored ones stay, unless the address changes:
        then they must be given again.
        """
        body = {"kind": kind, "settings": dict(settings), **_build_secrets(secrets)}
        return self._connection.ask(ConnectionRow, "PUT", _path(name), body)

    def grant_connection(self, name: str, namespaces: Sequence[str]) -> ConnectionRow:
        """Let the tables of these namespaces use the connection, and those of no others."""
        return self._connection.ask(
            ConnectionRow, "PUT", f"{_path(name)}grants/", {"namespaces": list(namespaces)}
        )

    def test_connection(self, name: str) -> ConnectionTest:
        """Connect with the stored settings: `is_reached`, and the `problem` where it was not."""
        return self._connection.ask(ConnectionTest, "POST", f"{_path(name)}test/", {})

    def delete_connection(self, name: str) -> None:
        """Refused while a schedule, a write or a sink uses it."""
        self._connection.ask(object, "DELETE", _path(name), {})


def _build_secrets(secrets: Mapping[str, str] | None) -> dict[str, Any]:
    return {} if secrets is None else {"secrets": dict(secrets)}


def _path(name: str) -> str:
    return f"connections/{segment(name)}/"
