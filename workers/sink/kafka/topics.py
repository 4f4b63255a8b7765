"""Topics as the broker has them: identity, partitions, the offsets between which records are."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from workers.clock import Clock, SystemClock
from workers.connections import KafkaConnection
from workers.errors import InvalidInput, KafkaFailed, NotFound
from workers.sink.kafka.client_config import ClientSettings, kafka_settings
from workers.sink.kafka.failures import error_of, failed

TIMEOUT_S = 10.0
TEST_S = 6.0
"""A person waits."""
_POLL_S = 0.05
_COMPLAINTS_MAX = 20
_MOVING = (
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)
_REFUSED = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What the broker said of a topic, at one moment."""

    topic_id: str
    """Another one after the topic was deleted and made again under its name."""
    watermarks: Mapping[int, tuple[int, int]]
    """Of each partition the first offset that is left, and where committed records end."""
    cluster_id: str = ""
    """Whose topic it is; empty where the brokers do not say."""


class Topics:
    """An administrator's client; one thread uses it."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        timeout_s: float = TIMEOUT_S,
        clock: Clock | None = None,
    ) -> None:
        self._complaints: deque[KafkaError] = deque(maxlen=_COMPLAINTS_MAX)
        client_settings: dict[str, Any] = {**settings, "error_cb": self._complaints.append}
        self._admin = AdminClient(client_settings)
        self._address = {
            "brokers": settings["bootstrap.servers"],
            "protocol": settings.get("security.protocol", "PLAINTEXT"),
        }
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()

    def facts(self, topic: str) -> TopicFacts:
        """What the broker says of a topic: its ids, and of each partition the first offset and the
        end.

        Raises NotFound for a topic that does not exist, KafkaFailed when nobody answers.
        """
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        while True:
            try:
                return self._facts(topic)
            except _LeaderMissing as missing:
                # For a moment after the topic was made, or its broker came back.
                if self._clock.monotonic_s() > deadline_s:
                    raise KafkaFailed("a partition has no leader", topic=topic) from missing
            self._clock.sleep(_POLL_S)

    def offsets_at(self, topic: str, time_ms: int, facts: TopicFacts) -> dict[int, int]:
        """The offset of each partition's first record of this time or later, or its end where there
        is none. Raises NotFound, KafkaFailed.
        """
        known = self._offsets(topic, list(facts.watermarks), OffsetSpec.for_timestamp(time_ms))
        ends = {at: end for at, (_, end) in facts.watermarks.items()}
        return {at: ends[at] if offset < 0 else offset for at, offset in known.items()}

    def topic_id(self, topic: str) -> str:
        """As in its facts, for a third of the requests. Raises NotFound, KafkaFailed."""
        return str(self._described(topic).topic_id)

    def _facts(self, topic: str) -> TopicFacts:
        described = self._described(topic)
        partitions = [one.id for one in described.partitions]
        lows = self._offsets(topic, partitions, OffsetSpec.earliest())
        highs = self._offsets(topic, partitions, OffsetSpec.latest())
        cluster_future = self._admin.describe_cluster(request_timeout=self._timeout_s)
        cluster = self._answer(cluster_future, "cluster not described", topic)
        return TopicFacts(
            str(described.topic_id),
            {one: (lows[one], highs[one]) for one in sorted(partitions)},
            str(cluster.cluster_id or ""),
        )

    def cluster_id(self) -> str:
        """Whose topics they are; empty where the brokers do not say. Raises KafkaFailed, at once
        where a broker refuses the certificate, the user or the password.
        """
        future = self._admin.describe_cluster(request_timeout=self._timeout_s)
        while not future.done():
            self._hear()
            refusals = [one for one in self._complaints if one.code() in _REFUSED]
            if refusals:
                raise failed("the broker was not signed in to", refusals[0], **self._address)
            self._clock.sleep(_POLL_S)
        return str(self._answer(future, "the cluster does not answer", "").cluster_id or "")

    def create(
        self, topic: str, partitions: int, settings: Mapping[str, str] | None = None
    ) -> None:
        """It can be used when this returns; raises InvalidInput when it exists already."""
        new = NewTopic(topic, partitions, config=dict(settings or {}))
        futures = self._admin.create_topics([new], request_timeout=self._timeout_s)
        self._answer(futures[topic], "topic not created", topic)
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        while True:
            try:
                self.facts(topic)
            except NotFound:
                # The controller knows of it before the broker does.
                if self._clock.monotonic_s() > deadline_s:
                    raise
                self._clock.sleep(_POLL_S)
            else:
                return

    def create_if_missing(self, topic: str, partitions: int) -> bool:
        """Whether it was missing; somebody else may create it at the same moment."""
        try:
            self.create(topic, partitions)
        except InvalidInput:
            return False
        return True

    def delete(self, topic: str) -> None:
        """The topic and all its records; brokers may name it for a moment longer.

        Raises NotFound, KafkaFailed.
        """
        futures = self._admin.delete_topics([topic], request_timeout=self._timeout_s)
        self._answer(futures[topic], "topic not deleted", topic)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """What retention does one day: the records below these offsets are gone."""
        ends = [TopicPartition(topic, partition, end) for partition, end in before.items()]
        futures = self._admin.delete_records(ends, request_timeout=self._timeout_s)
        for future in futures.values():
            self._answer(future, "records not deleted", topic)

    def _described(self, topic: str) -> Any:
        futures = self._admin.describe_topics(
            TopicCollection([topic]), request_timeout=self._timeout_s
        )
        return self._answer(futures[topic], "topic not described", topic)

    def _offsets(self, topic: str, partitions: Sequence[int], end: OffsetSpec) -> dict[int, int]:
        futures = self._admin.list_offsets(
            {TopicPartition(topic, one): end for one in partitions},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self._timeout_s,
        )
        return {
            one.partition: int(self._answer(future, "offsets not listed", topic).offset)
            for one, future in futures.items()
        }

    def _answer(self, future: Future[Any], message: str, topic: str) -> Any:
        try:
            # The client gives up by itself; this bound is for a client that does not.
            answer = future.result(2 * self._timeout_s + 1)
        except KafkaException as raised:
            error = error_of(raised)
            if error.code() in _MISSING:
                raise NotFound("broker has no such topic", topic=topic) from raised
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise InvalidInput("topic exists already", topic=topic) from raised
            if error.code() in _MOVING:
                raise _LeaderMissing(topic) from raised
            if error.code() == KafkaError._TIMED_OUT:
                raise self._unanswered(message, topic, error) from raised
            raise failed(message, error, topic=topic) from raised
        except TimeoutError as raised:
            raise KafkaFailed(message + ": no answer", topic=topic, **self._address) from raised
        self._hear()
        self._complaints.clear()
        return answer

    def _unanswered(self, message: str, topic: str, error: KafkaError) -> KafkaFailed:
        """The request itself knows only that nobody answered; the connections know why."""
        self._hear()
        causes = [one for one in self._complaints if one.code() != KafkaError._ALL_BROKERS_DOWN]
        return failed(message, causes[-1] if causes else error, topic=topic, **self._address)

    def _hear(self) -> None:
        self._admin.poll(0)


def check_kafka(opened: KafkaConnection, *, timeout_s: float = TEST_S) -> None:
    """Sign in to the cluster. Raises KafkaFailed with what it said, or InvalidInput."""
    settings = kafka_settings(opened, client_id="sluice-test")
    try:
        Topics(settings, timeout_s=timeout_s).cluster_id()
    except KafkaException as error:  # The library refuses a certificate before it connects.
        raise failed("not connected", error_of(error)) from error


class _LeaderMissing(Exception):
    pass


def produce(
    settings: ClientSettings,
    topic: str,
    partition: int,
    records: Iterable[tuple[bytes | None, bytes | None]],
    *,
    timeout_s: float = 60.0,
) -> int:
    """Send (key, value) records to one partition in their order; how many.

    Raises KafkaFailed unless the broker has them all.
    """
    refused: list[KafkaError] = []
    sent = 0

    def delivered(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            refused.append(error)

    producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 5})
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, partition, on_delivery=delivered)
            except BufferError:
                producer.poll(0.1)
            else:
                break
        sent += 1
    waiting = producer.flush(timeout_s)
    if refused or waiting:
        if refused:
            raise failed("records not sent", refused[0], topic=topic, refused=len(refused))
        raise KafkaFailed("records not sent in time", topic=topic, waiting=waiting)
    return sent
