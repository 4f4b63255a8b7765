"""The marker server's process.

    python -m workers.markers.server --port 8711 --root /data/tables

The secret comes by an environment variable, never by an argument. Without Django and without
Spark, so that it starts in a fraction of a second: killed, it is back before its clients give up.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from workers.clock import Clock, SystemClock
from workers.errors import InvalidInput
from workers.locations import bucket_place, is_bucket_location
from workers.log_lines import configure
from workers.markers.access import Access, is_loopback
from workers.markers.batcher import BatchSettings
from workers.markers.registry import MarkerDirectories
from workers.markers.routes import BODY_BYTES_MAX, MarkerServer
from workers.markers.statistics import Statistics
from workers.markers.wire import HttpServer
from workers.open_files import raise_open_file_limit
from workers.storage.base import Storage
from workers.storage.opener import open_storage
from workers.traces import configure_traces

_POOL_THREADS = 32
_OPEN_FILES = 16_384
"""Thousands of executors keep a connection each."""
_SHUTDOWN_S = 5.0

_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until a signal; exits with one line on stderr for wrong arguments or a port in use."""
    parsed = _parser().parse_args(arguments)
    configure(os.environ)
    configure_traces(os.environ, "sluice-markers")
    problem, secret = _check_arguments(parsed)
    if problem is not None:
        sys.exit(f"marker server: {problem}")
    raise_open_file_limit(_OPEN_FILES)
    server = build_server(
        roots=parsed.root,
        secret=secret,
        allows_unauthenticated_loopback=parsed.allow_unauthenticated_loopback,
        settings=_batch_settings(parsed),
    )
    try:
        asyncio.run(serve(server, parsed.host, parsed.port))
    except OSError as error:
        sys.exit(f"marker server: cannot serve {parsed.host}:{parsed.port}: {error.strerror}")


async def serve(server: MarkerServer, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT, then answer waiting requests. Raises OSError when it cannot
    listen.
    """
    http = HttpServer(
        server.answer,
        server.refusal,
        admit=server.admit,
        clock=SystemClock(),
        body_bytes_max=BODY_BYTES_MAX,
    )
    stopped = asyncio.Event()
    for order in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(order, stopped.set)
    await http.listen(host, port)
    _log.info("marker server on http://%s:%s", host, port)
    await stopped.wait()
    await http.close(_SHUTDOWN_S)
    await server.finish()


def build_server(
    *,
    roots: Sequence[str | Path],
    secret: str | None,
    allows_unauthenticated_loopback: bool = False,
    settings: BatchSettings | None = None,
    clock: Clock | None = None,
    open_storage: Callable[[Any], Storage] = open_storage,
) -> MarkerServer:
    """Build a server with its thread pools, which `serve` makes listen."""
    clock = clock or SystemClock()
    statistics = Statistics(since_ms=clock.now_ms())
    pool = ThreadPoolExecutor(_POOL_THREADS, thread_name_prefix="storage")
    directories = MarkerDirectories(
        roots,
        pool=pool,
        journal_pool=ThreadPoolExecutor(_POOL_THREADS, thread_name_prefix="journal"),
        clock=clock,
        settings=settings or BatchSettings(),
        statistics=statistics,
        open_storage=open_storage,
    )
    access = Access(secret, allows_unauthenticated_loopback=allows_unauthenticated_loopback)
    return MarkerServer(directories, access, pool=pool, clock=clock, statistics=statistics)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m workers.markers.server", description="Batches markers for many writers."
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument(
        "--root",
        action="append",
        required=True,
        help="folder or s3://bucket/prefix; tables below it are served",
    )
    parser.add_argument(
        "--secret-env",
        default="SLUICE_MARKER_SECRET",
        metavar="NAME",
        help="environment variable with the secret that tokens are made of (%(default)s)",
    )
    parser.add_argument(
        "--allow-unauthenticated-loopback",
        action="store_true",
        help="serve requests without a token from this machine (bench and interop only)",
    )
    defaults = BatchSettings()
    parser.add_argument(
        "--interval-ms",
        type=int,
        help=f"shortest and longest wait for a batch (only longest, {defaults.interval_ms})",
    )
    parser.add_argument("--num-threads", type=int, default=defaults.num_threads)
    parser.add_argument("--queue-max", type=int, default=defaults.queue_max)
    return parser


def _check_arguments(arguments: argparse.Namespace) -> tuple[str | None, str | None]:
    """Return what is wrong in one line, or None, and the secret."""
    secret = os.environ.pop(arguments.secret_env, "") or None
    if secret is None and not arguments.allow_unauthenticated_loopback:
        return f"{arguments.secret_env} is not set", None
    if arguments.allow_unauthenticated_loopback and not is_loopback(arguments.host):
        return "requests without a token are allowed on a loopback address only", None
    for root in arguments.root:
        if (wrong := _wrong_with(root)) is not None:
            return wrong, None
    if not 1 <= arguments.num_threads <= 1_000 or arguments.queue_max < 1:
        return "--num-threads and --queue-max must be positive", None
    if arguments.interval_ms is not None and not 0 <= arguments.interval_ms <= 60_000:
        return "--interval-ms must be 0 to 60000", None
    return None, secret


def _wrong_with(root: str) -> str | None:
    if is_bucket_location(root):
        try:
            bucket_place(root)
        except InvalidInput as error:
            return f"root is not a place in a bucket: {error}"
        return None
    return None if Path(root).is_dir() else f"root is no directory: {root}"


def _batch_settings(arguments: argparse.Namespace) -> BatchSettings:
    defaults = BatchSettings(num_threads=arguments.num_threads, queue_max=arguments.queue_max)
    if arguments.interval_ms is None:
        return defaults
    return BatchSettings(
        num_threads=arguments.num_threads,
        queue_max=arguments.queue_max,
        interval_ms=arguments.interval_ms,
        waits_interval=True,
    )


if __name__ == "__main__":
    main()
