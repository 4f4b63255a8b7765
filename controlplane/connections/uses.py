"""The current uses of a connection. Apps that store names of connections register a finder."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.connections.models import Connection

FindUses = Callable[[Connection], list[str]]
_FINDERS: list[FindUses] = []


def add_finder(find: FindUses) -> None:
    """Register a finder. A connection for which `find` returns a use is not deleted."""
    if find not in _FINDERS:
        _FINDERS.append(find)


def find_uses(connection: Connection) -> list[str]:
    """Return a description of each use of the connection."""
    return [use for find in _FINDERS for use in find(connection)]
