"""A marker server that is killed hundreds of times under load, and the clients who remember what it
said.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from tests.workers.markers.harness import INSTANT, SECRET, ServerProcess, directory_of
from workers.clock import SystemClock
from workers.markers import mint_token
from workers.markers.client import BASE_PATH
from workers.processes import find_free_port
from workers.storage.local import LocalStorage

_ROOT = Path(__file__).resolve().parents[3]
_START_MAX_S = 60.0


class ForkedServer(ServerProcess):
    """As `ServerProcess`, back a moment after it was killed."""

    def __init__(self, root: Path, zygote: subprocess.Popen[str]) -> None:
        super().__init__(root)
        self.port = find_free_port()
        self._zygote = zygote
        self._clock = SystemClock()

    def start(self) -> ForkedServer:
        self.pid = self._asked(["--port", str(self.port), "--root", str(self.root)])
        deadline_s = self._clock.monotonic_s() + _START_MAX_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
            except ConnectionRefusedError:
                assert self._clock.monotonic_s() < deadline_s, self.log
                self._clock.sleep(0.002)
            else:
                return self

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self._asked(self.pid)
        self.pid = 0

    def stop(self) -> None:
        if self.pid:
            self.kill()

    def _asked(self, order: object) -> int:
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.write(json.dumps(order) + "\n")
        self._zygote.stdin.flush()
        return int(self._zygote.stdout.readline())


@contextmanager
def forked_server(root: Path) -> Iterator[ForkedServer]:
    """Not started yet."""
    log = root.parent / "marker-server.log"
    zygote = subprocess.Popen(
        [sys.executable, "-m", "tests.workers.markers.zygote", str(log)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        env={**os.environ, "SLUICE_MARKER_SECRET": SECRET},
    )
    server = ForkedServer(root, zygote)
    try:
        yield server
    finally:
        server.stop()
        assert zygote.stdin is not None
        zygote.stdin.close()
        zygote.wait(timeout=60)


@dataclass(slots=True)
class Request:
    request_id: str
    names: list[str]


@dataclass(slots=True)
class Asker:
    """One client: the requests that were answered, and those that have no answer."""

    server: ServerProcess
    storage: LocalStorage
    prefix: str
    answered: list[Request] = field(default_factory=list)
    unanswered: list[Request] = field(default_factory=list)

    def ask_until(self, stop: threading.Event) -> None:
        """New markers, alone and three at a time, until the server is gone."""
        number = 0
        own_id = self.prefix.replace("/", ".").replace("=", "")
        with self._connected() as connection:
            while not stop.is_set():
                count = 1 if number % 2 else 3
                names = [f"{self.prefix}/f{number}-{n}.parquet.marker.CREATE" for n in range(count)]
                request = Request(f"{own_id}.{number}", names)
                number += 1
                try:
                    answers = self._answers(connection, request)
                except (OSError, http.client.HTTPException):
                    self.unanswered.append(request)
                    return
                assert answers == ["created"] * count, (request, answers)
                self.answered.append(request)

    def answers(self, request: Request) -> list[str]:
        with self._connected() as connection:
            return self._answers(connection, request)

    @contextmanager
    def _connected(self) -> Iterator[http.client.HTTPConnection]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            yield connection
        finally:
            connection.close()

    def _answers(self, connection: http.client.HTTPConnection, request: Request) -> list[str]:
        query = {"markerdirpath": directory_of(self.storage), "requestid": request.request_id}
        path, body = f"{BASE_PATH}/create-all", "\n".join(request.names).encode()
        if len(request.names) == 1:
            path, body = f"{BASE_PATH}/create", b""
            query["markername"] = request.names[0]
        token = mint_token(SECRET, self.storage.location, INSTANT)
        headers = {"Authorization": f"Bearer {token}"}
        connection.request("POST", f"{path}?{urlencode(query)}", body=body, headers=headers)
        response = connection.getresponse()
        content = json.loads(response.read())
        assert response.status == 200, content
        if isinstance(content, bool):
            return ["created" if content else "exists"]
        return list(content)
