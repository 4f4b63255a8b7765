"""The client that loads a marker server: one process, one thread, as little of it as can be.

A job on standard input, a result on standard output, both JSON. Requests are made before the clock
starts, sent from an epoll loop, and each connection waits for its answer before it asks again. The
client says what it cost itself, because it takes processor time from the server beside it.
"""

from __future__ import annotations

import json
import select
import socket
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

_PATH = "/v1/hoodie/marker"
_ANSWER_BYTES_MAX = 1 << 20


def main() -> None:
    job = json.loads(sys.stdin.read())
    requests = [_request(job, names) for names in job["requests"]]
    load = Load(job["port"], requests, job["connections"])
    load.run()
    sys.stdout.write(json.dumps(load.result()))


def _request(job: dict[str, Any], names: list[str]) -> bytes:
    """One name by Hudi's own request, several by ours for many."""
    query = {"markerdirpath": job["directory"]}
    path, body = f"{_PATH}/create-all", json.dumps(names)
    if len(names) == 1:
        path, body = f"{_PATH}/create", ""
        query["markername"] = names[0]
    if job["token"] is not None:
        query["requestid"] = f"{hash(names[0]) & 0xFFFFFFFFFFFF:x}"
    lines = [f"POST {path}?{urlencode(query)} HTTP/1.1", f"Host: 127.0.0.1:{job['port']}"]
    if job["token"] is not None:
        lines.append(f"Authorization: Bearer {job['token']}")
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", body]).encode()


@dataclass(slots=True)
class Load:
    port: int
    requests: Sequence[bytes]
    connections: int
    waits_s: list[float] = field(default_factory=list)
    took_s: float = 0.0
    cpu_s: float = 0.0

    def run(self) -> None:
        poll = select.epoll()
        open_sockets = {one.fileno(): one for one in map(self._connected, range(self.connections))}
        for number in open_sockets:
            poll.register(number, select.EPOLLIN)
        cpu_s, started = time.process_time(), time.perf_counter()
        self._exchange(poll, open_sockets)
        self.took_s = time.perf_counter() - started
        self.cpu_s = time.process_time() - cpu_s
        for open_socket in open_sockets.values():
            open_socket.close()

    def _exchange(self, poll: select.epoll, open_sockets: dict[int, socket.socket]) -> None:
        left = iter(self.requests)
        clock = time.perf_counter
        sent: dict[int, float] = {}
        for number, request in zip(open_sockets, left, strict=False):
            sent[number] = clock()
            open_sockets[number].sendall(request)
        received: dict[int, bytes] = {}
        while sent:
            for number, _ in poll.poll():
                answer = open_sockets[number].recv(_ANSWER_BYTES_MAX)
                answer = received.pop(number, b"") + answer
                if not _is_whole(answer):
                    received[number] = answer
                    continue
                now = clock()
                self.waits_s.append(now - sent.pop(number))
                following = next(left, None)
                if following is not None:
                    sent[number] = now
                    open_sockets[number].sendall(following)

    def _connected(self, _: int) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def result(self) -> dict[str, Any]:
        return {
            "took_s": self.took_s,
            "rate": len(self.waits_s) / self.took_s,
            "p50_ms": statistics.median(self.waits_s) * 1000,
            "p99_ms": sorted(self.waits_s)[len(self.waits_s) * 99 // 100] * 1000,
            "client_us": self.cpu_s / len(self.waits_s) * 1e6,
            "waits_s": self.waits_s if len(self.waits_s) <= 1_000 else [],
        }


def _is_whole(answer: bytes) -> bool:
    """True when nothing of it is missing. A marker that was not made ends the measurement."""
    if answer.endswith(b"\r\n\r\ntrue"):
        return True
    assert answer.startswith(b"HTTP/1.1 200 "), answer[:300]
    assert not answer.endswith(b"false"), answer[:300]
    return answer.endswith(b"]")


if __name__ == "__main__":
    main()
