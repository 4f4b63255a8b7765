"""Settings of Kafka clients, built here key by key.

No user's settings are passed through: a map of client settings can name programs to run, libraries
to load and addresses to call (reliability 4.2, T5). Users can set only the few options of the sink,
each with its own grammar. The password is read from an environment variable whose name begins with
`SLUICE_KAFKA_`, so a request cannot send another secret of the process to a broker. It is sent only
to the brokers to which the node's settings bind it. A named connection, which an admin stored, has
its own brokers and password. Every Kafka client gets its settings here, so no broker is reached
before these checks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from workers.connections import (
    SASL_MECHANISMS,
    SECURITY_PROTOCOLS,
    KafkaConnection,
    is_server,
)
from workers.errors import InvalidInput
from workers.given_connection import load_connection
from workers.locations import lies_under, resolve_location
from workers.options.option_values import parse_list
from workers.sink.config import SinkConfig
from workers.sink.kafka.allowed_brokers import (
    BROKERS_VARIABLE,
    CA_FOLDER_VARIABLE,
    PASSWORD_PREFIX,
    parse_allowed_brokers,
)

ClientSettings = dict[str, str | int | bool]

QUEUE_BYTES_MAX = 16 << 20
"""Most bytes of a partition that a client fetches ahead."""

_FETCH_BYTES_MAX = 4 << 20
_PASSWORD_VARIABLE = re.compile(PASSWORD_PREFIX + r"[A-Z0-9_]{1,100}")
_SERVERS_MAX = 64
_ALWAYS: ClientSettings = {
    # A broker that comes back is found within a second, not within ten.
    "reconnect.backoff.ms": 100,
    "reconnect.backoff.max.ms": 1_000,
    "socket.keepalive.enable": True,
    "log_level": 0,  # Failed calls report a broker that is down.
}
# When a topic is deleted and made again, within seconds instead of minutes.
_NOTICES_NEW_TOPIC: ClientSettings = {
    "topic.metadata.refresh.interval.ms": 2_000,
    "topic.metadata.propagation.max.ms": 1_000,
}


def connection_settings(config: SinkConfig, environment: Mapping[str, str]) -> ClientSettings:
    """Return the settings for brokers and authentication. `environment` has the named connection;
    or the password, and the node's settings that bind it to brokers (`parse_allowed_brokers`).

    Raises InvalidInput, which names the option.
    """
    if config.connection:
        opened = load_connection(config.connection, environment)
        if not isinstance(opened, KafkaConnection):
            raise InvalidInput("this is not a connection to Kafka", connection=config.connection)
        return kafka_settings(opened, client_id=f"sluice-{config.sink_id}")
    settings: ClientSettings = {
        "bootstrap.servers": _parse_servers(config.bootstrap),
        "client.id": f"sluice-{config.sink_id}",
        **_ALWAYS,
    }
    options = dict(config.client)
    variable = options.pop("sasl.password.env", "")
    if variable:
        _check_variable(variable)
    for key, value in options.items():
        settings[key] = _CHECKS[key](key, value, environment)
    _check_together({**settings, **({"sasl.password": ""} if variable else {})})
    parse_allowed_brokers(environment.get(BROKERS_VARIABLE, "")).check(
        parse_list(config.bootstrap), variable, str(settings.get("security.protocol", ""))
    )
    if variable:
        settings["sasl.password"] = _get_password(variable, environment)
    return settings


def kafka_settings(opened: KafkaConnection, *, client_id: str) -> ClientSettings:
    """Return the settings of a client with a named connection. An admin chose its brokers."""
    settings: ClientSettings = {
        "bootstrap.servers": opened.bootstrap_servers,
        "client.id": client_id,
        "security.protocol": opened.security_protocol,
        **_ALWAYS,
    }
    more = {
        "sasl.mechanism": opened.sasl_mechanism,
        "sasl.username": opened.username,
        "sasl.password": opened.password,
        "ssl.ca.pem": opened.ca_certificate,
    }
    return {**settings, **{key: value for key, value in more.items() if value}}


def consumer_settings(config: SinkConfig, environment: Mapping[str, str]) -> ClientSettings:
    """Return the settings of a consumer of one partition, which stores no offsets itself."""
    return {
        **connection_settings(config, environment),
        "group.id": group_id(config),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "check.crcs": True,
        "queued.min.messages": 1_000_000,  # The bytes below are the bound.
        "queued.max.messages.kbytes": QUEUE_BYTES_MAX >> 10,
        "max.partition.fetch.bytes": _FETCH_BYTES_MAX,
        "fetch.max.bytes": _FETCH_BYTES_MAX,
        "fetch.wait.max.ms": 100,
        "fetch.queue.backoff.ms": 5,  # A full queue is checked again at once, not after 1 s.
        "fetch.error.backoff.ms": 100,
    }


def control_consumer_settings(
    config: SinkConfig, environment: Mapping[str, str], *, worker: str
) -> ClientSettings:
    """Return the settings of a consumer of the control topic. Each worker process has its own
    group, and starts at the end of the topic.
    """
    return {
        **connection_settings(config, environment),
        "group.id": f"{group_id(config)}-control-{worker}",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": "read_uncommitted",
        "auto.offset.reset": "latest",
        "fetch.wait.max.ms": 500,
        **_NOTICES_NEW_TOPIC,
        "fetch.error.backoff.ms": 100,
        "queued.max.messages.kbytes": 8 << 10,
    }


def producer_settings(
    config: SinkConfig, environment: Mapping[str, str], *, timeout_s: float
) -> ClientSettings:
    """Return the settings of a producer that sends once and in order, or fails in time."""
    return {
        **connection_settings(config, environment),
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 5,
        **_NOTICES_NEW_TOPIC,
        "delivery.timeout.ms": int(timeout_s * 1000),
        "message.max.bytes": 1_000_000,
    }


def replay_settings(
    config: SinkConfig, environment: Mapping[str, str], *, location: str
) -> ClientSettings:
    """Return the settings of the transactional producer of a table's sink, one at a time."""
    table = hashlib.sha256(location.encode()).hexdigest()[:12]
    return {
        **connection_settings(config, environment),
        "transactional.id": f"sluice-replay-{config.sink_id}-{table}",
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 5,
        # The topic accepted these records before; the broker has its own bound.
        "message.max.bytes": 1_000_000_000,
    }


def group_id(config: SinkConfig) -> str:
    """Return the consumer group whose offsets follow the table's, for tools that show lag."""
    return f"sluice-{config.sink_id}"


def _parse_servers(text: str) -> str:
    servers = parse_list(text)
    is_good = 1 <= len(servers) <= _SERVERS_MAX and all(map(is_server, servers))
    if not is_good:
        value = {} if "@" in text else {"given": text}  # Before an @ there may be a password.
        raise InvalidInput(
            "brokers are written host:port,host:port", key="bootstrap.servers", **value
        )
    return ",".join(servers)


def _check_variable(variable: str) -> None:
    if not _PASSWORD_VARIABLE.fullmatch(variable):
        # The value is not shown: it may be the password itself.
        raise InvalidInput(
            "the password must be the name of an environment variable that begins with "
            + PASSWORD_PREFIX,
            key="sasl.password.env",
        )


def _get_password(variable: str, environment: Mapping[str, str]) -> str:
    if not (password := environment.get(variable, "")):
        raise InvalidInput(
            "the password's variable is not set", key="sasl.password.env", given=variable
        )
    return password


_Check = Callable[[str, str, Mapping[str, str]], str]


def _check_choice(allowed: tuple[str, ...]) -> _Check:
    def check(key: str, value: str, _: Mapping[str, str]) -> str:
        if value.upper() not in allowed:
            raise InvalidInput("value is not one of those allowed", key=key, allowed=allowed)
        return value.upper()

    return check


def _check_username(key: str, value: str, _: Mapping[str, str]) -> str:
    if len(value) > 255 or not value.isprintable():
        raise InvalidInput("not a name", key=key, given=value)
    return value


def _check_certificates(key: str, value: str, environment: Mapping[str, str]) -> str:
    """Check the path of a certificates file, and return it with links resolved. For a path outside
    the folder, the error does not reveal whether the file exists.
    """
    if not (folder := environment.get(CA_FOLDER_VARIABLE, "")):
        raise InvalidInput(
            "this node takes no file of certificates: ask its administrator to name a folder of "
            f"them in {CA_FOLDER_VARIABLE}",
            key=key,
        )
    is_plain = value.startswith("/") and value.isprintable()
    place = resolve_location(value) if is_plain else ""
    if not lies_under(place, resolve_location(folder)):
        raise InvalidInput(
            "a file of certificates is named by its absolute path below the folder of the setting "
            + CA_FOLDER_VARIABLE,
            key=key,
            given=value,
        )
    if not Path(place).is_file():
        raise InvalidInput("there is no such file of certificates", key=key, given=value)
    return place


def _check_together(settings: ClientSettings) -> None:
    is_sasl = str(settings.get("security.protocol", "")).startswith("SASL_")
    sasl = ("sasl.mechanism", "sasl.username", "sasl.password")
    if is_sasl and (missing := [key for key in sasl if key not in settings]):
        raise InvalidInput("security.protocol asks for more", missing=missing)
    if not is_sasl and (idle := [key for key in sasl if key in settings]):
        raise InvalidInput("security.protocol does not use these", given=idle)


_CHECKS: dict[str, _Check] = {
    "security.protocol": _check_choice(SECURITY_PROTOCOLS),
    "sasl.mechanism": _check_choice(SASL_MECHANISMS),
    "sasl.username": _check_username,
    "ssl.ca.location": _check_certificates,
}
