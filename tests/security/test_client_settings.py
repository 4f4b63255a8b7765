"""Threats T5, T6: a setting of Spark or of a Kafka client is code, a file or an address. What is no
listed key, letter by letter, is refused by every way in; what is generated holds listed keys only.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.operations.models import Operation
from tests.controlplane.lake import Lake
from tests.support.sampling import WHOLE
from tests.support.sinks import TOPIC
from workers.errors import InvalidInput
from workers.options.write_options import write_options
from workers.reporting.tokens import KEY_VARIABLE
from workers.sink.config import SinkConfig, sink_config
from workers.sink.kafka.client_config import (
    consumer_settings,
    control_consumer_settings,
    producer_settings,
    replay_settings,
)
from workers.spark.connect_server import server_command
from workers.spark.process import driver_environment
from workers.spark.settings import ALLOWED, checked_settings

SEED = os.environ["SLUICE_TEST_SEED"]
SENT = 3
"""Of the refused spellings, to each address; all of them in the soak."""


def drawn(tried: Sequence[str], count: int, *, of: str) -> list[str]:
    """So many, or in the soak all."""
    whole = bool(os.environ.get(WHOLE)) or count >= len(tried)
    return list(tried) if whole else random.Random(f"{SEED} {of}").sample(tried, count)


TAKEN_BY_SINKS = frozenset(
    {
        "bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.username",
        "sasl.password.env", "ssl.ca.location",
    }
)  # fmt: skip
GENERATED = TAKEN_BY_SINKS - {"sasl.password.env"} | {
    "sasl.password", "client.id", "group.id", "transactional.id", "enable.auto.commit",
    "enable.auto.offset.store", "enable.partition.eof", "enable.idempotence", "isolation.level",
    "auto.offset.reset", "check.crcs", "queued.min.messages", "queued.max.messages.kbytes",
    "max.partition.fetch.bytes", "fetch.max.bytes", "fetch.wait.max.ms", "fetch.queue.backoff.ms",
    "fetch.error.backoff.ms", "acks", "linger.ms", "delivery.timeout.ms", "message.max.bytes",
    "topic.metadata.refresh.interval.ms", "topic.metadata.propagation.max.ms", "log_level",
    "reconnect.backoff.ms", "reconnect.backoff.max.ms", "socket.keepalive.enable",
}  # fmt: skip
"""No key among them names a program, a library, a class or, but for the brokers, an address."""
_OF_JAVA = """
    sasl.jaas.config sasl.login.class sasl.login.callback.handler.class sasl.kerberos.kinit.cmd
    sasl.client.callback.handler.class sasl.oauthbearer.token.endpoint.url
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class
    ssl.truststore.location ssl.keystore.location ssl.engine.factory.class ssl.provider
    interceptor.classes key.deserializer value.deserializer key.serializer value.serializer
    partitioner.class metric.reporters config.providers config.providers.file.class
    security.providers client.dns.lookup schema.registry.url basic.auth.credentials.source
"""
OF_JAVA = _OF_JAVA.split()
"""Keys of Kafka's client in Java."""
_CODE = """
    spark.jars spark.jars.packages spark.jars.repositories spark.jars.ivy spark.jars.ivySettings
    spark.driver.extraJavaOptions spark.driver.defaultJavaOptions spark.executor.extraJavaOptions
    spark.executor.defaultJavaOptions spark.driver.extraClassPath spark.executor.extraClassPath
    spark.driver.extraLibraryPath spark.plugins spark.extraListeners spark.sql.extensions
    spark.sql.queryExecutionListeners spark.sql.streaming.streamingQueryListeners
    spark.sql.catalogImplementation spark.sql.catalog.spark_catalog spark.sql.warehouse.dir
    spark.submit.pyFiles spark.yarn.dist.pyFiles spark.files spark.archives
    spark.yarn.dist.archives spark.yarn.jars spark.pyspark.python spark.pyspark.driver.python
    spark.python.daemon.module spark.python.worker.module spark.executorEnv.LD_PRELOAD
    spark.yarn.appMasterEnv.PYTHONPATH spark.metrics.conf spark.log.structuredLogging.enabled
    spark.eventLog.dir spark.serializer spark.kryo.registrator spark.closure.serializer
    spark.redaction.regex spark.master spark.submit.deployMode spark.hadoop.fs.s3a.endpoint
    spark.hadoop.fs.file.impl spark.hadoop.hive.metastore.uris spark.hive.exec.post.hooks
    spark.kubernetes.driver.podTemplateFile spark.kubernetes.file.upload.path
    spark.connect.grpc.interceptor.classes spark.connect.extensions.relation.classes
    spark.sql.hive.metastore.jars.path
"""
CODE = _CODE.split()
UNPREFIXED = (
    "jars", "files", "archives", "py-files", "pyFiles", "packages", "master", "driver-java-options",
    "yarn.dist.jars", "hive.exec.pre.hooks", "hadoop.security.credential.provider.path",
    "log4j.configuration",
    "fs.s3a.endpoint", "kyuubi.engine.type", "spark", "", ".", "__class__",
)  # fmt: skip
"""Aliases that some front ends of Spark take without `spark.` before them."""


def spellings(key: str) -> list[str]:
    """The same key as something in between might normalise it."""
    bare = key.removeprefix("spark.")
    return [
        key, bare, f"spark.{key}", f"spark.hadoop.{bare}", f"spark.hive.{bare}", f"hoodie.{key}",
        f"hoodie.{bare}", f"hadoop.{bare}", f"hive.{bare}", f"--conf {key}", f"spark..{bare}",
        key.upper(), key.title(), key.swapcase(), key.replace(".", "_"), key.replace(".", "-"),
        f" {key}", f"{key} ", f"\t{key}", f"{key}\n", f"{key}\x00", f"\ufeff{key}", f"{key}=",
        key.replace(".", "\u2024"), key.replace("s", "\u0455"), key.replace("a", "\uff41"),
        key.replace(".", ".\u200b"), f"{key}\nspark.jars", f"{key}.", f".{key}",
    ]  # fmt: skip


REFUSED_BY_SPARK = sorted(
    {
        spelling
        for key in (*CODE, *UNPREFIXED, *ALLOWED)
        for spelling in spellings(key)
        if spelling not in ALLOWED
    }
)


def keys_of_librdkafka(folder: Path) -> list[str]:
    """All that the installed library knows, aliases too, as it prints them itself."""
    places = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    (shared,) = places.glob("librdkafka*")
    library, system = ctypes.CDLL(str(shared)), ctypes.CDLL(None)
    system.fopen.restype = ctypes.c_void_p
    printed = folder / "keys.txt"
    stream = ctypes.c_void_p(system.fopen(str(printed).encode(), b"w"))
    library.rd_kafka_conf_properties_show(stream)
    system.fclose(stream)
    rows = [line.split("|") for line in printed.read_text().splitlines()]
    return sorted({row[0].strip() for row in rows if len(row) > 4 and row[0][0].islower()})


def taken_by_sink(options: dict[str, str]) -> SinkConfig:
    return sink_config({"hoodie.kafka.topic": TOPIC, **options})


def test_no_spelling_of_a_spark_setting_passes_that_is_not_listed() -> None:
    passed = []
    for spelling in REFUSED_BY_SPARK:
        try:
            checked_settings({spelling: "true"})
        except InvalidInput:
            continue
        passed.append(spelling)

    assert len(REFUSED_BY_SPARK) > 1_500
    assert passed == []


def test_no_spelling_of_a_spark_setting_is_an_option_of_a_write_or_of_a_sink() -> None:
    passed = []
    for spelling in (*CODE[::4], *ALLOWED, *drawn(REFUSED_BY_SPARK, 40, of="options")):
        for takes in (write_options, taken_by_sink):
            try:
                takes({spelling: "true"})
            except InvalidInput:
                continue
            passed.append(spelling)

    assert passed == []


def test_every_key_of_kafkas_clients_that_is_no_option_is_refused(tmp_path: Path) -> None:
    known = keys_of_librdkafka(tmp_path)
    passed = []
    keys = [*known, *OF_JAVA]
    variants = [
        spelling
        for key in keys
        for spelling in (key.upper(), f" {key}", f"consumer.{key}", f"hoodie.kafka.{key}",
                         f"kafka.{key}", key.replace(".", "_"))
    ]  # fmt: skip
    for spelling in (*keys, *drawn(variants, 20, of="kafka")):
        try:
            taken_by_sink({spelling: "1"})
        except InvalidInput:
            continue
        passed.append(spelling)

    assert len(known) > 150
    assert {"plugin.library.paths", "sasl.oauthbearer.config"} <= set(known)
    assert set(passed) <= TAKEN_BY_SINKS


def test_generated_kafka_settings_hold_only_listed_keys(tmp_path: Path) -> None:
    certificates = tmp_path / "ca.pem"
    certificates.touch()
    config = taken_by_sink(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "sluice",
            "sasl.password.env": "SLUICE_KAFKA_T",
            "ssl.ca.location": str(certificates),
        }
    )
    environment = {
        "SLUICE_KAFKA_T": "a password",
        "SLUICE_KAFKA_BROKERS": f"SLUICE_KAFKA_T={config.bootstrap}",
        "SLUICE_KAFKA_CA_FOLDER": str(tmp_path),
    }
    every = (
        consumer_settings(config, environment),
        control_consumer_settings(config, environment, worker="w"),
        producer_settings(config, environment, timeout_s=1.0),
        replay_settings(config, environment, location="/t"),
    )

    assert {key for settings in every for key in settings} == GENERATED


def body_of(address: str, keys: dict[str, str], into: str) -> dict[str, Any]:
    if "sinks" in address:
        options = {"hoodie.kafka.topic": TOPIC}
        own = {"sink_options": options | (keys if into == "sink_options" else {})}
        return {**own, **({into: keys} if into != "sink_options" else {})}
    return {"source": {"kind": "csv", "path": "/data/rows.csv"}, into: keys}


@pytest.mark.parametrize(
    ("address", "into", "more"),
    [
        ("/api/v1/tables/trips/operations/", "spark_conf", ()),
        ("/api/v1/tables/trips/operations/", "options", OF_JAVA),
        ("/api/v1/tables/trips/sinks/", "spark_conf", ()),
        ("/api/v1/tables/trips/sinks/", "sink_options", OF_JAVA),
    ],
)
def test_no_address_takes_a_setting_that_is_not_listed(
    client: Client, admin: User, lake: Lake, address: str, into: str, more: list[str],
    settings: Any,
) -> None:  # fmt: skip
    settings.SLUICE_SOURCE_ROOTS = ("/data",)
    client.force_login(admin)
    tried = drawn([*REFUSED_BY_SPARK, *more], SENT, of=address + into)

    taken = []
    for key in ("spark.jars", "jars", *tried):
        body = json.dumps(body_of(address, {key: "1"}, into))
        answer = client.post(address, body, "application/json")
        if answer.status_code != 400:
            taken.append((key, answer.status_code))

    assert taken == []
    assert not Operation.objects.exists()


def test_the_words_that_start_spark_are_these(tmp_path: Path) -> None:
    """What a change of them adds has to be thought about: any of them may run code."""
    words = server_command(port=15002, work_dir=tmp_path / "w;x", heap="2g")

    assert words[1:3] == ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    assert words[-1] == "spark-internal"
    assert words[3:-1:2] == ["--conf"] * len(words[4:-1:2])
    assert [word.split("=", 1)[0] for word in words[4:-1:2]] == [
        "spark.master",
        "spark.app.name",
        "spark.connect.grpc.binding.address",
        "spark.connect.grpc.binding.port",
        "spark.driver.bindAddress",
        "spark.driver.host",
        "spark.driver.memory",
        "spark.driver.extraJavaOptions",
        "spark.local.dir",
        "spark.pyspark.python",
        "spark.scheduler.mode",
        "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions",
        "spark.sql.warehouse.dir",
        "spark.ui.enabled",
        "spark.sluice.engine",
    ]


def test_a_driver_gets_no_secret_of_the_control_plane() -> None:
    secret = "s3cret-of-the-node"
    names = (
        "SLUICE_SECRET_KEY", "SLUICE_DATABASE", "SLUICE_REDIS_URL", "SLUICE_METRICS_TOKEN",
        "SLUICE_SMTP_PASSWORD", "SLUICE_OIDC_CLIENT_SECRET", "DJANGO_SECRET_KEY", "PGPASSWORD",
        KEY_VARIABLE,
    )  # fmt: skip
    environment = dict.fromkeys(names, secret)

    passed_on = driver_environment({**environment, "PATH": "/bin"}, "an-operation")

    assert [name for name, text in passed_on.items() if secret in text] == []
    assert passed_on["PATH"] == "/bin"
