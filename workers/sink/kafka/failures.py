"""Errors of the client library, as ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from workers.errors import KafkaFailed

NO_TLS: Final = (
    "the listener may not use TLS (PLAINTEXT, SASL_PLAINTEXT): compare security.protocol with the "
    "broker's listeners"
)
_ENDED_HANDSHAKE: Final = re.compile(
    r"(?:Disconnected|SSL transport error|wrong version number|packet length too long"
    r"|record layer failure|unexpected eof).*in state SSL_HANDSHAKE"
)
"""How librdkafka reports a listener that does not answer a TLS greeting in TLS. Its own question,
"connecting to a PLAINTEXT broker listener?", is there only when reading noticed the end of the
connection; when polling noticed it first, or the listener answered in clear text, it is not.
"""


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
    """Ours for the library's error: the message, the values, then the library's name, what to do
    where it does not always say so itself, and its reason.
    """
    reason = error.str()
    advice = {"advice": NO_TLS} if _ENDED_HANDSHAKE.search(reason) else {}
    return KafkaFailed(message, **values, kafka=error.name(), **advice, reason=reason)


def error_of(raised: KafkaException) -> KafkaError:
    """The error that the library's exception carries: its code decides what it means."""
    error = raised.args[0]
    assert isinstance(error, KafkaError), raised
    return error
