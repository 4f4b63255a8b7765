"""The marker server as a supervised process: start, probe, drain, stop.

The running server is the one that answers on its port; a pid is only signalled while its command
line is that of a marker server on that port, because pids are reused.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from workers.clock import Clock, SystemClock
from workers.log_lines import FORMAT_VARIABLE, LEVEL_VARIABLE
from workers.markers.tokens import mint_admin_token
from workers.storage.s3_settings import VARIABLES
from workers.traces import OTEL_PREFIX, TRACES_VARIABLE

SECRET_VARIABLE = "SLUICE_MARKER_SECRET"  # noqa: S105 - the name of a variable, not a secret
_MODULE = "workers.markers.server"
_SOURCE_ROOT = Path(__file__).resolve().parents[2]
_LOOPBACK = "127.0.0.1"
_POLL_S = 0.05
# The server needs nothing else of ours, least of all other processes' secrets.
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "VIRTUAL_ENV")
# A node finds its processes by these, even if no supervisor is left.
_NODE = ("SLUICE_HOME", "SLUICE_NODE")
_LOGS = (FORMAT_VARIABLE, LEVEL_VARIABLE, TRACES_VARIABLE)
_STOP_POINTS = ("SLUICE_ALLOW_STOP_POINTS", "SLUICE_STOP_POINTS")
_COVERAGE = ("COVERAGE_PROCESS_CONFIG",)  # `make coverage` sees which lines of the server run.


@dataclass(frozen=True, slots=True)
class Health:
    """The answer of `/health`, which needs no token."""

    status: str
    """`ok` or `draining`."""
    pid: int
    since_ms: int


def server_url(port: int) -> str:
    """Return the URL of a server on this machine, without a slash at its end."""
    return f"http://{_LOOPBACK}:{port}"


def server_command(
    *, host: str, port: int, roots: Sequence[str | Path], options: Sequence[str] = ()
) -> list[str]:
    """Return the words that run a server in the foreground. The secret is not among them."""
    words = [sys.executable, "-m", _MODULE, "--host", host, "--port", str(port)]
    words += ["--secret-env", SECRET_VARIABLE]
    for root in roots:
        words += ["--root", str(root)]
    return [*words, *options]


def start_server(
    *,
    host: str = _LOOPBACK,
    port: int,
    roots: Sequence[str | Path],
    secret: str,
    log_path: str | Path,
    options: Sequence[str] = (),
) -> int:
    """Start a server in its own process group. Returns immediately; `probe` checks when it
    answers.
    """
    command = server_command(host=host, port=port, roots=roots, options=options)
    environment = {
        name: value
        for name in (*_INHERITED, *_NODE, *_LOGS, *_STOP_POINTS, *_COVERAGE, *VARIABLES)
        if (value := os.environ.get(name)) is not None
    }
    environment |= {
        name: value for name, value in os.environ.items() if name.startswith(OTEL_PREFIX)
    }
    environment |= {SECRET_VARIABLE: secret, "PYTHONPATH": str(_SOURCE_ROOT)}
    Path(log_path).parent.mkdir(parents=True, exist_ok=True)
    with Path(log_path).open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=_SOURCE_ROOT,
            start_new_session=True,
        )
    # No code waits for it through this object: supervision is by pid, from any process.
    process.returncode = 0
    return process.pid


def probe(url: str, timeout_s: float) -> Health | None:
    """Return the health of the server at `url`; None without a valid answer in time."""
    health = _request_json(url, "GET", "/health", token=None, timeout_s=timeout_s)
    match health:
        case {"status": str(status), "pid": int(pid), "since_ms": int(since_ms)}:
            return Health(status, pid, since_ms)
        case _:
            return None


def await_health(url: str, timeout_s: float, *, clock: Clock | None = None) -> Health | None:
    """Return the first answer of a server that is starting; None when there was none in time."""
    clock = clock or SystemClock()
    deadline_s = clock.monotonic_s() + timeout_s
    while (health := probe(url, timeout_s=1.0)) is None:
        if clock.monotonic_s() >= deadline_s:
            return None
        clock.sleep(_POLL_S)
    return health


def sample(url: str, secret: str, timeout_s: float) -> Mapping[str, object] | None:
    """Return the server's `/metrics`; None when it does not answer."""
    return _request_json(
        url, "GET", "/metrics", token=mint_admin_token(secret), timeout_s=timeout_s
    )


def drain(url: str, secret: str, timeout_s: float) -> bool:
    """Make the server refuse creates and flush; True when no request waits there."""
    token = mint_admin_token(secret)
    answer = _request_json(url, "POST", "/drain", token=token, timeout_s=timeout_s)
    return answer is not None and answer.get("drained") is True


def is_server(pid: int, *, port: int) -> bool:
    """Return True while `pid` is a running marker server on that port."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    # A zombie no longer has a command line.
    return _MODULE in words and ("--port", str(port)) in itertools.pairwise(words)


def stop(pid: int, *, port: int, timeout_s: float = 10.0, clock: Clock | None = None) -> bool:
    """End the server, by force if needed; False when `pid` is not a marker server on `port`."""
    if not is_server(pid, port=port):
        _reap(pid)
        return False
    clock = clock or SystemClock()
    for order in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(pid, order)
        deadline_s = clock.monotonic_s() + timeout_s
        while is_server(pid, port=port) and clock.monotonic_s() < deadline_s:
            clock.sleep(_POLL_S)
        if not is_server(pid, port=port):
            break
    _reap(pid)
    return True


def _reap(pid: int) -> None:
    """Take the exit status where the server was our own child, so that no zombie stays."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _request_json(
    url: str, method: str, path: str, *, token: str | None, timeout_s: float
) -> Mapping[str, object] | None:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request(
            method, path, headers={} if token is None else {"Authorization": f"Bearer {token}"}
        )
        response = connection.getresponse()
        answer = json.loads(response.read()) if response.status == http.client.OK else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return answer if isinstance(answer, dict) else None
