"""Conditional writes among threads and processes: exactly one winner, nobody sees half a file."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from bench.support.s3_server import shared_server
from tests.support.storages import SHARED, STORAGES, bucket_storage
from workers.storage.base import Storage

PROJECT = Path(__file__).resolve().parents[3]
Answer = TypeVar("Answer")
RIVAL = """
import os, sys
from workers.storage.opener import open_storage
storage = open_storage(sys.argv[1])
storage.put(f"ready/{sys.argv[2]}", b"")
while storage.info("go") is None:
    pass
won = [n for n in range(int(sys.argv[3])) if storage.put_if_absent(f"d/{n}", sys.argv[2].encode())]
print(*won)
"""


@pytest.fixture(params=SHARED)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return STORAGES[request.param](tmp_path)


def test_of_many_threads_one_creates(storage: Storage) -> None:
    for path in (f"d/{number}" for number in range(30)):
        won = together([partial(storage.put_if_absent, path, bytes([n])) for n in range(8)])

        assert won.count(True) == 1
        assert storage.read(path) == bytes([won.index(True)])


def test_of_many_threads_one_creates_the_same_content(storage: Storage) -> None:
    """Nothing in the content tells whose it is."""
    for path in (f"d/{number}" for number in range(15)):
        won = together([partial(storage.put_if_absent, path, b"same")] * 8)

        assert won.count(True) == 1


def test_of_many_threads_one_makes_the_empty_files(storage: Storage) -> None:
    for turn in range(15):
        paths = [f"{turn}/x", f"{turn}/y"]

        made = together([partial(storage.put_empty, paths, is_exclusive=True)] * 8)

        assert made.count(True) == 1


def test_of_many_threads_one_replaces(storage: Storage) -> None:
    storage.put("x", b"start")
    for turn in range(30):
        replace = partial(storage.replace_if_match, "x", tag=storage.read_tagged("x").tag)

        tags = together([partial(replace, content=bytes([turn, n])) for n in range(8)])

        assert sum(tag is not None for tag in tags) == 1


def test_no_appended_line_is_lost(storage: Storage) -> None:
    lines = [f"{number}\n".encode() for number in range(6)]

    together([partial(storage.append, "x", line) for line in lines])

    assert sorted(storage.read("x").splitlines(keepends=True)) == lines


def test_reader_of_a_replaced_file_sees_one_version_whole(storage: Storage) -> None:
    versions = [bytes([letter]) * 50_000 for letter in b"ab"]
    storage.put("x", versions[0])
    stop = threading.Event()

    def replace() -> None:
        for number in range(200):
            storage.put("x", versions[number % 2])
        stop.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(replace)
        while not stop.is_set():
            assert storage.read("x") in versions
        writing.result()


def test_what_was_put_is_listed_at_once_by_everybody(storage: Storage) -> None:
    def put_and_look(number: int) -> bool:
        storage.put(f"d/{number}", b"x")
        return str(number) in storage.list_names("d")

    assert all(together([partial(put_and_look, number) for number in range(12)]))
    assert len(storage.list_names("d")) == 12


def test_of_many_processes_one_creates() -> None:
    storage, races = bucket_storage(), 40
    rivals = [
        subprocess.Popen(
            [sys.executable, "-c", RIVAL, storage.location, str(name), str(races)],
            cwd=PROJECT,
            env={**shared_server().environment, "PYTHONPATH": str(PROJECT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in range(3)
    ]
    while len(storage.list_names("ready")) < len(rivals):
        assert all(rival.poll() is None for rival in rivals)
    storage.put("go", b"")
    won = [rival.communicate(timeout=120)[0].split() for rival in rivals]

    assert all(rival.returncode == 0 for rival in rivals)
    assert sorted(int(number) for listed in won for number in listed) == list(range(races))
    for name, listed in enumerate(won):
        assert all(storage.read(f"d/{number}") == str(name).encode() for number in listed)


def together(actions: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """All at once, one thread each; the answers in order."""
    barrier = threading.Barrier(len(actions))

    def at_once(action: Callable[[], Answer]) -> Answer:
        barrier.wait()
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(at_once, actions))
