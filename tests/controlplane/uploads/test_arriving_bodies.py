"""The body of an upload reaches its view while it arrives, and not before the view reads it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.http.request import UnreadablePostError
from django.urls import path
from pytest_django import Settings

from controlplane.accounts.tokens import create_token
from controlplane.request_threads import ThreadedHandler
from controlplane.uploads.places import upload_folder

pytestmark = [pytest.mark.anyio, pytest.mark.django_db(transaction=True)]
WAIT_S = 60
HEADERS = [(b"host", b"localhost"), (b"content-type", b"text/csv")]


def uploads_view(request: HttpRequest) -> HttpResponse:
    if request.GET.get("how") == "refused":
        return HttpResponse("refused", status=413)
    pieces = []
    try:
        while piece := request.read(3):
            pieces.append(piece)
    except UnreadablePostError:
        return HttpResponse("was interrupted", status=400)
    return HttpResponse(b"|".join(pieces))


urlpatterns = [path("api/v1/uploads/", uploads_view)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def handler(settings: Settings) -> ThreadedHandler:
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = []
    return ThreadedHandler()


async def send_body(
    handler: ThreadedHandler,
    messages: Iterator[dict[str, Any]],
    query: bytes = b"",
    headers: Sequence[tuple[bytes, bytes]] = HEADERS,
) -> tuple[int, bytes]:
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/uploads/",
        "query_string": query,
        "headers": headers,
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        return next(messages)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await asyncio.wait_for(handler(scope, receive, send), WAIT_S)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


FORM = b"""--x\r
Content-Disposition: form-data; name="file"; filename="a.csv"\r
Content-Type: text/csv\r
\r
id,ts\r
1,2\r
--x--\r
"""


@pytest.mark.parametrize(
    ("content_type", "body"),
    [(b"text/csv", b"id,ts\r\n1,2"), (b"multipart/form-data; boundary=x", FORM)],
)
async def test_the_whole_stack_stores_what_arrives_in_pieces(
    admin: User, root: Path, content_type: bytes, body: bytes
) -> None:
    _, token = await sync_to_async(create_token)(admin, scope="administer")
    headers = [
        (b"host", b"localhost"),
        (b"content-type", content_type),
        (b"content-length", str(len(body)).encode()),
        (b"authorization", f"Token {token}".encode()),
    ]
    messages = [
        {"type": "http.request", "body": body[at : at + 7], "more_body": at + 7 < len(body)}
        for at in range(0, len(body), 7)
    ]

    status, answer = await send_body(ThreadedHandler(), iter(messages), b"name=a.csv", headers)

    (file,) = [file for file in Path(upload_folder()).rglob("*") if file.is_file()]
    assert (status, json.loads(answer)["name"]) == (201, "a.csv")
    assert file.read_bytes() == b"id,ts\r\n1,2"


async def test_pieces_are_read_as_they_arrive(handler: ThreadedHandler) -> None:
    bodies = [b"ab", b"cdefg", b"", b"h"]
    messages = iter(
        [{"type": "http.request", "body": body, "more_body": True} for body in bodies]
        + [{"type": "http.request", "body": b"i"}]
    )

    assert await send_body(handler, messages) == (200, b"abc|def|ghi")


async def test_what_is_refused_is_never_read(handler: ThreadedHandler) -> None:
    messages = iter([{"type": "http.request", "body": b"x" * 1000}])

    assert await send_body(handler, messages, b"how=refused") == (413, b"refused")
    assert len(list(messages)) == 1


async def test_a_client_that_goes_away_is_an_error_of_the_read(handler: ThreadedHandler) -> None:
    arriving: list[dict[str, Any]] = [
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.disconnect"},
    ]
    messages = iter(arriving)

    assert await send_body(handler, messages) == (400, b"was interrupted")
