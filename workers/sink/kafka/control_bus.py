"""The control topic, which delivers messages to every connected worker process.

Its history is not read. A new bus starts at the end of the topic, and receives every message that
is published after its creation (S1-05). Messages may arrive twice, late or never, which the
protocol allows. The topic may be emptied, or deleted and created again, at any time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from workers.clock import Clock
from workers.errors import KafkaFailed, NotFound
from workers.sink.config import SinkConfig
from workers.sink.kafka.client_config import (
    connection_settings,
    control_consumer_settings,
    producer_settings,
)
from workers.sink.kafka.failures import build_failure, get_error, wrap_errors
from workers.sink.kafka.topics import Topics

PUBLISH_TIMEOUT_S = 10.0
MESSAGES_MAX = 1_000
STALLED_S = 15.0
"""Time without its own messages after which a bus has stalled. Normally it is under a second."""
MESSAGE_BYTES_MAX = 900_000

_PARTITION = 0
_log = logging.getLogger(__name__)
_MISSING = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)


class ControlBus:
    """Connection of a worker process to the control topic, for one thread."""

    def __init__(
        self,
        config: SinkConfig,
        environment: Mapping[str, str],
        clock: Clock,
        *,
        worker: str,
        timeout_s: float = PUBLISH_TIMEOUT_S,
    ) -> None:
        """Create the topic if it is missing. Raises KafkaFailed if no broker answers."""
        self._topic = config.control_topic
        self._timeout_s = timeout_s
        self._clock = clock
        self._listening = control_consumer_settings(config, environment, worker=worker)
        self._sent_s: float | None = None
        """When the first message was sent after the last one that was received."""
        self._topics = Topics(
            connection_settings(config, environment), timeout_s=timeout_s, clock=clock
        )
        self._sending = producer_settings(config, environment, timeout_s=timeout_s)
        self._topics.create_if_missing(self._topic, 1)
        with wrap_errors("no control topic", topic=self._topic):
            self._producer = Producer(dict(self._sending))
            self._consumer = Consumer(dict(self._listening))
        self._seek_to_end()

    def publish(self, messages: Sequence[bytes]) -> None:
        """Publish the messages in order. They are durable when this returns.

        Raises KafkaFailed if that is not certain in time. Then any of them may be published.
        """
        try:
            self._send(messages)
        except _TopicMissing:
            self._topics.create_if_missing(self._topic, 1)
            self._send_again(messages)
        if self._sent_s is None:
            self._sent_s = self._clock.monotonic_s()

    def poll(self, timeout_s: float, messages_max: int = MESSAGES_MAX) -> list[bytes]:
        """Return the messages since the last poll, and wait at most `timeout_s` for the first one.

        An unreachable broker counts as no message. Raises KafkaFailed if the topic cannot be read.
        """
        with wrap_errors("control topic not read", topic=self._topic):
            first = self._consumer.poll(timeout_s)
            rest = self._consumer.consume(messages_max - 1, 0) if first is not None else []
        records = [value for value in map(self._get_value, [first, *rest]) if value is not None]
        if records:
            self._sent_s = None
        elif self._is_stalled():
            self._reconnect()
        return records

    def close(self) -> None:
        """Close the connection. The bus must not be used again."""
        self._consumer.close()

    def _get_value(self, message: Message | None) -> bytes | None:
        if message is None or (error := message.error()) is None:
            return message.value() if message is not None else None
        if error.fatal() or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise build_failure("control topic not read", error, topic=self._topic)
        return None

    def _is_stalled(self) -> bool:
        """Check whether the bus receives nothing, not even its own message."""
        return self._sent_s is not None and self._clock.monotonic_s() - self._sent_s > STALLED_S

    def _reconnect(self) -> None:
        """Create a new consumer. If a topic was created again after a restart of its broker, its
        leader epoch is lower than the consumer's, and librdkafka never reads it again.
        """
        self._sent_s = self._clock.monotonic_s()
        fresh = Consumer(dict(self._listening))
        try:
            self._consumer.close()
        finally:
            self._consumer = fresh
        try:
            self._seek_to_end()
        except (KafkaFailed, NotFound) as error:
            _log.warning("the control topic is not listened to yet: %s", error)

    def _seek_to_end(self) -> None:
        _, end = self._topics.facts(self._topic).watermarks[_PARTITION]
        with wrap_errors("control topic not read", topic=self._topic):
            self._consumer.assign([TopicPartition(self._topic, _PARTITION, end)])

    def _send(self, messages: Sequence[bytes]) -> None:
        errors: list[KafkaError] = []

        def note_delivery(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                errors.append(error)

        for message in messages:
            assert len(message) <= MESSAGE_BYTES_MAX, len(message)
            try:
                self._producer.produce(
                    self._topic, message, partition=_PARTITION, on_delivery=note_delivery
                )
            except KafkaException as raised:
                errors.append(get_error(raised))
        waiting = self._producer.flush(self._timeout_s + 1)
        if errors and errors[0].code() in _MISSING:
            raise _TopicMissing(self._topic)
        if errors:
            raise build_failure("control message not sent", errors[0], topic=self._topic)
        if waiting:
            raise KafkaFailed("control message not sent in time", topic=self._topic)

    def _send_again(self, messages: Sequence[bytes]) -> None:
        self._producer = Producer(dict(self._sending))
        try:
            self._send(messages)
        except _TopicMissing as error:
            raise KafkaFailed("control topic does not exist", topic=self._topic) from error


class _TopicMissing(Exception):
    pass
