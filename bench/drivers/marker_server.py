"""Our marker server over storage whose every write takes a while, and which counts them.

    python -m bench.drivers.marker_server <port> <root> <ms per write> <count file> [interval]

Without a token, for this machine alone. With an interval its batches wait for it, as Hudi's do.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

from workers.clock import SystemClock
from workers.markers.batcher import BatchSettings
from workers.markers.server import build_server, serve
from workers.storage.local import LocalStorage


class SlowStorage(LocalStorage):
    def __init__(self, root: Path, write_s: float, counted: Path) -> None:
        super().__init__(root)
        self._write_s = write_s
        self._counted = counted
        self._lock = threading.Lock()
        self._writes = 0
        self._clock = SystemClock()

    def append(self, path: str, content: bytes) -> None:
        self._wait()
        super().append(path, content)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        self._wait()
        return super().put_if_absent(path, content)

    def _wait(self) -> None:
        with self._lock:
            self._writes += 1
            self._counted.write_text(str(self._writes))
        self._clock.sleep(self._write_s)


def main(arguments: list[str]) -> None:
    port, root, write_ms, counted, *interval_ms = arguments
    settings = BatchSettings()
    if interval_ms:
        settings = BatchSettings(interval_ms=int(interval_ms[0]), waits_interval=True)
    server = build_server(
        roots=[Path(root)],
        secret=None,
        allows_unauthenticated_loopback=True,
        settings=settings,
        open_storage=lambda table: SlowStorage(table, int(write_ms) / 1000, Path(counted)),
    )
    asyncio.run(serve(server, "127.0.0.1", int(port)))


if __name__ == "__main__":
    main(sys.argv[1:])
