"""Probe whether a connection is reached, with the clients that jobs use."""

from __future__ import annotations

from typing import assert_never

from controlplane.connections.models import Connection
from controlplane.connections.queries import connection_settings
from controlplane.errors import InvalidRequest
from controlplane.tables.masks import MASK
from workers.connections import (
    BucketConnection,
    DatabaseConnection,
    KafkaConnection,
    connection_from_json,
)
from workers.errors import LakehouseError


def find_problem(connection: Connection) -> str:
    """Connect and sign in; return the problem that the server or the network reported.

    Empty where the connection was reached. No secret is in the text.
    """
    # Late: few requests load the clients.
    from workers.postgresql import check_database
    from workers.sink.kafka.topics import check_kafka
    from workers.storage.opener import check_bucket

    try:
        settings = connection_settings(connection)
    except InvalidRequest as error:
        return str(error)
    try:
        opened = connection_from_json(connection.kind, settings)
        match opened:
            case KafkaConnection():
                check_kafka(opened)
            case BucketConnection():
                check_bucket(opened)
            case DatabaseConnection():
                check_database(opened)
            case _:
                assert_never(opened)
    except LakehouseError as error:
        problem = str(error)
        for name in connection.secret_names:  # A server's answer may repeat what it was sent.
            problem = problem.replace(str(settings[name]), MASK)
        return problem
    return ""
