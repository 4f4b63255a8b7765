"""Errors of the client library, as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from workers.errors import KafkaFailed


@contextmanager
def kafka_errors(message: str, **values: object) -> Iterator[None]:
    """A block in which failures of the Kafka library become ours. Raises KafkaFailed with the
    library's reason for what the library raises within.
    """
    try:
        yield
    except KafkaException as error:
        raise failed(message, error_of(error), **values) from error


def failed(message: str, error: KafkaError, **values: object) -> KafkaFailed:
    """Ours for the library's error: the message, the values, then the library's name and reason."""
    return KafkaFailed(message, **values, kafka=error.name(), reason=error.str())


def error_of(raised: KafkaException) -> KafkaError:
    """The error that the library's exception carries: its code decides what it means."""
    error = raised.args[0]
    assert isinstance(error, KafkaError), raised
    return error
