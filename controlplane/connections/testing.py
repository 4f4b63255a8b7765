"""Whether a connection is reached, by the clients that jobs use."""

from __future__ import annotations

from controlplane.connections.models import Connection
from controlplane.connections.queries import connection_settings
from controlplane.errors import InvalidRequest
from workers.connections import (
    BucketConnection,
    DatabaseConnection,
    KafkaConnection,
    connection_from_json,
)
from workers.connections import Connection as AnyConnection
from workers.errors import LakehouseError

_HIDDEN = "••••"


def problem_of(connection: Connection) -> str:
    """Connect and sign in; return what the other side, or the network, said against it.

    Empty where the connection was reached. No secret is in the text.
    """
    try:
        settings = connection_settings(connection)
        opened = connection_from_json(connection.kind, settings)
        _check(opened)
    except (LakehouseError, InvalidRequest) as error:
        return _without_secrets(str(error), connection)
    return ""


def _check(opened: AnyConnection) -> None:
    """Raises LakehouseError. Each client is imported late: few requests load one."""
    match opened:
        case KafkaConnection():
            from workers.sink.kafka.topics import check_kafka

            check_kafka(opened)
        case BucketConnection():
            from workers.storage.opening import check_bucket

            check_bucket(opened)
        case DatabaseConnection():
            from workers.postgresql import check_database

            check_database(opened)


def _without_secrets(text: str, connection: Connection) -> str:
    """A server's answer may repeat what it was sent."""
    try:
        settings = connection_settings(connection)
    except InvalidRequest:
        return text
    for name in connection.secret_names:
        text = text.replace(str(settings[name]), _HIDDEN)
    return text
