"""On which ports the demo's broker listens: chosen once, kept beside its data, because a sink that
is launched again is told the address that it had before.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path

from workers.processes import find_free_ports

_FILE = "ports.json"


def read_ports(directory: Path) -> tuple[int, int] | None:
    """The broker's and its controller's; None before they were chosen."""
    try:
        first, second = json.loads((directory / _FILE).read_text())
    except FileNotFoundError:
        return None
    return int(first), int(second)


def chosen_ports(directory: Path) -> tuple[int, int]:
    """Those of last time while nobody else has taken them. For a broker that does not run."""
    known = read_ports(directory)
    if known is not None and all(map(_is_free, known)):
        return known
    first, second = find_free_ports(2)
    ports = (first, second)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / _FILE).write_text(json.dumps(ports))
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        # As the broker does, so that a connection that ended a moment ago does not count.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
