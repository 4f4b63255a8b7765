"""Markers of a table in a bucket: direct ones, and a server that takes an object per flush."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from bench.support.marker_server import start_marker_server, start_marker_server_at
from bench.support.s3_server import BUCKET, S3Server, shared_server
from tests.workers.markers.harness import INSTANT, SECRET
from workers.errors import InstantRolledBack, MarkerRefused
from workers.markers import IOType, Marker, MarkerSettings, mint_token, open_markers, read_markers
from workers.markers.appender import OBJECTS_MAX, FlushObjects, encode_lines
from workers.markers.marker import markers_directory
from workers.markers.process import server_url, stop
from workers.markers.store import delete_markers, markers_file, read_names
from workers.storage.base import Storage
from workers.storage.opener import open_storage
from workers.table_layout import PROPERTIES

DIRECTORY = markers_directory(INSTANT)


@pytest.fixture(scope="module")
def s3() -> S3Server:
    """Started before the first test, because it runs on after it."""
    return shared_server()


@pytest.fixture
def storage(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Storage:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    storage = open_storage(f"s3://{BUCKET}/markers/{uuid.uuid4().hex}")
    storage.put(PROPERTIES.path, b"hoodie.table.name=t\n")
    return storage


class Server:
    def __init__(self, storage: Storage, log: Path) -> None:
        self.storage, self.log, self.port, self.pid = storage, log, 0, 0

    def start(self) -> None:
        """Start it on a free port; on the same port if it ran before, because clients know that."""
        start = partial(start_marker_server_at, self.port) if self.port else start_marker_server
        running = start(roots=[f"s3://{BUCKET}/markers"], secret=SECRET, log=self.log)
        self.port, self.pid = running.port, running.pid

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def create(self, *markers: Marker) -> None:
        token = mint_token(SECRET, self.storage.location, INSTANT)
        settings = MarkerSettings("timeline_server_based", url=server_url(self.port), token=token)
        open_markers(settings, self.storage, INSTANT).create_all(markers)


@pytest.fixture
def server(storage: Storage, tmp_path: Path) -> Iterator[Server]:
    server = Server(storage, tmp_path / "server.log")
    server.start()
    yield server
    stop(server.pid, port=server.port)


def marker(number: int) -> Marker:
    return Marker("p", f"{number:08d}-0000-0_0-0-0_{INSTANT}.parquet", IOType.CREATE)


def objects(storage: Storage) -> list[str]:
    """Those that hold markers."""
    names = storage.list_names(DIRECTORY)
    return [name for name in names if name.startswith("MARKERS") and name != "MARKERS.type"]


def test_direct_markers_are_empty_objects(storage: Storage) -> None:
    markers = [marker(number) for number in range(5)]

    open_markers(MarkerSettings("direct"), storage, INSTANT).create_all(markers)

    assert list(read_markers(storage, INSTANT)) == markers
    delete_markers(storage, INSTANT)
    assert storage.list_tree(DIRECTORY) == []


def test_each_flush_of_the_server_is_an_object_of_its_own(server: Server) -> None:
    for number in range(3):
        server.create(marker(number), marker(number + 10))

    assert len(objects(server.storage)) == 3
    markers = read_markers(server.storage, INSTANT)
    assert sorted(markers) == sorted(marker(at) for at in (0, 1, 2, 10, 11, 12))


def test_a_server_that_comes_back_after_a_kill_goes_on(server: Server) -> None:
    server.create(marker(0))
    server.kill()
    server.start()

    server.create(marker(0), marker(1))

    assert list(read_markers(server.storage, INSTANT)) == [marker(0), marker(1)]
    assert len(objects(server.storage)) == 2


def test_a_decided_instant_takes_no_marker(server: Server) -> None:
    server.create(marker(0))
    server.storage.put(f".hoodie/.sluice/decision/{INSTANT}", b"{}")

    with pytest.raises(InstantRolledBack):
        server.create(marker(1))

    assert list(read_markers(server.storage, INSTANT)) == [marker(0)]


def test_a_table_elsewhere_in_the_bucket_is_refused(server: Server, storage: Storage) -> None:
    server.storage = open_storage(f"s3://{BUCKET}/markers-of-others/t")
    server.storage.put(PROPERTIES.path, b"hoodie.table.name=t\n")

    with pytest.raises(MarkerRefused, match="outside"):
        server.create(marker(0))


@pytest.mark.slow
def test_many_flushes_are_folded_while_others_are_added(storage: Storage) -> None:
    flushes = FlushObjects(storage, INSTANT)
    flushes.load()
    names = [marker(number).name for number in range(OBJECTS_MAX + 60)]

    def put(name: str) -> int:
        return flushes.put(lambda number: markers_file(INSTANT, number), encode_lines([name]))

    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(put, names))

    assert len(set(numbers)) == len(names)
    assert read_names(storage, INSTANT).all() == tuple(sorted(names))
    assert len(objects(storage)) < 100


def test_two_servers_of_one_directory_take_different_numbers(storage: Storage) -> None:
    first, second = FlushObjects(storage, INSTANT), FlushObjects(storage, INSTANT)
    for flushes in (first, second):
        flushes.load()

    for flushes, name in ((first, "a"), (second, "b"), (first, "c")):
        flushes.put(lambda number: markers_file(INSTANT, number), encode_lines([f"p/{name}"]))

    assert [storage.read(markers_file(INSTANT, at)) for at in range(3)] == [
        b"p/a\n",
        b"p/b\n",
        b"p/c\n",
    ]
