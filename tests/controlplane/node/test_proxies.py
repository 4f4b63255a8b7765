"""What a caller says of its own address counts only where a configured proxy says it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO
from urllib.request import Request, urlopen

import pytest

from bench.support.listeners import start_listener
from controlplane.node.identity import BadSetting, Identity
from controlplane.node.places import PROJECT
from controlplane.node.processes import web_command
from controlplane.node.proxies import trusted_proxies


@pytest.fixture
def seen_by(tmp_path: Path) -> Iterator[Callable[[dict[str, str], str], str]]:
    """Runs the node's web server and asks whom it takes for the caller."""
    with ExitStack() as servers:

        def ask(environ: dict[str, str], header: str) -> str:
            def start(port: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
                identity = Identity("n", port, 1, 2, "/tmp")
                application = "tests.support.caller_echo:application"
                command = [
                    application if word == "controlplane.asgi:application" else word
                    for word in web_command(environ, identity)
                ]
                env = {**os.environ, "FORWARDED_ALLOW_IPS": "*"}
                return subprocess.Popen(command, cwd=PROJECT, env=env, stdout=output, stderr=output)

            listener = start_listener(start, tmp_path / "web.log")
            servers.callback(listener.stop)
            return _answer(listener.port, header)

        yield ask


def _answer(port: int, header: str) -> str:
    request = Request(f"http://127.0.0.1:{port}/", headers={"X-Forwarded-For": header})
    with urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize(
    ("proxies", "header", "seen"),
    [
        ("", "9.9.9.9", "127.0.0.1"),
        ("10.0.0.0/8", "9.9.9.9", "127.0.0.1"),
        ("127.0.0.1", "9.9.9.9", "9.9.9.9"),
        ("127.0.0.1, 10.0.0.0/8", "1.1.1.1, 9.9.9.9, 10.1.2.3", "9.9.9.9"),
    ],
    ids=["no proxy", "another proxy", "a proxy", "what the caller put before it"],
)
def test_a_forwarded_address_counts_from_a_configured_proxy_only(
    seen_by: Callable[[dict[str, str], str], str], proxies: str, header: str, seen: str
) -> None:
    assert seen_by({"SLUICE_TRUSTED_PROXIES": proxies}, header) == seen


@pytest.mark.parametrize("text", ["*", "0.0.0.0/0", "::/0", "proxy.example", "10.0.0.1/8"])
def test_proxies_that_are_no_addresses_or_all_are_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="SLUICE_TRUSTED_PROXIES"):
        trusted_proxies({"SLUICE_TRUSTED_PROXIES": text})
