"""A Connect server on a port that something else has taken."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from workers.processes import is_port_taken
from workers.spark.connect_server import (
    ConnectServerFailed,
    start_connect_server,
)

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_server_whose_port_is_taken_says_so(tmp_path: Path) -> None:
    """So that one with a port of its own choice is started again with another one."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        with pytest.raises(ConnectServerFailed) as error:
            start_connect_server(tmp_path, port=listener.getsockname()[1], wait_s=250.0)

    assert is_port_taken(error.value), error.value
