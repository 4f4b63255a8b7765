"""A receiver of HTTP requests on this machine, behind TLS or not, that notes what came."""

from __future__ import annotations

import ipaddress
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Received:
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Receiver:
    """`statuses` answers the first requests, then 200."""

    port: int = 0
    statuses: list[int] = field(default_factory=list)
    location: str = ""
    """Sent with each 3xx."""
    trickle_s: float = 0.0
    """Between two lines of a head without an end."""
    connections: int = 0
    received: list[Received] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    """As TLS clients asked for them."""


@contextmanager
def receiving(
    *, host: str = "127.0.0.1", certificate: Path | None = None, **options: object
) -> Iterator[Receiver]:
    """Listens at a port of its own until the block ends; `certificate` has its key too."""
    receiver = Receiver(**options)  # type: ignore[arg-type]  # as the caller names its fields
    server = _server(host, receiver)
    receiver.port = server.server_address[1]
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        context.sni_callback = lambda _socket, name, _context: receiver.names.append(name)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def write_certificate(path: Path, host: str) -> None:
    """Of `host` and of loopback, signed by itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    names = [x509.DNSName(host), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(certificate.public_bytes(Encoding.PEM) + private)


def _server(host: str, receiver: Receiver) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def setup(self) -> None:
            receiver.connections += 1
            super().setup()

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            receiver.received.append(Received(self.path, dict(self.headers), body))
            status = receiver.statuses.pop(0) if receiver.statuses else 200
            self.send_response(status)
            while receiver.trickle_s:
                self.send_header("X-More", "x")
                self.flush_headers()
                time.sleep(receiver.trickle_s)
            if 300 <= status < 400:
                self.send_header("Location", receiver.location)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_request(self, code: object = "", size: object = "") -> None:
            """Nothing for a test's output."""

    class Server(ThreadingHTTPServer):
        address_family = 10 if ":" in host else 2
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Whoever was cut off is no error of the test."""

    return Server((host, 0), Handler)
