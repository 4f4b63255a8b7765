"""Topics of the broker: identity, partitions and offsets."""

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
from workers.sink.kafka.failures import build_failure, get_error

TIMEOUT_S = 10.0
TEST_S = 6.0
"""Timeout of a connection test, short because a user waits."""
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
    """Facts about a topic from the broker, at one time."""

    topic_id: str
    """Changes when the topic is deleted and created again under its name."""
    watermarks: Mapping[int, tuple[int, int]]
    """First remaining offset and end offset of committed records, by partition."""
    cluster_id: str = ""
    """Id of the topic's cluster; empty if the brokers do not report one."""


class Topics:
    """Administration client, for one thread."""

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
        """Return the ids of a topic, and the first and end offset of each partition.

        Raises NotFound for a topic that does not exist, KafkaFailed if no broker answers.
        """
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        while True:
            try:
                return self._facts(topic)
            except _LeaderMissing as missing:
                # This is temporary, after the topic is created or its broker restarts.
                if self._clock.monotonic_s() > deadline_s:
                    raise KafkaFailed("a partition has no leader", topic=topic) from missing
            self._clock.sleep(_POLL_S)

    def find_offsets_at(self, topic: str, time_ms: int, facts: TopicFacts) -> dict[int, int]:
        """Return the offset of each partition's first record at this time or later, or its end
        offset if there is none. Raises NotFound, KafkaFailed.
        """
        offsets = self._offsets(topic, list(facts.watermarks), OffsetSpec.for_timestamp(time_ms))
        ends = {at: end for at, (_, end) in facts.watermarks.items()}
        return {at: ends[at] if offset < 0 else offset for at, offset in offsets.items()}

    def topic_id(self, topic: str) -> str:
        """Return the topic's id, with fewer requests than `facts`. Raises NotFound, KafkaFailed."""
        return str(self._describe(topic).topic_id)

    def _facts(self, topic: str) -> TopicFacts:
        described = self._describe(topic)
        partitions = [partition.id for partition in described.partitions]
        lows = self._offsets(topic, partitions, OffsetSpec.earliest())
        highs = self._offsets(topic, partitions, OffsetSpec.latest())
        cluster_future = self._admin.describe_cluster(request_timeout=self._timeout_s)
        cluster = self._await_answer(cluster_future, "cluster not described", topic)
        return TopicFacts(
            str(described.topic_id),
            {at: (lows[at], highs[at]) for at in sorted(partitions)},
            str(cluster.cluster_id or ""),
        )

    def cluster_id(self) -> str:
        """Return the cluster's id; empty if the brokers do not report one. Raises KafkaFailed, at
        once if a broker rejects the certificate, the user or the password.
        """
        future = self._admin.describe_cluster(request_timeout=self._timeout_s)
        while not future.done():
            self._poll_errors()
            refusals = [error for error in self._complaints if error.code() in _REFUSED]
            if refusals:
                raise build_failure("the broker was not signed in to", refusals[0], **self._address)
            self._clock.sleep(_POLL_S)
        return str(self._await_answer(future, "the cluster does not answer", "").cluster_id or "")

    def create(
        self, topic: str, partitions: int, settings: Mapping[str, str] | None = None
    ) -> None:
        """Create the topic, and wait until it can be used. Raises InvalidInput if it exists."""
        new = NewTopic(topic, partitions, config=dict(settings or {}))
        futures = self._admin.create_topics([new], request_timeout=self._timeout_s)
        self._await_answer(futures[topic], "topic not created", topic)
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        while True:
            try:
                self.facts(topic)
            except NotFound:
                # The controller has the topic before the broker does.
                if self._clock.monotonic_s() > deadline_s:
                    raise
                self._clock.sleep(_POLL_S)
            else:
                return

    def create_if_missing(self, topic: str, partitions: int) -> bool:
        """Create the topic if it is missing. Return False if it exists."""
        try:
            self.create(topic, partitions)
        except InvalidInput:
            return False
        return True

    def delete(self, topic: str) -> None:
        """Delete the topic and all its records. Brokers may report it for a short time after.

        Raises NotFound, KafkaFailed.
        """
        futures = self._admin.delete_topics([topic], request_timeout=self._timeout_s)
        self._await_answer(futures[topic], "topic not deleted", topic)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records below these offsets, as retention does."""
        ends = [TopicPartition(topic, partition, end) for partition, end in before.items()]
        futures = self._admin.delete_records(ends, request_timeout=self._timeout_s)
        for future in futures.values():
            self._await_answer(future, "records not deleted", topic)

    def _describe(self, topic: str) -> Any:
        futures = self._admin.describe_topics(
            TopicCollection([topic]), request_timeout=self._timeout_s
        )
        return self._await_answer(futures[topic], "topic not described", topic)

    def _offsets(self, topic: str, partitions: Sequence[int], end: OffsetSpec) -> dict[int, int]:
        futures = self._admin.list_offsets(
            {TopicPartition(topic, at): end for at in partitions},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self._timeout_s,
        )
        return {
            place.partition: int(self._await_answer(future, "offsets not listed", topic).offset)
            for place, future in futures.items()
        }

    def _await_answer(self, future: Future[Any], message: str, topic: str) -> Any:
        try:
            # The client has its own timeout; this bound is for a client that exceeds it.
            answer = future.result(2 * self._timeout_s + 1)
        except KafkaException as raised:
            error = get_error(raised)
            if error.code() in _MISSING:
                raise NotFound("broker has no such topic", topic=topic) from raised
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise InvalidInput("topic exists already", topic=topic) from raised
            if error.code() in _MOVING:
                raise _LeaderMissing(topic) from raised
            if error.code() == KafkaError._TIMED_OUT:
                raise self._build_timeout_error(message, topic, error) from raised
            raise build_failure(message, error, topic=topic) from raised
        except TimeoutError as raised:
            raise KafkaFailed(message + ": no answer", topic=topic, **self._address) from raised
        self._poll_errors()
        self._complaints.clear()
        return answer

    def _build_timeout_error(self, message: str, topic: str, error: KafkaError) -> KafkaFailed:
        """Build the error of a timeout, with the cause from the connections if there is one."""
        self._poll_errors()
        causes = [each for each in self._complaints if each.code() != KafkaError._ALL_BROKERS_DOWN]
        return build_failure(message, causes[-1] if causes else error, topic=topic, **self._address)

    def _poll_errors(self) -> None:
        self._admin.poll(0)


def check_kafka(opened: KafkaConnection, *, timeout_s: float = TEST_S) -> None:
    """Check that a client can connect to the cluster. Raises KafkaFailed, InvalidInput."""
    settings = kafka_settings(opened, client_id="sluice-test")
    try:
        Topics(settings, timeout_s=timeout_s).cluster_id()
    except (
        KafkaException
    ) as error:  # The library rejects an invalid certificate before it connects.
        raise build_failure("not connected", get_error(error)) from error


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
    """Send (key, value) records to one partition in order, and return their number.

    Raises KafkaFailed unless the broker has them all.
    """
    errors: list[KafkaError] = []
    sent = 0

    def note_delivery(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            errors.append(error)

    producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 5})
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, partition, on_delivery=note_delivery)
            except BufferError:
                producer.poll(0.1)
            else:
                break
        sent += 1
    waiting = producer.flush(timeout_s)
    if errors or waiting:
        if errors:
            raise build_failure("records not sent", errors[0], topic=topic, refused=len(errors))
        raise KafkaFailed("records not sent in time", topic=topic, waiting=waiting)
    return sent
