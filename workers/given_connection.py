"""The transfer of a named connection from the control plane to the process that opens it.

The control plane returns its settings when a job begins, together with the authorization to begin.
The job's process receives them in one variable of its environment: no message, no file and no
command line has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from workers.connections import (
    SECRETS,
    BucketConnection,
    Connection,
    DatabaseConnection,
    connection_from_json,
)
from workers.errors import InvalidInput

CONNECTION_VARIABLE: Final = "SLUICE_CONNECTION"
_Kind = TypeVar("_Kind", BucketConnection, DatabaseConnection)


def connection_environment(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the variable that holds a connection, as the control plane answered it: `name`, `kind`
    and `settings`.

    Raises InvalidInput for invalid settings.
    """
    name, kind, settings = (answer.get(key) for key in ("name", "kind", "settings"))
    if not (isinstance(name, str) and isinstance(kind, str) and isinstance(settings, Mapping)):
        raise InvalidInput("the control plane's answer holds no connection")
    connection_from_json(kind, settings)
    return {CONNECTION_VARIABLE: json.dumps({"name": name, "kind": kind, "settings": settings})}


def load_connection(name: str, environment: Mapping[str, str]) -> Connection:
    """Return the connection of this name that the environment holds. Raises InvalidInput where it
    holds none, or another one.
    """
    try:
        content = json.loads(environment.get(CONNECTION_VARIABLE, "") or "{}")
    except ValueError as error:
        raise InvalidInput("the variable of connections is damaged", connection=name) from error
    if content.get("name") != name:
        raise InvalidInput(
            "this process was not given the connection: only what is asked for by the page, the "
            "API or a schedule can use one",
            connection=name,
        )
    return connection_from_json(content["kind"], content["settings"])


def load_connection_of_kind(name: str, cls: type[_Kind], environment: Mapping[str, str]) -> _Kind:
    """Return the connection of this name and class. Raises InvalidInput as `load_connection` does,
    and for one of another kind.
    """
    connection = load_connection(name, environment)
    if not isinstance(connection, cls):
        raise InvalidInput(
            "the connection is of another kind",
            connection=name,
            kind=connection.KIND,
            needed=cls.KIND,
        )
    return connection


def find_connection_secrets(environment: Mapping[str, str]) -> set[str]:
    """Return the secrets of the connection that the environment holds, for those who mask them."""
    try:
        content = json.loads(environment.get(CONNECTION_VARIABLE, "") or "{}")
    except ValueError:
        return set()
    settings = content.get("settings", {})
    names = SECRETS.get(content.get("kind", ""), ())
    return {str(settings[name]) for name in names if settings.get(name)}
