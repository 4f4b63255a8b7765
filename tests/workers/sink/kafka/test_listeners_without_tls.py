"""A TLS client at a listener that does not use TLS: whatever librdkafka calls it, the error names
what to compare. Which text comes depends on how the listener ends the connection, and on whether
reading or polling notices it first.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from workers.errors import KafkaFailed
from workers.sink.kafka.client_config import ClientSettings
from workers.sink.kafka.failures import NO_TLS
from workers.sink.kafka.topics import Topics

READ_S_MAX = 10.0
"""A client that sends nothing more must not keep the thread."""
Ends = Callable[[socket.socket], object]


def closes(client: socket.socket) -> None:
    client.recv(4096)


def closes_one_way(client: socket.socket) -> None:
    client.recv(4096)
    client.shutdown(socket.SHUT_WR)
    client.recv(4096)


def resets(client: socket.socket) -> None:
    client.recv(4096)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def resets_with_bytes_unread(client: socket.socket) -> None:
    client.recv(4)


def answers_in_clear_text(client: socket.socket) -> None:
    client.recv(4096)
    client.sendall(b"\x00\x00\x00\x06\x00\x00\x00\x00\x00\x23")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server
        server.shutdown(socket.SHUT_RDWR)  # Closing it would not wake the thread that accepts.


@pytest.mark.parametrize(
    "ends", [closes, closes_one_way, resets, resets_with_bytes_unread, answers_in_clear_text]
)
def test_listener_without_tls_is_named_as_the_likely_cause(
    ends: Ends, listener: socket.socket
) -> None:
    threading.Thread(target=serve, args=(listener, ends), daemon=True).start()
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    settings: ClientSettings = {"bootstrap.servers": address, "security.protocol": "SSL"}

    with pytest.raises(KafkaFailed) as raised:
        Topics(settings, timeout_s=1.0).facts("orders")

    assert NO_TLS in str(raised.value)
    assert address in str(raised.value)


def serve(listener: socket.socket, ends: Ends) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:  # The test is over.
            return
        with client, suppress(OSError):  # A client may reset the connection first.
            client.settimeout(READ_S_MAX)
            ends(client)
