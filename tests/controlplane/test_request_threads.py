"""The handler of requests: each has one thread from beginning to end, streams are on the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from io import BytesIO
from typing import Any

import pytest
from django.db import connection
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path
from pytest_django import Settings

from controlplane.request_threads import THREADS, ThreadedHandler

pytestmark = [pytest.mark.anyio, pytest.mark.django_db(transaction=True)]
WAIT_S = 60
together = threading.Barrier(THREADS)
ended = threading.Event()


def thread_view(request: HttpRequest) -> HttpResponse:
    connection.ensure_connection()
    return HttpResponse(threading.current_thread().name + " " + request.body.decode())


def meeting_view(request: HttpRequest) -> HttpResponse:
    together.wait(WAIT_S)
    return HttpResponse("met")


def broken_view(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("nobody expected this")


def stream_view(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(_pieces(request.GET["how"]))


def file_view(request: HttpRequest) -> FileResponse:
    file = FileResponse(BytesIO(b"a" * 200_000), filename="a.css")
    file.set_cookie("seen", "yes")
    return file


async def _pieces(how: str) -> AsyncIterator[str]:
    try:
        yield threading.current_thread().name
        if how == "broken":
            raise OSError("the disk is gone")
        while how == "endless":
            await asyncio.sleep(0.01)
            yield "."
    finally:
        ended.set()


urlpatterns = [
    path("thread", thread_view),
    path("meeting", meeting_view),
    path("broken", broken_view),
    path("stream", stream_view),
    path("file", file_view),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def handler(settings: Settings) -> ThreadedHandler:
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = []
    settings.DEBUG_PROPAGATE_EXCEPTIONS = False
    ended.clear()
    return ThreadedHandler()


async def ask(
    handler: ThreadedHandler, address: str, body: bytes = b"", leaves_after: int | None = None
) -> tuple[int, bytes]:
    """Status and body; of a client that goes away after so many pieces, or stays."""
    where, _, query = address.partition("?")
    scope = {
        "type": "http",
        "method": "POST" if body else "GET",
        "path": where,
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost"), (b"content-length", str(len(body)).encode())],
    }
    sent: list[Mapping[str, Any]] = []
    left = asyncio.Event()
    given = iter([{"type": "http.request", "body": body}])

    async def receive() -> dict[str, Any]:
        if (message := next(given, None)) is not None:
            return message
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)
        if leaves_after is not None and len(sent) > leaves_after:
            left.set()

    await asyncio.wait_for(handler(scope, receive, send), WAIT_S)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


async def test_a_request_is_answered_on_a_thread(handler: ThreadedHandler) -> None:
    status, body = await ask(handler, "/thread", b"with a body")

    assert status == 200
    assert body.startswith(b"request_")
    assert body.endswith(b" with a body")


async def test_many_are_answered_at_once_and_more_wait(handler: ThreadedHandler) -> None:
    answers = await asyncio.gather(*(ask(handler, "/meeting") for _ in range(2 * THREADS)))

    assert answers == [(200, b"met")] * 2 * THREADS


async def test_an_error_of_a_view_is_an_answer(
    handler: ThreadedHandler, caplog: pytest.LogCaptureFixture
) -> None:
    status, _ = await ask(handler, "/broken")

    assert status == 500
    assert "nobody expected this" in caplog.text


@pytest.mark.filterwarnings("error:StreamingHttpResponse must consume synchronous:Warning")
async def test_a_file_is_sent_whole(handler: ThreadedHandler) -> None:
    status, body = await ask(handler, "/file")

    assert (status, len(body)) == (200, 200_000)


async def test_a_stream_is_of_the_loop_and_ends_by_itself(handler: ThreadedHandler) -> None:
    status, body = await ask(handler, "/stream?how=short")

    assert (status, body) == (200, threading.main_thread().name.encode())
    assert ended.is_set()


async def test_a_stream_ends_when_its_client_goes_away(handler: ThreadedHandler) -> None:
    status, body = await ask(handler, "/stream?how=endless", leaves_after=3)

    assert status == 200
    assert body.startswith(threading.main_thread().name.encode() + b".")
    assert ended.wait(WAIT_S)


async def test_an_error_of_a_stream_reaches_the_server(handler: ThreadedHandler) -> None:
    with pytest.raises(OSError, match="the disk is gone"):
        await ask(handler, "/stream?how=broken")

    assert ended.is_set()


async def test_what_is_none_of_http_is_refused(handler: ThreadedHandler) -> None:
    with pytest.raises(ValueError, match="expected an HTTP request, got websocket"):
        await handler({"type": "websocket"}, None, None)
