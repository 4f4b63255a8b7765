"""Requests on threads of their own, and the event loop for what waits: live streams and sockets."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from io import BufferedReader, RawIOBase
from typing import Any, Final, cast

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.db import close_old_connections
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from controlplane.uploads.places import is_upload_address

THREADS: Final = 24
"""Requests that are answered at once; more wait for their turn. Some more than the connections to
the database, so that what needs none of these is answered while all of them are taken.
"""


PIECE_WAIT_S: Final = 60.0
"""For the next piece of an upload. A client that is slower holds a thread for nothing."""


class ArrivingBody(RawIOBase):
    """The body of an upload, read on the thread of its view while it arrives. What the view refuses
    is never read, and nothing is stored but what the view stores.
    """

    def __init__(self, receive: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._receive = receive
        self._loop = loop
        self._rest = b""
        self._is_over = False

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a part of the buffer and return its length; 0 at the end of the body.

        Raises OSError if the client goes away, or sends nothing for `PIECE_WAIT_S`.
        """
        while not self._rest and not self._is_over:
            self._rest = self._receive_piece()
        length = min(len(buffer), len(self._rest))
        buffer[:length], self._rest = self._rest[:length], self._rest[length:]
        return length

    def _receive_piece(self) -> bytes:
        future = asyncio.run_coroutine_threadsafe(self._receive(), self._loop)
        try:
            message = future.result(PIECE_WAIT_S)
        except TimeoutError as error:
            future.cancel()
            raise OSError(f"no byte of the upload arrived for {PIECE_WAIT_S:.0f} s") from error
        if message["type"] == "http.disconnect":
            raise OSError("the client closed the connection during its upload")
        self._is_over = not message.get("more_body", False)
        return bytes(message.get("body", b""))


class ThreadedHandler(ASGIHandler):
    """Each request is answered by one thread from its first middleware to its last byte.

    Django's own handler sends it to and fro between the event loop and threads five times, also
    where neither a middleware nor a view waits for the loop, and watches beside it whether the
    client went away, which no thread can be told. That was half of the time of a list. A view of
    ours is a function of a thread; only the content of a stream is of the loop.
    """

    def __init__(self) -> None:
        super().__init__()
        self.load_middleware(is_async=False)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="request")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request. Raises ValueError for what is none of HTTP."""
        if scope["type"] != "http":
            raise ValueError(f"expected an HTTP request, got {scope['type']}")
        loop = asyncio.get_running_loop()
        body_file: Any
        if is_upload_address(scope["path"]):
            body_file = BufferedReader(ArrivingBody(receive, loop))
        else:
            try:
                body_file = await self.read_body(receive)
            except RequestAborted:
                return
        run = copy_context().run
        try:
            response = await loop.run_in_executor(
                self._threads, run, self._answer, scope, body_file
            )
            if isinstance(response, StreamingHttpResponse):
                async with ThreadSensitiveContext():
                    await self._stream(response, receive, send)
            else:
                await self.send_response(response, send)
        finally:
            body_file.close()

    def _answer(self, scope: Any, body_file: Any) -> HttpResponseBase:
        """On a thread. What is no stream is whole, and over, when this returns."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        request, refused = self.create_request(scope, body_file)
        response = cast(
            "HttpResponseBase", refused if request is None else self._response_to(request)
        )
        if isinstance(response, StreamingHttpResponse) and response.is_async:
            # Its content is made elsewhere; this thread would keep what it has for as long.
            close_old_connections()
            return response
        with closing(response):
            return _whole(response) if isinstance(response, StreamingHttpResponse) else response

    def _response_to(self, request: ASGIRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response._handler_class = self.__class__  # type: ignore[attr-defined]
        return response

    async def _stream(self, response: StreamingHttpResponse, receive: Any, send: Any) -> None:
        """Until it ends or its client goes away."""
        sending = asyncio.create_task(self.send_response(response, send))
        leaving = asyncio.create_task(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            ended = await asyncio.gather(sending, leaving, return_exceptions=True)
            await sync_to_async(response.close)()
        for error in ended:
            if isinstance(error, Exception) and not isinstance(error, RequestAborted):
                raise error


def _whole(response: StreamingHttpResponse) -> HttpResponse:
    """The same of one piece. What only a thread can take is a static file, a few hundred KB: Django
    would read it whole as well, on another thread, and warn.
    """
    whole = HttpResponse(
        b"".join(response), status=response.status_code, headers=dict(response.items())
    )
    whole.cookies = response.cookies
    return whole
