"""A process that is stopped or killed in the middle of a conditional write stops nobody else, and
whatever it does when it wakes, every replacement that was answered with success is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest

from tests.support.counting_process import count_once
from tests.support.stopped_calls import StoppedProcess
from workers.storage.local import LocalStorage
from workers.storage.lock_file import LockFile

pytestmark = pytest.mark.process

WITHIN_S = 60.0
CALLS_MAX = 60
PATH = ".hoodie/.locks/counter"
SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    storage = LocalStorage(tmp_path / "table")
    storage.put(PATH, b"0")
    return storage


@contextmanager
def a_rival(storage: LocalStorage) -> Iterator[StoppedProcess]:
    rival = StoppedProcess("tests.support.counting_process", storage.location, PATH)
    try:
        yield rival
    finally:
        rival.end()


def counted(storage: LocalStorage, times: int) -> None:
    """Count so often, in bounded time: a thread that hangs must not take the test along."""

    def count() -> None:
        won = 0
        while won < times:
            won += count_once(storage, PATH)

    counting = Thread(target=count, daemon=True)
    counting.start()
    counting.join(WITHIN_S)
    assert not counting.is_alive(), "stopped by a process that is stopped"


def count_of(storage: LocalStorage) -> int:
    return int(storage.read_tagged(PATH).content)


@pytest.mark.parametrize("meanwhile", [0, 1, 3])
def test_process_that_is_stopped_at_any_call_stops_nobody_and_loses_nothing(
    storage: LocalStorage, meanwhile: int
) -> None:
    expected = 0
    with a_rival(storage) as rival:
        for call in range(1, CALLS_MAX):
            rival.begin(stopped_before=call)
            if not rival.await_stopped():
                assert call > 6
                break
            counted(storage, meanwhile)
            rival.thaw()
            expected += meanwhile + rival.answer()
            assert count_of(storage) == expected, f"woken before call {call}"
        else:
            pytest.fail(f"more than {CALLS_MAX} calls for one replacement")


@pytest.mark.slow
def test_process_that_is_killed_at_any_call_stops_nobody(storage: LocalStorage) -> None:
    for call in range(1, CALLS_MAX):
        with a_rival(storage) as rival:
            rival.begin(stopped_before=call)
            if not rival.await_stopped():
                break
        before = count_of(storage)
        counted(storage, 2)
        assert count_of(storage) == before + 2
        assert [file.path for file in storage.list_tree("")] == [PATH]


def test_put_is_not_undone_by_one_who_sleeps_in_a_replacement(storage: LocalStorage) -> None:
    counted(storage, 1)
    with a_rival(storage) as rival:
        for call in range(1, CALLS_MAX):
            rival.begin(stopped_before=call)
            if not rival.await_stopped():
                break
            storage.put(PATH, b"1000")
            rival.thaw()
            has_won = rival.answer()
            assert count_of(storage) == 1000 or (has_won and count_of(storage) == 1001)
            storage.put(PATH, b"1")


def test_put_beside_the_first_replacement_of_a_file_is_kept(storage: LocalStorage) -> None:
    """The put finds no replacement under way, and one is decided before the put renames."""
    with a_rival(storage) as rival, ExitStack() as stack:
        writer = StoppedProcess("tests.support.putting_process", storage.location, PATH, "1000")
        stack.callback(writer.end)
        for call in range(1, CALLS_MAX):
            storage.delete(PATH)
            storage.put(PATH, b"0")
            writer.begin(stopped_before=2)  # Before its rename.
            assert writer.await_stopped()
            rival.begin(stopped_before=call)
            is_stopped = rival.await_stopped()
            writer.thaw()
            writer.answer()
            rival.thaw()
            rival.answer()
            assert count_of(storage) in (1000, 1001), f"woken before call {call}"
            if not is_stopped:
                assert call > 6
                break


@pytest.mark.parametrize("directory", ["disk", "shared memory"])
def test_of_many_processes_each_counts(tmp_path: Path, directory: str) -> None:
    if directory == "shared memory" and not SHARED_MEMORY.is_dir():
        pytest.skip("this system has no /dev/shm")
    won = 0
    with ExitStack() as stack:
        if directory == "shared memory":
            tmp_path = Path(stack.enter_context(TemporaryDirectory(dir=SHARED_MEMORY)))
        storage = LocalStorage(tmp_path)
        storage.put(PATH, b"0")
        rivals = [stack.enter_context(a_rival(storage)) for _ in range(3)]
        for _ in range(60):
            for rival in rivals:
                rival.begin()
            won += count_once(storage, PATH) + sum(rival.answer() for rival in rivals)
        assert count_of(storage) == won >= 60
        # The file, the directory of its versions, and the newest of them.
        assert sum(1 for _ in (tmp_path / PATH).parent.rglob("*")) == 3


def test_table_of_a_former_version_is_taken_over(storage: LocalStorage) -> None:
    """It left the file that it locked; somebody who holds it still is not waited for."""
    former = Path(storage.location, PATH).with_name(".sluice-cas-counter")
    former.touch()

    counted(storage, 1)

    assert not former.exists()


def test_deleted_file_leaves_nothing_and_begins_anew(storage: LocalStorage) -> None:
    counted(storage, 3)

    storage.delete(PATH)

    directory = Path(storage.location, PATH).parent
    assert list(directory.iterdir()) == []
    counted(storage, 2)
    assert count_of(storage) == 2


def test_lock_file_that_came_after_the_look_is_not_taken_away(tmp_path: Path) -> None:
    """Who looked at a file and slept, and wakes when another one is there."""
    lock = LockFile(tmp_path / "lock")
    lock.create(b"of the dead")
    seen = lock.read()
    assert seen is not None
    assert lock.remove(seen)
    lock.create(b"of the living")

    assert not lock.remove(seen)

    lock_file = lock.read()
    assert lock_file is not None
    assert lock_file.content == b"of the living"
    assert [file.name for file in tmp_path.iterdir()] == ["lock"]
