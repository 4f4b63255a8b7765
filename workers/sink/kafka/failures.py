"""Conversion of errors of the client library to Sluice's errors."""

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
"""Errors of librdkafka for a listener without TLS. Its own hint, "connecting to a PLAINTEXT broker
listener?", is present only if a read noticed the end of the connection. It is absent if a poll
noticed the end first, or if the listener answered in clear text.
"""


@contextmanager
def wrap_errors(message: str, **values: object) -> Iterator[None]:
    """Convert errors of the Kafka library in the block. Raises KafkaFailed with the library's
    reason.
    """
    try:
        yield
    except KafkaException as error:
        raise build_failure(message, get_error(error), **values) from error


def build_failure(message: str, error: KafkaError, **values: object) -> KafkaFailed:
    """Build the failure for an error of the library: the message, the values, then the library's
    name of the error, an advice in some cases, and its reason.
    """
    reason = error.str()
    advice = {"advice": NO_TLS} if _ENDED_HANDSHAKE.search(reason) else {}
    return KafkaFailed(message, **values, kafka=error.name(), **advice, reason=reason)


def get_error(raised: KafkaException) -> KafkaError:
    """Return the error in the library's exception. Its code defines the meaning."""
    error = raised.args[0]
    assert isinstance(error, KafkaError), raised
    return error
