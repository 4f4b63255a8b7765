"""What reaches librdkafka: the keys built here, from values held to a grammar, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from workers.errors import InvalidInput
from workers.sink.config import sink_config
from workers.sink.kafka.client_config import (
    ClientSettings,
    connection,
    consumer_settings,
    control_consumer_settings,
    producer_settings,
)

CONNECTION = {
    "bootstrap.servers",
    "client.id",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "socket.keepalive.enable",
    "log_level",
}
GIVEN = {
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
}
DANGEROUS = (
    "sasl.kerberos.kinit.cmd",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.jaas.config",
    "sasl.password",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.engine.location",
    "plugin.library.paths",
    "interceptor.classes",
    "config.providers",
    "enable.ssl.certificate.verification",
    "debug",
    "builtin.features",
)
SASL = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "sluice",
    "sasl.password.env": "SLUICE_KAFKA_PASSWORD",
}
ENVIRONMENT = {"SLUICE_KAFKA_PASSWORD": "a secret", "SLUICE_SECRET_KEY": "another"}


@pytest.mark.parametrize("key", DANGEROUS)
def test_client_setting_that_is_no_option_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput, match=f"key={key}"):
        settings(**{key: "x"})


def test_generated_settings_hold_only_known_keys(tmp_path: Path) -> None:
    certificates = tmp_path / "ca.pem"
    certificates.touch()
    config = sink_config(
        {"hoodie.kafka.topic": "trips", **SASL, "ssl.ca.location": str(certificates)}
    )

    assert set(connection(config, ENVIRONMENT)) == CONNECTION | GIVEN
    assert connection(config, ENVIRONMENT)["sasl.password"] == "a secret"
    assert connection(config, ENVIRONMENT)["security.protocol"] == "SASL_SSL"


def test_library_knows_every_key_that_is_generated() -> None:
    config = sink_config({"hoodie.kafka.topic": "trips"})

    Consumer(dict(consumer_settings(config, {}))).close()
    Consumer(dict(control_consumer_settings(config, {}, worker="w"))).close()
    Producer(dict(producer_settings(config, {}, timeout_s=10.0))).flush(0)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"bootstrap.servers": "localhost"}, "host:port"),
        ({"bootstrap.servers": "localhost:99999"}, "host:port"),
        ({"bootstrap.servers": ""}, "host:port"),
        ({"bootstrap.servers": "file:///etc/passwd"}, "host:port"),
        ({**SASL, "security.protocol": "KERBEROS"}, "not one of those allowed"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "not one of those allowed"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "not one of those allowed"),
        ({**SASL, "sasl.username": "a\nb"}, "not a name"),
        ({**SASL, "sasl.username": ""}, "sasl.username"),
        ({**SASL, "sasl.password.env": "SLUICE_SECRET_KEY"}, "begins with SLUICE_KAFKA_"),
        ({**SASL, "sasl.password.env": "SLUICE_KAFKA_OTHER"}, "is not set"),
        ({**SASL, "security.protocol": "SSL"}, "does not use these"),
        ({"ssl.ca.location": "ca.pem"}, "absolute path"),
        ({"ssl.ca.location": "/no/such/file"}, "absolute path"),
    ],
)
def test_value_that_is_none_is_refused_by_name(given: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        settings(**given)


def test_servers_are_hosts_and_ports() -> None:
    servers = settings(**{"bootstrap.servers": "a.example:9092, [::1]:9093"})["bootstrap.servers"]

    assert servers == "a.example:9092,[::1]:9093"


def settings(**options: str) -> ClientSettings:
    return connection(sink_config({"hoodie.kafka.topic": "trips", **options}), ENVIRONMENT)


def test_a_password_that_was_given_in_the_place_of_its_name_is_not_echoed() -> None:
    with pytest.raises(InvalidInput) as refused:
        settings(**{**SASL, "sasl.password.env": "hunter2-and-more"})

    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(refused.value.values)
