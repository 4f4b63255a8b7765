"""A sink behind TLS, names and passwords: it runs, keeps the password to itself, and says what is
wrong with what it was told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sink.conftest import MakeTable
from tests.support.kafka import client, fresh_topic, sink_of
from tests.support.kafka_jars import require_class_path
from tests.support.secured_kafka import PASSWORD, USER, SecuredKafka
from tests.support.sink_run import assert_each_offset_once, send
from tests.support.spark_sink_run import SparkSinkRun
from workers.connections import KafkaConnection
from workers.errors import KafkaFailed
from workers.given_connection import connection_environment
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.client_config import connection_settings
from workers.sink.kafka.failures import NO_TLS
from workers.sink.kafka.topics import Topics, check_kafka

VARIABLE = "SLUICE_KAFKA_ORDERS"
EACH = 2_000

pytestmark = pytest.mark.slow  # A broker of its own, behind TLS.


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    made = SecuredKafka(tmp_path_factory.mktemp("secured"), require_class_path())
    yield made
    made.broker.stop()


@pytest.fixture
def kafka(secured: SecuredKafka) -> Broker:
    return secured.broker


@pytest.fixture
def topics(kafka: Broker) -> Topics:
    return Topics(client(kafka))


@pytest.fixture
def topic(topics: Topics) -> str:
    return fresh_topic(topics, 4)


def options(secured: SecuredKafka, mechanism: str, **others: str) -> dict[str, str]:
    return {
        "bootstrap.servers": secured.address,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password.env": VARIABLE,
        "ssl.ca.location": str(secured.authority),
        **others,
    }


def environment(secured: SecuredKafka, password: str, broker: str = "") -> dict[str, str]:
    """Of a node that sends this password to the broker."""
    return {
        VARIABLE: password,
        "SLUICE_KAFKA_BROKERS": f"{VARIABLE}={broker or secured.address}",
        "SLUICE_KAFKA_CA_FOLDER": str(secured.authority.parent),
    }


def named(secured: SecuredKafka, **changed: str) -> dict[str, str]:
    """The settings of a named connection."""
    return {
        "bootstrap_servers": secured.address,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "username": USER,
        "password": PASSWORD,
        "ca_certificate": secured.authority.read_text(),
        **changed,
    }


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("is_named", [False, True], ids=["variable", "connection"])
def test_sink_runs_over_tls_with_a_password_that_is_written_nowhere(
    secured: SecuredKafka,
    topic: str,
    location: str,
    make_table: MakeTable,
    tmp_path: Path,
    is_named: bool,
) -> None:
    given = {"name": "orders", "kind": "kafka", "settings": named(secured)}
    connected = {"bootstrap.servers": "", "connection": "orders"}
    run = SparkSinkRun(
        location,
        make_table(topic, **(connected if is_named else options(secured, "SCRAM-SHA-512"))),
        tmp_path,
        4,
        connection_environment(given) if is_named else environment(secured, PASSWORD),
    )
    run.start()
    try:
        for partition in range(4):
            send(secured.broker, topic, partition, 0, EACH)
        ends = dict.fromkeys(range(4), EACH)
        run.await_offsets(ends, within_s=240)
        run.stop()
    finally:
        run.end()

    assert run.launches == 1, "it was let in at once"
    assert_each_offset_once(location, ends)
    written = [one for root in (run.run_dir, Path(location)) for one in root.rglob("*")]
    files_with_password = [
        one for one in written if one.is_file() and PASSWORD.encode() in one.read_bytes()
    ]
    assert files_with_password == []


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_each_mechanism_is_let_in(secured: SecuredKafka, topic: str, mechanism: str) -> None:
    sink = sink_of(secured.broker, topic, **options(secured, mechanism))

    facts = Topics(connection_settings(sink, environment(secured, PASSWORD))).facts(topic)

    assert sorted(facts.watermarks) == [0, 1, 2, 3]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_named_connection_is_let_in_by_its_own_authority(
    secured: SecuredKafka, mechanism: str
) -> None:
    check_kafka(KafkaConnection(**named(secured, sasl_mechanism=mechanism)))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"password": "guessed"}, "Invalid username or password|invalid credentials"),
        ({"username": "nobody"}, "Invalid username or password|invalid credentials"),
        ({"ca_certificate": ""}, "certificate"),
    ],
)
def test_test_of_a_connection_says_why_it_is_not_let_in(
    secured: SecuredKafka, wrong: dict[str, str], why: str
) -> None:
    with pytest.raises(KafkaFailed, match=why) as refused:
        check_kafka(KafkaConnection(**named(secured, **wrong)))

    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "password", "why"),
    [
        ({"sasl.mechanism": "SCRAM-SHA-512"}, "guessed", "invalid credentials"),
        ({"sasl.mechanism": "PLAIN"}, "guessed", "Invalid username or password"),
        ({"sasl.username": "nobody"}, PASSWORD, "Invalid username or password"),
        ({"ssl.ca.location": "other"}, PASSWORD, "certificate"),
        ({"bootstrap.servers": "open"}, PASSWORD, NO_TLS),
        ({"bootstrap.servers": "no-such-host.invalid:9092"}, PASSWORD, "Failed to resolve"),
        ({"bootstrap.servers": "127.0.0.1:1"}, PASSWORD, "Connection refused"),
    ],
)
def test_what_is_wrong_is_told_and_not_only_that_nobody_answers(
    secured: SecuredKafka, topic: str, wrong: dict[str, str], password: str, why: str
) -> None:
    paths = {"other": str(secured.other_authority), "open": secured.broker.bootstrap}
    given = {key: paths.get(value, value) for key, value in wrong.items()}
    sink = sink_of(secured.broker, topic, **options(secured, "PLAIN", **given))
    topics = Topics(
        connection_settings(sink, environment(secured, password, sink.bootstrap)), timeout_s=2.0
    )

    with pytest.raises(KafkaFailed, match=re.escape(why)) as raised:
        topics.facts(topic)

    assert sink.bootstrap in str(raised.value)
    assert password not in str(raised.value)


def test_protocol_that_the_broker_does_not_speak_is_named(
    secured: SecuredKafka, topic: str
) -> None:
    sink = sink_of(secured.broker, topic, **{"bootstrap.servers": secured.address})

    with pytest.raises(KafkaFailed, match="protocol=PLAINTEXT"):
        Topics(connection_settings(sink, {}), timeout_s=2.0).facts(topic)
