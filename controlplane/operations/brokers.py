"""To which brokers of Kafka a request may lead the node: those that its settings name, if they
name any. A password of the node goes to no other, for whoever has it sent chooses who gets it.
"""

from __future__ import annotations

from django.conf import settings

from controlplane.errors import InvalidRequest
from workers.options.option_values import listed
from workers.sink.config import SinkConfig

BROKERS_VARIABLE = "SLUICE_KAFKA_BROKERS"
PASSWORD_KEY = "sasl.password.env"  # noqa: S105 - the name of an option


def check_brokers(config: SinkConfig) -> None:
    """Refuse, as InvalidRequest, a broker that the node's settings do not name."""
    known = settings.SLUICE_KAFKA_BROKERS
    given = listed(config.bootstrap)
    if strangers := [one for one in given if one not in known]:
        if known:
            raise InvalidRequest(
                f"this node reads from the brokers of its setting {BROKERS_VARIABLE} alone",
                key="bootstrap.servers",
                given=strangers,
            )
        if dict(config.client).get(PASSWORD_KEY):
            raise InvalidRequest(
                "a password of the node goes to brokers that its settings name, and they name "
                f"none: whoever runs the node lists them in {BROKERS_VARIABLE}",
                key="bootstrap.servers",
                given=strangers,
            )
