"""A false broker: it speaks Kafka's protocol as far as the frame with the password, and keeps every
byte that it was sent.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_API_VERSIONS, _SASL_HANDSHAKE, _SASL_AUTHENTICATE = 18, 17, 36
_UNSUPPORTED_VERSION, _SASL_FAILED = 35, 58


@dataclass
class RecordingBroker:
    port: int
    callers: int = 0
    heard: bytearray = field(default_factory=bytearray)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def serve(self, connection: socket.socket) -> None:
        """Answer one caller until it has shown what it signs in with."""
        with connection, suppress(OSError, struct.error):
            while True:
                (size,) = struct.unpack(">i", self._take(connection, 4))
                frame = self._take(connection, size)
                key, version, correlation = struct.unpack(">hhi", frame[:8])
                answer = struct.pack(">i", correlation) + _answer(key, version)
                connection.sendall(struct.pack(">i", len(answer)) + answer)
                if key == _SASL_AUTHENTICATE:
                    return

    def _take(self, connection: socket.socket, size: int) -> bytes:
        taken = b""
        while len(taken) < size:
            if not (piece := connection.recv(size - len(taken))):
                raise ConnectionError("the caller is gone")
            taken += piece
        self.heard += taken
        return taken


def _answer(key: int, version: int) -> bytes:
    if key == _API_VERSIONS:
        error = _UNSUPPORTED_VERSION if version else 0
        known = ((_API_VERSIONS, 0), (_SASL_HANDSHAKE, 1), (_SASL_AUTHENTICATE, 0), (3, 1))
        return struct.pack(">hi", error, len(known)) + b"".join(
            struct.pack(">hhh", api, 0, most) for api, most in known
        )
    if key == _SASL_HANDSHAKE:
        return struct.pack(">hi", 0, 1) + struct.pack(">h", 5) + b"PLAIN"
    return struct.pack(">hhi", _SASL_FAILED, -1, 0)


@contextmanager
def recording_broker() -> Iterator[RecordingBroker]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = RecordingBroker(listener.getsockname()[1])

        def listen() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    broker.callers += 1
                    threading.Thread(target=broker.serve, args=[connection], daemon=True).start()

        listening = threading.Thread(target=listen, daemon=True)
        listening.start()
        try:
            yield broker
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            listening.join()
