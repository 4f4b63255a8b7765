"""A real marker server in a real process, and raw HTTP to it without the client's retries."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from bench.support.marker_server import start_marker_server, start_marker_server_at
from workers.markers import MarkerSettings, mint_token
from workers.markers.client import BASE_PATH, RESULT_HEADER
from workers.markers.marker import markers_directory_path
from workers.markers.process import server_url, stop
from workers.storage.local import LocalStorage

SECRET = "a-secret-for-tests"
INSTANT = "20240101000000000"
LATER = "20240101000000001"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    result: str | None
    content: object
    headers: Mapping[str, str]


class ServerProcess:
    def __init__(self, root: Path, *, options: tuple[str, ...] = ()) -> None:
        self.root = root
        self.options = options
        self.port = 0
        """It has one since its first start."""
        self.pid = 0

    @property
    def url(self) -> str:
        return server_url(self.port)

    @property
    def log(self) -> str:
        return self._log_path.read_text()

    @property
    def _log_path(self) -> Path:
        return self.root.parent / "marker-server.log"

    def start(self) -> ServerProcess:
        """Start it on a free port; on the same port if it ran before, because clients know that."""
        start = partial(start_marker_server_at, self.port) if self.port else start_marker_server
        running = start(roots=[self.root], secret=SECRET, log=self._log_path, options=self.options)
        self.port, self.pid = running.port, running.pid
        return self

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def stop(self) -> None:
        stop(self.pid, port=self.port)

    def settings(self, storage: LocalStorage, instant: str = INSTANT) -> MarkerSettings:
        return MarkerSettings(
            kind="timeline_server_based",
            url=self.url,
            token=mint_token(SECRET, storage.location, instant),
        )

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        token: str | None = None,
        body: str | bytes | None = None,
        form: Mapping[str, str] | None = None,
    ) -> Answer:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        if form is not None:
            body = urlencode(form)
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            target = f"{path}?{urlencode(query)}" if query else path
            payload = body.encode() if isinstance(body, str) else body
            connection.request(method, target, body=payload, headers=headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        return Answer(
            response.status,
            response.getheader(RESULT_HEADER),
            json.loads(content) if content else None,
            dict(response.getheaders()),
        )

    def create(
        self,
        storage: LocalStorage,
        name: str,
        *,
        request_id: str | None = None,
        instant: str = INSTANT,
    ) -> Answer:
        query = {"markerdirpath": directory_of(storage, instant), "markername": name}
        if request_id is not None:
            query["requestid"] = request_id
        return self.ask(
            "POST",
            f"{BASE_PATH}/create",
            query=query,
            token=mint_token(SECRET, storage.location, instant),
        )

    def all(self, storage: LocalStorage, instant: str = INSTANT) -> object:
        return self.ask(
            "GET",
            f"{BASE_PATH}/all",
            query={"markerdirpath": directory_of(storage, instant)},
            token=mint_token(SECRET, storage.location, instant),
        ).content


def directory_of(storage: LocalStorage, instant: str = INSTANT) -> str:
    return markers_directory_path(storage.location, instant)


def new_table(root: Path, name: str = "t") -> LocalStorage:
    storage = LocalStorage(root / name)
    storage.put(".hoodie/hoodie.properties", b"hoodie.table.version=9\n")
    return storage


def decide(storage: LocalStorage, outcome: str, instant: str = INSTANT) -> None:
    decision = json.dumps({"outcome": outcome}).encode()
    assert storage.put_if_absent(f".hoodie/.sluice/decision/{instant}", decision)
