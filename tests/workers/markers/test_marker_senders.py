"""Callers who promise and do not send, or send and do not read: none of them stops a writer."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import pytest

from tests.support.crash_ports import StillClock
from tests.workers.markers.harness import (
    INSTANT,
    ServerProcess,
    directory_of,
    new_table,
)
from tests.workers.markers.test_marker_wire import create_request, said
from workers.clock import Clock, SystemClock
from workers.errors import LakehouseError
from workers.markers.access import TokenMissing
from workers.markers.client import BASE_PATH
from workers.markers.messages import Reply, Request, Response
from workers.markers.wire import Deadlines, HttpServer
from workers.processes import start_on_free_ports
from workers.storage.local import LocalStorage

LARGE = 8 << 20
CONNECTIONS = 48
"""More than the bodies of all connections together may have, if each is a large one."""
PATIENCE_S = 60.0
HURRIED = Deadlines(head_s=0.3, body_s=0.3, idle_s=0.3, unread_s=0.3, sweep_s=0.05)


def large_request(
    storage: LocalStorage,
    *,
    path: str = "/create-all?",
    token: bool = True,
    instant: str = INSTANT,
) -> bytes:
    head = create_request(storage, "x", instant=instant).replace(b"/create?", path.encode())
    if not token:
        head = head.replace(b"Authorization", b"X-Other")
    return head.replace(b"Content-Length: 0", b"Content-Length: %d" % LARGE)


@pytest.mark.parametrize(
    "promised",
    [
        lambda storage: large_request(storage, token=False),
        lambda storage: b"POST /drain HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % LARGE,
        lambda storage: b"POST /nowhere HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % LARGE,
        lambda storage: large_request(storage, path="/create-all?x=y&old"),
        lambda storage: large_request(storage).replace(b"Bearer ", b"Bearer 0"),
    ],
    ids=["no token", "no token of an operator", "no path", "no directory", "a wrong token"],
)
def test_who_has_no_token_keeps_no_writer_from_its_large_body(
    server: ServerProcess,
    storage: LocalStorage,
    promised: Callable[[LocalStorage], bytes],
) -> None:
    names = [f"f{number:05d}-{'0' * 60}.parquet.marker.CREATE" for number in range(500)]
    query = {"markerdirpath": directory_of(storage)}
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
            stack.enter_context(connection).sendall(promised(storage))
        refused = said(server, promised(storage))
        answer = server.ask(
            "POST",
            f"{BASE_PATH}/create-all",
            query=query,
            token=server.settings(storage, INSTANT).token,
            body=json.dumps(names),
        )

    assert refused[9:12] in (b"400", b"401", b"403", b"404"), refused
    assert answer.status == 200
    assert server.all(storage) == names


@pytest.mark.parametrize("instants", [1, 6], ids=["one token", "many tokens"])
def test_table_whose_writers_promise_and_do_not_send_keeps_no_other_tables_writers(
    server: ServerProcess, storage: LocalStorage, instants: int
) -> None:
    """They have valid tokens, and hold what they may until the deadline of a body."""
    other = new_table(server.root, "other")
    names = [f"f{number:05d}-{'0' * 60}.parquet.marker.CREATE" for number in range(500)]
    with ExitStack() as stack:
        for number in range(CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
            promised = large_request(storage, instant=str(int(INSTANT) + number % instants))
            stack.enter_context(connection).sendall(promised)
        refused = said(server, large_request(storage))
        answer = server.ask(
            "POST",
            f"{BASE_PATH}/create-all",
            query={"markerdirpath": directory_of(other)},
            token=server.settings(other, INSTANT).token,
            body=json.dumps(names),
        )
        small = server.create(storage, names[0])

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"of this table" in refused
    assert answer.status == 200, answer
    assert server.all(other) == names
    assert small.status == 200


def test_bodies_that_a_writer_promises_and_does_not_send_are_bounded(
    server: ServerProcess, storage: LocalStorage
) -> None:
    with ExitStack() as stack:
        for _ in range(32):
            connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
            stack.enter_context(connection).sendall(large_request(storage))
        said(server, b"GET /health HTTP/1.1\r\n\r\n", until=1)

        refused = said(server, large_request(storage))

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 1\r\n" in refused
    until = time.monotonic() + PATIENCE_S
    while not said(server, large_request(storage) + b"x" * LARGE, until=1).startswith(
        b"HTTP/1.1 400"
    ):
        assert time.monotonic() < until, "what they had promised is not given back"


def test_a_head_or_body_that_comes_a_byte_at_a_time_is_ended_at_its_deadline() -> None:
    async def slow(port: int, begin: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begin)
        answer = asyncio.create_task(reader.read(1_000))
        async with asyncio.timeout(PATIENCE_S):
            while not answer.done():
                writer.write(b"x")
                await asyncio.sleep(0.02)
        writer.close()
        return await answer

    async def story(port: int, server: HttpServer) -> None:
        body = b"POST /x HTTP/1.1\r\nAuthorization: yes\r\nContent-Length: 1000000\r\n\r\n"
        answers = await asyncio.gather(slow(port, b"GET /"), slow(port, body), slow(port, b""))

        assert {answer[:12] for answer in answers} == {b"HTTP/1.1 408"}
        assert server.bodies.bytes == 0

    _run_with_server(story)


def test_who_asks_and_never_reads_is_ended_and_fills_no_memory() -> None:
    async def story(port: int, server: HttpServer) -> None:
        with socket.create_connection(("127.0.0.1", port)) as greedy:
            greedy.setblocking(False)
            asks = b"GET /large HTTP/1.1\r\n\r\n" * 500
            until = time.monotonic() + PATIENCE_S
            seen = 0
            loop = asyncio.get_running_loop()
            while time.monotonic() < until:
                try:
                    await asyncio.wait_for(loop.sock_sendall(greedy, asks), 0.05)
                except TimeoutError:
                    pass
                except ConnectionError:
                    break
                unsent = [one.transport.get_write_buffer_size() for one in server.connections]
                seen = max(seen, *unsent, 0)

        assert time.monotonic() < until, "it was never ended"
        assert 0 < seen < 4 << 20

    _run_with_server(story)


def test_a_connection_is_kept_between_its_requests_and_ended_when_idle() -> None:
    clock = StillClock()

    async def story(port: int, server: HttpServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(6):  # Longer than any deadline in all.
            writer.write(b"GET /x HTTP/1.1\r\n\r\n")
            assert (await reader.readuntil(b"ok"))[:12] == b"HTTP/1.1 200"
            clock.sleep(HURRIED.idle_s / 2)
            await asyncio.sleep(2 * HURRIED.sweep_s)

        clock.sleep(HURRIED.idle_s)
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        writer.close()

    _run_with_server(story, clock)


def _run_with_server(
    story: Callable[[int, HttpServer], Awaitable[None]], clock: Clock | None = None
) -> None:
    start_on_free_ports(lambda port: asyncio.run(_with_server(story, port, clock)))


async def _with_server(
    story: Callable[[int, HttpServer], Awaitable[None]], port: int, clock: Clock | None
) -> None:
    def answer(request: Request, reply: Reply) -> None:
        reply(Response(b"x" * 500_000 if request.path == "/large" else b"ok"))

    def refusal(error: LakehouseError) -> Response:
        return Response(str(error).encode(), getattr(error, "status", 401))

    def admit(request: Request) -> str:
        if "authorization" not in request.headers:
            raise TokenMissing("a token is needed")
        return "a table"

    server = HttpServer(
        answer,
        refusal,
        admit=admit,
        clock=clock or SystemClock(),
        body_bytes_max=LARGE,
        deadlines=HURRIED,
    )
    await server.listen("127.0.0.1", port)
    try:
        await story(port, server)
    finally:
        await server.close(1.0)
