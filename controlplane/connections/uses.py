"""What uses a connection now. Apps that store names of connections say so when they are ready."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.connections.models import Connection

FindUses = Callable[[Connection], list[str]]
_FINDERS: list[FindUses] = []


def add_finder(find: FindUses) -> None:
    """From now on, connections for which `find` names a use are not deleted."""
    if find not in _FINDERS:
        _FINDERS.append(find)


def uses_of(connection: Connection) -> list[str]:
    """Return what uses the connection, each in words."""
    return [use for find in _FINDERS for use in find(connection)]
