"""Which brokers of Kafka a request may name, which password of the node each of them is sent, and
which files of certificates it may name: as the node's settings allow it, or as the admin chose who
stored the connection that it names. The worker that makes the client checks the same by its own
environment.
"""

from __future__ import annotations

from django.conf import settings

from controlplane.connections.queries import find_granted_connection
from controlplane.errors import InvalidRequest
from workers.connections import KafkaConnection
from workers.errors import InvalidInput
from workers.sink.config import SinkConfig
from workers.sink.kafka.allowed_brokers import BROKERS_VARIABLE, CA_FOLDER_VARIABLE
from workers.sink.kafka.client_config import connection_settings

PASSWORD_KEY = "sasl.password.env"  # noqa: S105 - the name of an option


def check_brokers(config: SinkConfig, namespace: str) -> None:
    """Refuse, as InvalidRequest, what no worker would connect to for a table of the namespace.
    Connects to nothing.
    """
    if config.connection:
        find_granted_connection(config.connection, KafkaConnection.KIND, namespace)
        return
    environment = {
        # The password itself is known only where the client will run.
        dict(config.client).get(PASSWORD_KEY, ""): "known there",
        BROKERS_VARIABLE: ",".join(settings.SLUICE_KAFKA_BROKERS),
        CA_FOLDER_VARIABLE: settings.SLUICE_KAFKA_CA_FOLDER,
    }
    try:
        connection_settings(config, environment)
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
