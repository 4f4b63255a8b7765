"""Secrets are masked by name and by value, in every spelling, and ordinary words stay (T15)."""

from __future__ import annotations

import logging

import pytest

from workers.log_lines import LineFormatter
from workers.masking import Masker, secret_values

CANARY = "c4nary/Key+41"


@pytest.mark.parametrize(
    "text",
    [
        "password=c4nary/Key+41",
        "fs.s3a.secret.key = c4nary/Key+41, region=eu",
        '{"aws_secret_access_key": "c4nary/Key+41", "n": 1}',
        r'"{\"token\": \"c4nary/Key+41\"}"',
        "{'api_key': 'c4nary/Key+41'}",
        "Authorization: Worker c4nary/Key+41",
        "authorization=Bearer c4nary/Key+41",
        "got Bearer c4nary/Key+41-and-more",
        "postgres://sluice:c4nary@Key+41@db.example/sluice",
        'sasl.jaas.config=PlainLoginModule required username="u" password="c4nary/Key+41";',
        "https://bucket/key?X-Amz-Signature=c4nary/Key+41&x=1",
        "started: writer --db-password c4nary/Key+41 --table trips",
        "-----BEGIN RSA PRIVATE KEY-----\\nc4nary/Key+41\\n-----END RSA PRIVATE KEY-----",
        "Set-Cookie: c4nary/Key+41",
    ],
)
def test_what_is_named_like_a_secret_is_masked(text: str) -> None:
    masked = Masker().mask(text)
    line = LineFormatter().format(logging.makeLogRecord({"msg": text, "name": "writer"}))

    for shown in (masked, line):
        assert "c4nary" not in shown, shown
        assert "***" in shown


@pytest.mark.parametrize(
    "text",
    [
        "read c4nary/Key+41 from the topic",
        "GET /c4nary%2FKey%2B41?x=1",
        "xxc4nary/Key+41xx",
    ],
)
def test_a_secret_value_is_masked_wherever_it_stands(text: str) -> None:
    values = secret_values({"AWS_SECRET_ACCESS_KEY": CANARY})

    assert "c4nary" not in Masker(values).mask(text)


@pytest.mark.parametrize("name", ["AZURE_STORAGE_KEY", "SLUICE_KAFKA_ORDERS", "db.password"])
def test_a_variable_is_known_as_a_secret_by_its_name(name: str) -> None:
    assert secret_values({name: CANARY}) == {CANARY}


@pytest.mark.parametrize(
    "name",
    ["hoodie.table.recordkey.fields", "record_key", "AWS_REGION", "SLUICE_KAFKA_BROKERS",
     "SLUICE_KAFKA_CA_FOLDER"],
)  # fmt: skip
def test_a_name_that_only_looks_like_one_gives_no_secret(name: str) -> None:
    assert secret_values({name: CANARY}) == set()


def test_a_password_in_an_address_is_a_secret_value() -> None:
    values = secret_values({"SLUICE_LOCK_URL": "redis://:c4nary%2FKey%2B41@cache:6379/0"})

    assert "c4nary" not in Masker(values).mask("login c4nary/Key+41 failed")


def test_ordinary_text_stays_as_it_is() -> None:
    named = {
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/token",
        "SLUICE_TOKEN": "short",
        "HOME": "/home/sluice",
    }
    masker = Masker(secret_values(named))

    for text in (
        "this token is for another operation",
        "wrote 3 files in 2.1 s: /var/run/secrets/token, short",
        "driver launched: pid=4711 key=origin,time_hour",
        "http://127.0.0.1:8000/api/v1/reports/operations/",
    ):
        assert masker.mask(text) == text


def test_masking_twice_is_masking_once() -> None:
    masker = Masker([CANARY])
    once = masker.mask(f"password={CANARY} and {CANARY}")

    assert masker.mask(once) == once


@pytest.mark.parametrize(
    "text", ["password" * 80_000, "a" * 640_000, "://" * 200_000, "--key" * 90_000]
)
def test_no_text_takes_long(text: str) -> None:
    """A second, or most of an hour where the work grows with the square of the length: then the
    time limit of tests ends it.
    """
    assert Masker([CANARY]).mask(text) == text
