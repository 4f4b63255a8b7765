"""Named connections check their own settings, and never show a secret."""

from __future__ import annotations

from typing import Any

import pytest

from workers.connections import (
    KINDS,
    SECRETS,
    SETTINGS,
    BucketConnection,
    DatabaseConnection,
    KafkaConnection,
    connection_from_json,
    connection_to_json,
)
from workers.errors import InvalidInput

SECRET = "hunter2-canary"
KAFKA = {
    "bootstrap_servers": "a.lan:9092, [::1]:9093",
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "username": "sluice",
    "password": SECRET,
}
S3 = {"bucket": "drop", "prefix": "in/", "access_key_id": "AKIA", "secret_access_key": SECRET}
POSTGRESQL = {
    "host": "erp.lan",
    "port": "5433",
    "database": "erp",
    "username": "sluice",
    "password": SECRET,
    "ca_certificate": "",
}


@pytest.mark.parametrize(
    ("kind", "settings", "address"),
    [
        ("kafka", KAFKA, "a.lan:9092,[::1]:9093"),
        ("s3", S3, "s3://drop/in"),
        (
            "s3",
            {"bucket": "drop", "endpoint": "http://127.0.0.1:1/"},
            "s3://drop at http://127.0.0.1:1",
        ),
        ("postgresql", POSTGRESQL, "erp.lan:5433/erp"),
        ("postgresql", {**POSTGRESQL, "host": "::1"}, "[::1]:5433/erp"),
    ],
)
def test_settings_come_back_as_they_were_stored_and_no_text_shows_a_secret(
    kind: str, settings: dict[str, Any], address: str
) -> None:
    connection = connection_from_json(kind, settings)

    assert connection_from_json(kind, connection_to_json(connection)) == connection
    assert tuple(connection_to_json(connection)) == SETTINGS[kind]
    assert connection.shown_address == address
    assert SECRET not in f"{connection!r} {connection}"
    assert (kind, connection.SECRETS) == (connection.KIND, SECRETS[kind])
    assert kind in KINDS


@pytest.mark.parametrize(
    ("kind", "settings", "key"),
    [
        ("ftp", {}, "kind"),
        ("kafka", {}, "bootstrap_servers"),
        ("kafka", {**KAFKA, "bootstrap_servers": f"u:{SECRET}@a:1"}, "bootstrap_servers"),
        ("kafka", {**KAFKA, "sasl_mechanism": "GSSAPI"}, "sasl_mechanism"),
        ("kafka", {**KAFKA, "password": ""}, "password"),
        ("kafka", {**KAFKA, "security_protocol": "SSL", "sasl_mechanism": ""}, "username"),
        ("kafka", {"bootstrap_servers": "a:1", "ca_certificate": "x"}, "ca_certificate"),
        ("kafka", {**KAFKA, "sasl.kerberos.kinit.cmd": "sh"}, "sasl.kerberos.kinit.cmd"),
        ("s3", {**S3, "bucket": "drop/in"}, "bucket"),
        ("s3", {**S3, "bucket": "Drop"}, "bucket"),
        ("s3", {**S3, "prefix": "in/../out"}, "prefix"),
        ("s3", {**S3, "endpoint": "http://s3.lan"}, "endpoint"),
        ("s3", {**S3, "endpoint": "http://169.254.169.254"}, "endpoint"),
        ("s3", {**S3, "access_key_id": ""}, "secret_access_key"),
        ("s3", {**S3, "secret_access_key": f"{SECRET}\n"}, "secret_access_key"),
        ("s3", {**S3, "allow_http": "perhaps"}, "allow_http"),
        ("postgresql", {**POSTGRESQL, "host": "/var/run/postgresql"}, "host"),
        ("postgresql", {**POSTGRESQL, "host": "a,b"}, "host"),
        ("postgresql", {**POSTGRESQL, "host": ""}, "host"),
        ("postgresql", {**POSTGRESQL, "port": "99999"}, "port"),
        ("postgresql", {**POSTGRESQL, "sslmode": "prefer"}, "sslmode"),
        ("postgresql", {**POSTGRESQL, "database": 7}, "database"),
        ("postgresql", {**POSTGRESQL, "ca_certificate": "no PEM"}, "ca_certificate"),
    ],
)
def test_an_invalid_setting_is_refused_by_its_name_and_without_its_value(
    kind: str, settings: dict[str, Any], key: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        connection_from_json(kind, settings)

    assert refused.value.values["key"] == key
    assert SECRET not in str(refused.value)


def test_the_classes_refuse_what_the_reader_of_json_refuses() -> None:
    with pytest.raises(InvalidInput):
        KafkaConnection(bootstrap_servers="nowhere")
    with pytest.raises(InvalidInput):
        BucketConnection(bucket="drop", prefix="..")
    with pytest.raises(InvalidInput):
        DatabaseConnection(host="a b", database="erp", username="sluice")
