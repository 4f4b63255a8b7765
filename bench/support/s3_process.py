"""An S3 server for tests, as a process of its own: moto behind a lock per key.

    python -m bench.support.s3_process --port 0 --bucket lake

moto looks at a condition and writes in two steps, so that of several conditional writes more than
one may win; here those of one key come one after the other. Every request waits `latency_ms` first,
is counted, and meets the faults that were ordered under `/_faults` (see `s3_faults`). Prints its
port when it serves.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from werkzeug.serving import WSGIRequestHandler, make_server

from bench.support.s3_faults import Fault, answer_of

CONTROL = "/_control"
_App = Callable[[dict[str, Any], Any], Iterable[bytes]]


class Front:
    """A WSGI application around moto's."""

    def __init__(self, behind: _App) -> None:
        self._behind = behind
        self._keys: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()
        self._latency_s = 0.0
        self._counts: Counter[str] = Counter()
        self._log: list[str] = []
        self._faults: list[Fault] = []

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == CONTROL:
            return self._controlled(environ, start)
        content = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        request = Request(environ, content)
        fault = self._noted(request)
        if self._latency_s:
            time.sleep(self._latency_s)
        with self._keys[path]:
            return answer_of(fault, request, self._behind, start)

    def _noted(self, request: Request) -> Fault | None:
        with self._lock:
            self._counts[request.operation] += 1
            self._log.append(f"{request.operation} {request.target}")
            for fault in self._faults:
                if fault.hits(request.operation, request.target):
                    return fault
        return None

    def _controlled(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        size = int(environ.get("CONTENT_LENGTH") or 0)
        order = json.loads(environ["wsgi.input"].read(size) or b"{}")
        with self._lock:
            state: dict[str, Any] = {"counts": dict(self._counts), "log": list(self._log)}
            state |= {"met": [fault.met for fault in self._faults]}
            if order.get("reset"):
                self._counts.clear()
                self._log.clear()
            if "latency_ms" in order:
                self._latency_s = order["latency_ms"] / 1000
            if "faults" in order:
                self._faults = [Fault(**one) for one in order["faults"]]
        body = json.dumps(state).encode()
        start("200 OK", [("Content-Length", str(len(body)))])
        return [body]


class Request:
    """One request as it came in; it can be handed on more than once."""

    def __init__(self, environ: dict[str, Any], content: bytes) -> None:
        self.environ = environ
        self.content = content
        query: str = environ.get("QUERY_STRING", "")
        self.operation = _operation(environ, query)
        prefixes = [part[7:] for part in str(query).split("&") if part.startswith("prefix=")]
        self.target = prefixes[0].replace("%2F", "/") if prefixes else str(environ["PATH_INFO"])


def _operation(environ: dict[str, Any], query: str) -> str:
    method: str = environ["REQUEST_METHOD"]
    if "list-type" in query:
        return "list"
    if method == "POST" and "delete" in query:
        return "delete"
    if method == "PUT" and "HTTP_IF_NONE_MATCH" in environ:
        return "put_if_absent"
    if method == "PUT" and "HTTP_IF_MATCH" in environ:
        return "replace_if_match"
    if "uploadId" in query or "uploads" in query:
        return "part"
    return {"HEAD": "head", "GET": "get", "PUT": "put"}.get(method, method.lower())


class _Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def connection_dropped(self, error: BaseException, environ: Any = None) -> None:
        """What remains unanswered ends with the connection."""
        self.close_connection = True

    def log_request(self, *_: object, **__: object) -> None:
        """Quiet: the counts tell."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--bucket", required=True)
    options = parser.parse_args()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    os.environ |= {"AWS_ACCESS_KEY_ID": "moto", "AWS_SECRET_ACCESS_KEY": "moto"}
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    behind = DomainDispatcherApplication(create_backend_app)
    server = make_server(
        "127.0.0.1", options.port, Front(behind), threaded=True, request_handler=_Handler
    )
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _make_bucket(server.port, options.bucket)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    threading.Event().wait()


def _make_bucket(port: int, bucket: str) -> None:
    import requests

    requests.put(f"http://127.0.0.1:{port}/{bucket}", timeout=30).raise_for_status()


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    main()
