"""What reaches librdkafka: the keys built here, from values held to a grammar, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from workers.errors import InvalidInput
from workers.sink.config import sink_config
from workers.sink.kafka.allowed_brokers import parse_allowed_brokers
from workers.sink.kafka.client_config import (
    ClientSettings,
    connection_settings,
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
    "bootstrap.servers": "kafka.example:9093",
}
BROKER = "kafka.example:9093"
ENVIRONMENT = {
    "SLUICE_KAFKA_PASSWORD": "a secret",
    "SLUICE_SECRET_KEY": "another",
    "SLUICE_KAFKA_BROKERS": f"SLUICE_KAFKA_PASSWORD={BROKER}, SLUICE_KAFKA_OTHER={BROKER}",
}


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

    settings = connection_settings(config, {**ENVIRONMENT, "SLUICE_KAFKA_CA_FOLDER": str(tmp_path)})

    assert set(settings) == CONNECTION | GIVEN
    assert settings["sasl.password"] == "a secret"
    assert settings["security.protocol"] == "SASL_SSL"


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
    ],
)
def test_value_that_is_none_is_refused_by_name(given: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        settings(**given)


def test_servers_are_hosts_and_ports() -> None:
    config = sink_config(
        {"hoodie.kafka.topic": "trips", "bootstrap.servers": "a.example:9092, [::1]:9093"}
    )

    assert connection_settings(config, {})["bootstrap.servers"] == "a.example:9092,[::1]:9093"


def settings(**options: str) -> ClientSettings:
    options = {"hoodie.kafka.topic": "trips", "bootstrap.servers": BROKER, **options}
    return connection_settings(sink_config(options), ENVIRONMENT)


@pytest.mark.parametrize(
    ("brokers", "password", "others", "says"),
    [
        ("", "SLUICE_KAFKA_PASSWORD", {}, "does not bind this password"),
        (BROKER, "SLUICE_KAFKA_PASSWORD", {}, "does not bind this password"),
        (f"SLUICE_KAFKA_OTHER={BROKER}", "SLUICE_KAFKA_PASSWORD", {}, "does not bind"),
        (f"SLUICE_KAFKA_OTHER={BROKER}", "SLUICE_KAFKA_NONE", {}, "does not bind"),
        ("SLUICE_KAFKA_PASSWORD=kafka.example:9094", "SLUICE_KAFKA_PASSWORD", {}, "not name this"),
        (f"SLUICE_KAFKA_PASSWORD={BROKER}", "SLUICE_KAFKA_PASSWORD",
         {"bootstrap.servers": f"{BROKER},evil.example:9093"}, "does not name this broker"),
        (f"SLUICE_KAFKA_PASSWORD={BROKER},evil.example:9093", "SLUICE_KAFKA_PASSWORD",
         {"bootstrap.servers": f"{BROKER},evil.example:9093"}, "does not bind"),
        (f"SLUICE_KAFKA_PASSWORD={BROKER}", "SLUICE_KAFKA_PASSWORD",
         {"security.protocol": "SASL_PLAINTEXT"}, "does not bind"),
        (f"SLUICE_KAFKA_PASSWORD=SASL_PLAINTEXT://{BROKER}", "SLUICE_KAFKA_PASSWORD", {},
         "does not bind"),
    ],
)  # fmt: skip
def test_password_goes_to_the_brokers_to_which_the_settings_bind_it(
    brokers: str, password: str, others: dict[str, str], says: str
) -> None:
    given = {"hoodie.kafka.topic": "trips", **SASL, "sasl.password.env": password, **others}

    with pytest.raises(InvalidInput, match=says):
        connection_settings(sink_config(given), {**ENVIRONMENT, "SLUICE_KAFKA_BROKERS": brokers})


def test_password_goes_without_tls_where_the_settings_say_so() -> None:
    brokers = f"open.example:9092, SLUICE_KAFKA_PASSWORD=SASL_PLAINTEXT://{BROKER}"
    given = {"hoodie.kafka.topic": "trips", **SASL, "security.protocol": "SASL_PLAINTEXT"}

    made = connection_settings(sink_config(given), {**ENVIRONMENT, "SLUICE_KAFKA_BROKERS": brokers})

    assert made["sasl.password"] == "a secret"


@pytest.mark.parametrize(
    "entry",
    ["localhost", "host:99999", "SLUICE_KAFKA_X=", "PASSWORD=host:1", "SASL_SSL://host:1",
     "SLUICE_KAFKA_X=PLAINTEXT://host:1", "SLUICE_KAFKA_X=a=b:1", "user:pw@host:1"],
)  # fmt: skip
def test_setting_of_brokers_that_cannot_be_read_is_refused(entry: str) -> None:
    with pytest.raises(InvalidInput, match="an entry of SLUICE_KAFKA_BROKERS") as refused:
        parse_allowed_brokers(f"host:1,{entry}")

    assert "pw" not in str(refused.value)


def test_answer_does_not_tell_whether_a_path_is_a_file(tmp_path: Path) -> None:
    folder, outside = tmp_path / "ca", tmp_path / "other"
    for place in (folder, outside):
        place.mkdir()
        (place / "ca.pem").touch()
    (folder / "link.pem").symlink_to(outside / "ca.pem")
    environment = {**ENVIRONMENT, "SLUICE_KAFKA_CA_FOLDER": str(folder)}

    def answer(path: str, environment: dict[str, str]) -> str:
        options = {"hoodie.kafka.topic": "trips", **SASL, "ssl.ca.location": path}
        with pytest.raises(InvalidInput) as refused:
            connection_settings(sink_config(options), environment)
        return str(refused.value).replace(path, "PATH")

    elsewhere = [
        f"{outside}/ca.pem", f"{outside}/none.pem", f"{folder}/../other/ca.pem",
        f"{folder}/link.pem", "ca.pem", "/etc/passwd", "/no/such/file", str(folder),
        f"{folder}\x00",
    ]  # fmt: skip
    [refusal] = {answer(path, environment).replace("\x00", "") for path in elsewhere}
    assert "below the folder of the setting SLUICE_KAFKA_CA_FOLDER" in refusal
    [unset] = {answer(path, ENVIRONMENT) for path in [*elsewhere, f"{folder}/ca.pem"]}
    assert "takes no file of certificates" in unset
    assert "no such file" in answer(f"{folder}/none.pem", environment)


def test_a_password_that_was_given_in_the_place_of_its_name_is_not_echoed() -> None:
    with pytest.raises(InvalidInput) as refused:
        settings(**{**SASL, "sasl.password.env": "hunter2-and-more"})

    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(refused.value.values)
