"""The set `requests`: what a node's web process answers, and how fast, over a large mirror.

1,000 tables and a million instants. First, with SQLite and with PostgreSQL, what the server spends
on each page within a process: queries, and time of the processor and of the clock. Then, with
PostgreSQL, one uvicorn as `make up` starts it: server, database and the client that measures share
the machine's cores, and times are those of a client on loopback, from sending a request to the last
byte of its answer.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import psutil

from bench.engine import ROOT, Engine, JobFailed, driver_environment, engine
from bench.lines import Goal, Line
from bench.live_streams import LISTENERS, OF_EACH, measured_streams
from bench.support.postgres import postgres_cluster, programs
from bench.support.redis_server import redis_server
from controlplane.node.processes import memory_bytes_max
from workers.clock import SystemClock, format_instant
from workers.processes import find_free_port

TABLES: Final = 1_000
INSTANTS: Final = 1_000_000
_ONE_BY_ONE: Final = 60
_WARM_UP: Final = 10
_CLIENTS: Final = 32
_LOAD_S: Final = 8.0
_START_S: Final = 60.0
_STOP_S: Final = 20
_LIMIT: Final = "(a limit)"
_LIST: Final = Goal(40, " ms", is_least=False)
_PAGE: Final = Goal(100, " ms", is_least=False)
_QUERIES: Final = Goal(12, " queries", is_least=False)
_PAGE_SIZE: Final = Goal(150, " kB", is_least=False)
_RATE: Final = Goal(150, "/s")
_HITS: Final = Goal(600, "/s")
_AN_HOUR_MS: Final = 3_600_000
_WINDOW: Final = Goal(50, " ms", is_least=False)
_WINDOW_SIZE: Final = Goal(250, " kB", is_least=False)
WINDOWS: Final[Mapping[str, int]] = {
    "an hour": 1,
    "a day": 24,
    "4 days": 4 * 24,
    "10 days": 10 * 24,
    "30 days": 30 * 24,
    "a year": 365 * 24,
    "9 years": 9 * 365 * 24,
}
"""Hours by name."""
_OPENS: Final = Goal(2, " s", is_least=False)
_READER_MEMORY: Final = Goal(300, " MB", is_least=False)
DATA_ROWS: Final = 10_000_000
_OPENED: Final = 5
DATA_PAGES: Final[Mapping[str, str]] = {
    "first rows": "/t/large/data",
    "one key": "/t/large/data?where=id+%3D+7654321",
    "columns and plan": "/t/large/data/plan",
}
_T: Final = "/api/v1/tables/{slug}/"
LISTS: Final[Mapping[str, str]] = {
    "tables": "/api/v1/tables/?limit=100",
    "instants": f"{_T}instants/?limit=100",
    "operations": "/api/v1/operations/?limit=100",
    "operations of a table": f"{_T}operations/?limit=100",
    "conflicts": f"{_T}conflicts/?limit=100",
    "writers": f"{_T}writers/",
}
PAGES: Final[Mapping[str, str]] = {
    "home": "/",
    "home, live": "/home/part",
    "tables": "/tables/",
    "tables by commits": "/tables/?sort=-commits",
    "operations": "/operations",
    "overview": "/t/{slug}/",
    "live": "/t/{slug}/live",
    "timeline": "/t/{slug}/timeline",
    "writers": "/t/{slug}/writers",
    "services": "/t/{slug}/services",
}


def requests(folder: Path) -> Iterator[Line]:
    """SQLite alone without PostgreSQL. Raises JobFailed for an answer that is an error."""
    yield from pages(folder)
    if programs() is None:
        return
    with ExitStack() as stack:
        database = stack.enter_context(postgres_cluster())
        redis = stack.enter_context(redis_server("of-the-bench"))
        port = find_free_port()
        environment = _environment(folder, database, redis.address, port)
        mirror, slug, headers = _fill(folder, environment, stack)
        yield from _of_server(mirror, "PostgreSQL", slug, headers)
        web = stack.enter_context(_web(folder, environment, port))
        base = f"http://127.0.0.1:{port}"
        yield from asyncio.run(_measured(base, slug, headers, web))
        people = mirror.do("listeners", count=LISTENERS // OF_EACH).answer
        yield from asyncio.run(measured_streams(base, redis.address, slug, people))
    shutil.rmtree(folder, ignore_errors=True)


def pages(folder: Path) -> Iterator[Line]:
    """The set `pages`: what the server spends on each page, with SQLite alone. Two minutes. Raises
    JobFailed for an answer that is an error.
    """
    with _sqlite_server(folder) as (stack, environment):
        mirror, slug, headers = _fill(folder, environment, stack)
        yield from _of_server(mirror, "SQLite", slug, headers)


def timeline_windows(folder: Path) -> Iterator[Line]:
    """The set `timeline_windows`: the chart of a table with a million instants, five minutes apart,
    by the length of its window: processor time and size of the answer, with SQLite. Raises
    JobFailed for an answer that is an error.
    """
    with _sqlite_server(folder) as (stack, environment):
        mirror, slug, headers = _fill(folder, environment, stack, tables=1)
        mirror.do("count_history")
        end_ms = SystemClock().now_ms() - _AN_HOUR_MS
        paths = {
            name: f"/t/{slug}/timeline/figure?from={format_instant(end_ms - hours * _AN_HOUR_MS)}"
            f"&to={format_instant(end_ms)}"
            for name, hours in WINDOWS.items()
        }
        measured = mirror.do(
            "pages", paths=[*paths.values()], cookie=headers["Cookie"], repeats=_ONE_BY_ONE
        ).answer
        for name, path in paths.items():
            spent = measured[path]
            what = f"timeline of {INSTANTS:,} instants, window of {name}"
            p95_ms = spent["cpu_p95_ms"]
            yield Line(
                f"{what}: processor, p95", _LIMIT, p95_ms / 1000, None, p95_ms, _WINDOW, spent
            )
            yield Line(f"{what}: size", _LIMIT, None, None, spent["bytes"] / 1000, _WINDOW_SIZE)


def data_page(folder: Path, *, rows: int = DATA_ROWS) -> Iterator[Line]:
    """The set `data_page`: seconds and memory to open the page Data of a table of ten million rows,
    with SQLite. Raises JobFailed for an answer that is an error.
    """
    with _sqlite_server(folder) as (stack, environment):
        (folder / "lake").mkdir(parents=True)
        environment["SLUICE_TABLE_ROOTS"] = str(folder / "lake")
        _prepare(folder, environment)
        node = stack.enter_context(engine("data_page", folder, environment=environment))
        size = node.do("fill", location=str(folder / "lake" / "large"), rows=rows).answer
        for name, path in DATA_PAGES.items():
            opened = [node.do("open", path=path) for _ in range(_OPENED)]
            what = f"page data of {rows:,} rows, {name}"
            seconds = statistics.median(visit.seconds for visit in opened)
            details = {
                "processor_s": round(statistics.median(visit.cpu_s for visit in opened), 2),
                "max_s": round(max(visit.seconds for visit in opened), 2),
                "rows": opened[-1].answer["rows"],
                "table_mb": size // 1_000_000,
            }
            yield Line(f"{what}: opens", _LIMIT, seconds, None, seconds, _OPENS, details)
            peak_mb = max(visit.answer["peak_bytes"] for visit in opened) / 1_000_000
            yield Line(f"{what}: memory", _LIMIT, None, None, peak_mb, _READER_MEMORY)


@contextmanager
def _sqlite_server(folder: Path) -> Iterator[tuple[ExitStack, dict[str, str]]]:
    """Yield the environment of a node with SQLite in an empty folder, which goes afterwards, and a
    stack that ends before its Redis does.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with redis_server("of-the-bench") as redis, ExitStack() as stack:
        file = str(folder / "home" / "db.sqlite3")
        yield stack, _environment(folder, file, redis.address, find_free_port())
    shutil.rmtree(folder, ignore_errors=True)


def _prepare(folder: Path, environment: dict[str, str]) -> None:
    """Create the database and the pages' files."""
    (folder / "home").mkdir(parents=True, exist_ok=True)
    migrate = (sys.executable, "manage.py", "migrate", "--verbosity", "0")
    subprocess.run(migrate, cwd=ROOT, env=environment, check=True)
    statics = (sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0")
    subprocess.run(statics, cwd=ROOT, env=environment, check=True)


def _fill(
    folder: Path, environment: dict[str, str], stack: ExitStack, *, tables: int = TABLES
) -> tuple[Engine, str, Mapping[str, str]]:
    """The driver of a full database, the slug of its busiest table, and a viewer's headers."""
    _prepare(folder, environment)
    mirror = stack.enter_context(engine("large_mirror", folder, environment=environment))
    slug = mirror.do("fill", tables=tables, instants=INSTANTS).answer["busiest"]
    return mirror, slug, mirror.do("credentials").answer


def _of_server(
    mirror: Engine, database: str, slug: str, headers: Mapping[str, str]
) -> Iterator[Line]:
    paths = {name: path.format(slug=slug) for name, path in PAGES.items()}
    measured = mirror.do(
        "pages", paths=[*paths.values()], cookie=headers["Cookie"], repeats=_ONE_BY_ONE
    ).answer
    for name, path in paths.items():
        spent = measured[path]
        what = f"page {name}, {database}"
        p95_ms = spent["cpu_p95_ms"]
        yield Line(f"{what}: processor, p95", _LIMIT, p95_ms / 1000, None, p95_ms, _PAGE, spent)
        yield Line(f"{what}: queries", _LIMIT, None, None, spent["queries"], _QUERIES)


async def _measured(
    base: str, slug: str, headers: Mapping[str, str], web: psutil.Process
) -> list[Line]:
    connector = aiohttp.TCPConnector(limit=_CLIENTS)
    token = {"Authorization": headers["Authorization"]}
    lines: list[Line] = []
    async with aiohttp.ClientSession(base, connector=connector) as client:
        await _until_it_answers(client)
        for name, path in LISTS.items():
            lines.append(await _at_one_client(client, f"list {name}", path, slug, token, _LIST))
        for name, path in PAGES.items():
            cookie = {"Cookie": headers["Cookie"], "Accept-Encoding": "gzip"}
            line = await _at_one_client(client, f"page {name}", path, slug, cookie, _PAGE)
            size_kb = line.details["bytes"] / 1000
            size = Line(f"page {name}: size", _LIMIT, None, None, size_kb, _PAGE_SIZE)
            lines += [line, size]
        path = LISTS["instants"].format(slug=slug)
        lines.append(await _at_many(client, web, path, token, "", _RATE))
        async with client.get(path, headers=token) as answer:
            known = {**token, "If-None-Match": answer.headers["ETag"]}
        lines.append(await _at_many(client, web, path, known, ", ETag known", _HITS))
    return lines


async def _at_one_client(
    client: aiohttp.ClientSession,
    name: str,
    path: str,
    slug: str,
    headers: Mapping[str, str],
    goal: Goal,
) -> Line:
    took_s: list[float] = []
    size = 0
    for number in range(_WARM_UP + _ONE_BY_ONE):
        began_s = time.perf_counter()
        size = await _ask(client, path.format(slug=slug), headers)
        if number >= _WARM_UP:
            took_s.append(time.perf_counter() - began_s)
    took_s.sort()
    p95_s = took_s[int(len(took_s) * 0.95)]
    details = {"median_ms": round(took_s[len(took_s) // 2] * 1000, 1), "bytes": size}
    return Line(f"{name}: p95", _LIMIT, p95_s, None, p95_s * 1000, goal, details)


async def _at_many(
    client: aiohttp.ClientSession,
    web: psutil.Process,
    path: str,
    headers: Mapping[str, str],
    how: str,
    goal: Goal,
) -> Line:
    ends_s = time.perf_counter() + _LOAD_S
    used_s = _cpu_s(web)

    async def ask_on() -> int:
        answered = 0
        while time.perf_counter() < ends_s:
            await _ask(client, path, headers)
            answered += 1
        return answered

    answered = sum(await asyncio.gather(*(ask_on() for _ in range(_CLIENTS))))
    details = {"web_cores": round((_cpu_s(web) - used_s) / _LOAD_S, 2), "answered": answered}
    rate = answered / _LOAD_S
    return Line(f"list instants, {_CLIENTS} clients{how}", _LIMIT, None, None, rate, goal, details)


async def _ask(client: aiohttp.ClientSession, path: str, headers: Mapping[str, str]) -> int:
    """The size of the answer as it came, in bytes. Raises JobFailed."""
    async with client.get(path, headers=headers, allow_redirects=False) as answer:
        body = await answer.read()
        if answer.status not in (200, 304):
            raise JobFailed(f"{path}: {answer.status} {body[:200]!r}")
        return int(answer.headers.get("Content-Length", len(body)))


async def _until_it_answers(client: aiohttp.ClientSession) -> None:
    ends_s = time.perf_counter() + _START_S
    while True:
        try:
            async with client.get("/login/"):
                return
        except aiohttp.ClientConnectionError:
            if time.perf_counter() > ends_s:
                raise
            await asyncio.sleep(0.1)


def _environment(folder: Path, database: str, redis: str, port: int) -> dict[str, str]:
    return {
        **driver_environment(),
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.prod",
        "SLUICE_HOME": str(folder / "home"),
        "SLUICE_DATABASE": database,
        "SLUICE_REDIS_URL": redis,
        "SLUICE_WEB_PORT": str(port),
        "SLUICE_TABLE_ROOTS": "/lake",
        "SLUICE_SECRET_KEY": "of-the-bench",
        "SLUICE_WORKER_TOKEN": "of-the-bench",
    }


@contextmanager
def _web(folder: Path, environment: Mapping[str, str], port: int) -> Iterator[psutil.Process]:
    """The command of `controlplane.node.processes.web_command`, for this port, with the memory that
    a node gives it.
    """
    command: list[Any] = [
        *(sys.executable, "-m", "uvicorn", "controlplane.asgi:application"),
        *("--host", "127.0.0.1", "--port", str(port), "--lifespan", "off"),
        *("--no-server-header", "--no-access-log"),
    ]
    with (folder / "web.log").open("wb") as log:
        started = subprocess.Popen(command, cwd=ROOT, env=dict(environment), stdout=log, stderr=log)
    process = psutil.Process(started.pid)
    process.rlimit(psutil.RLIMIT_DATA, (memory_bytes_max(environment), psutil.RLIM_INFINITY))
    try:
        yield process
    finally:
        started.terminate()
        try:
            started.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def _cpu_s(process: psutil.Process) -> float:
    used = [each.cpu_times() for each in [process, *process.children(recursive=True)]]
    return sum(each.user + each.system for each in used)
