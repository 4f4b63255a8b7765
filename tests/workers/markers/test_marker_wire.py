"""The server's HTTP: requests however they arrive, and everything that is no plain request."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlencode

import pytest

from tests.workers.markers.harness import INSTANT, SECRET, ServerProcess, directory_of
from workers.clock import SystemClock
from workers.markers import mint_token
from workers.markers.client import BASE_PATH
from workers.storage.local import LocalStorage

HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


def said(server: ServerProcess, *pieces: bytes, until: int | None = None) -> bytes:
    """All that the server says until it ends the connection, or to `until` answers."""
    answer_bytes = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        for piece in pieces:
            connection.sendall(piece)
        while (
            until is None or answer_bytes.count(b"HTTP/1.1 ") < until or not _is_whole(answer_bytes)
        ):
            received = connection.recv(65_536)
            if not received:
                break
            answer_bytes += received
    return answer_bytes


def _is_whole(answers: bytes) -> bool:
    head, separator, body = answers.rpartition(b"\r\n\r\n")
    length = head.rpartition(b"Content-Length: ")[2].split(b"\r\n")[0]
    return bool(separator) and len(body) >= int(length)


def create_request(storage: LocalStorage, name: str, *, instant: str = INSTANT) -> bytes:
    query = urlencode({"markerdirpath": directory_of(storage, instant), "markername": name})
    token = mint_token(SECRET, storage.location, instant)
    head = f"POST {BASE_PATH}/create?{query} HTTP/1.1\r\nAuthorization: Bearer {token}\r\n"
    return f"{head}Content-Length: 0\r\n\r\n".encode()


def test_requests_behind_each_other_are_answered_in_their_order(
    server: ServerProcess, storage: LocalStorage
) -> None:
    wanted = [f"f{number}.parquet.marker.CREATE" for number in range(20)]
    together = b"".join(create_request(storage, name) for name in [*wanted, wanted[0]])

    answers = said(server, together, until=21)

    results = [line for line in answers.split(b"\r\n") if line.startswith(b"X-Hudi-Marker-Result")]
    assert results == [b"X-Hudi-Marker-Result: created"] * 20 + [b"X-Hudi-Marker-Result: exists"]
    assert server.all(storage) == sorted(wanted)


def test_a_request_may_come_byte_by_byte(server: ServerProcess, storage: LocalStorage) -> None:
    body = json.dumps(["a.marker.CREATE", "b.marker.CREATE"]).encode()
    head = create_request(storage, "x").replace(b"/create?", b"/create-all?")
    whole = head.replace(b"Length: 0", b"Length: %d" % len(body)) + body

    answer = said(server, *(whole[at : at + 1] for at in range(len(whole))), until=1)

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert server.all(storage) == ["a.marker.CREATE", "b.marker.CREATE"]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET /health\r\n\r\n", 400),
        (b"GET /health HTTP/2.0\r\n\r\n", 400),
        (b"GET  /health HTTP/1.1\r\n\r\n", 400),
        (b"GET http://x/health HTTP/1.1\r\n\r\n", 400),
        (b"get /health HTTP/1.1\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\nHost: x\n\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nA: b\x00\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST /drain HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /drain HTTP/1.1\r\nContent-Length: 1_0\r\n\r\n", 400),
        (b"POST /drain HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400),
        (b"POST /drain HTTP/1.1\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n", 400),
        (b"POST /drain HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (
            b"POST /drain HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            411,
        ),
        (b"POST /drain HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n", 413),
        (b"GET /health HTTP/1.1\r\nA: " + b"x" * 20_000 + b"\r\n\r\n", 431),
        (b"x" * 20_000, 431),
    ],
)
def test_what_is_no_plain_request_is_refused_and_ends_the_connection(
    server: ServerProcess, request_bytes: bytes, status: int
) -> None:
    answer = said(server, request_bytes, HEALTH)

    assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("ending", [b"HTTP/1.0\r\n\r\n", b"HTTP/1.1\r\nConnection: close\r\n\r\n"])
def test_who_wants_one_answer_gets_one(server: ServerProcess, ending: bytes) -> None:
    answer = said(server, b"GET /health " + ending)

    assert answer.count(b'"status": "ok"') == 1


def test_who_waits_with_its_body_is_asked_for_it(
    server: ServerProcess, storage: LocalStorage
) -> None:
    head = create_request(storage, "x").replace(b"/create?", b"/create-all?")
    head = head.replace(b"Content-Length: 0", b"Content-Length: 15\r\nExpect: 100-continue")
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(head)
        assert connection.recv(1_000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"a.marker.CREATE")
        assert connection.recv(1_000).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_parameter_that_is_no_text_is_refused(
    server: ServerProcess, storage: LocalStorage
) -> None:
    request_bytes = create_request(storage, "x").replace(b"markername=x", b"markername=%ff%fe")

    assert said(server, request_bytes, until=1).startswith(b"HTTP/1.1 400 ")


def test_a_client_that_goes_away_takes_no_marker_with_it(
    server: ServerProcess, storage: LocalStorage
) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(create_request(storage, "a.marker.CREATE"))

    clock = SystemClock()
    deadline_s = clock.monotonic_s() + 60
    while server.all(storage) != ["a.marker.CREATE"]:
        assert clock.monotonic_s() < deadline_s
    assert "Traceback" not in server.log
