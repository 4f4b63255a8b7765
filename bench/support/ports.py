"""A port that nobody listens on at the moment."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of the loopback address; another process may take it before its caller does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
