"""The timeline's directory is listed again only when it may have changed, and what is new is never
missed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workers.storage import timeline_files
from workers.storage.base import FileInfo
from workers.storage.local import LocalStorage
from workers.storage.timeline_files import DirectoryMark, are_stamps_exact, entry_info
from workers.table_layout import TIMELINE

DONE = "20260101000000000_20260101000000400.commit"
LATER = "20260101000001000_20260101000001400.commit"
LATER_S = 5
"""More than a mark takes to settle, less than an empty completed file does."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / TIMELINE.path
    made.mkdir(parents=True)
    (made / DONE).write_text("done")
    if not are_stamps_exact(made.stat().st_dev):
        pytest.skip(f"{made} is on a file system whose directories are not relied on")
    return made


@pytest.fixture
def storage(directory: Path, tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that were listed."""
    made: list[str] = []
    scan: Callable[[Any], Any] = os.scandir

    def noted(path: Any) -> Any:
        made.append(str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", noted)
    return made


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is later than it is, so that nothing that there is counts as just made."""
    now_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + LATER_S * 1_000_000_000)


def test_a_directory_that_nobody_changed_is_listed_once(
    storage: LocalStorage, scans: list[str], settled: None
) -> None:
    first = storage.list_files(TIMELINE.path)

    assert storage.list_files(TIMELINE.path) == first
    assert len(scans) == 1


def test_a_directory_that_was_just_changed_is_listed_again(
    storage: LocalStorage, scans: list[str]
) -> None:
    """Another file may come with the same stamp."""
    storage.list_files(TIMELINE.path)

    storage.list_files(TIMELINE.path)

    assert len(scans) == 2


@pytest.mark.parametrize("change", ["made", "removed", "renamed", "replaced"])
def test_a_change_after_the_mark_is_seen(
    storage: LocalStorage, directory: Path, settled: None, change: str
) -> None:
    storage.list_files(TIMELINE.path)
    await_another_stamp(directory)

    match change:
        case "made":
            (directory / LATER).write_text("later")
        case "removed":
            (directory / DONE).unlink()
        case "renamed":
            (directory / DONE).rename(directory / LATER)
        case _:
            other = directory.parent / "other"
            other.write_text("other content")
            other.rename(directory / DONE)

    sizes = {file.name: file.size for file in storage.list_files(TIMELINE.path)}
    assert (
        sizes
        == {
            "made": {DONE: 4, LATER: 5},
            "removed": {},
            "renamed": {LATER: 4},
            "replaced": {DONE: 13},
        }[change]
    )


def test_a_completed_file_that_is_still_empty_is_looked_at_again(
    storage: LocalStorage, directory: Path, settled: None
) -> None:
    """Filling it changes nothing in the directory."""
    (directory / LATER).touch()
    storage.list_files(TIMELINE.path)

    (directory / LATER).write_text("filled")

    assert [file.size for file in storage.list_files(TIMELINE.path)] == [4, 6]


def test_of_many_files_only_the_new_ones_are_looked_at(
    storage: LocalStorage, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.list_files(TIMELINE.path)
    (directory / LATER).write_text("later")
    (directory / DONE.replace("0101", "0202", 1)).write_text("between")
    looks: list[str] = []

    def noted(where: str, entry: os.DirEntry[str]) -> FileInfo | None:
        looks.append(entry.name)
        return entry_info(where, entry)

    monkeypatch.setattr(timeline_files, "entry_info", noted)

    names = [file.name for file in storage.list_files(TIMELINE.path)]

    assert names == sorted(one.name for one in directory.iterdir())
    assert sorted(looks) == sorted(set(names) - {DONE})


def test_what_a_caller_was_given_stays_as_it_was(storage: LocalStorage, directory: Path) -> None:
    before = storage.list_files(TIMELINE.path)
    (directory / LATER).write_text("later")

    storage.list_files(TIMELINE.path)

    assert [file.name for file in before] == [DONE]


def test_stamps_of_file_systems_that_others_write_tell_nothing() -> None:
    assert not are_stamps_exact(Path("/proc").stat().st_dev)
    assert not are_stamps_exact(os.makedev(4095, 1))


def await_another_stamp(directory: Path) -> None:
    """Until what is changed now has another stamp than the directory: a tick of the kernel."""
    mark, probe = DirectoryMark.of(directory), directory.parent / "probe"
    probe.mkdir()
    while DirectoryMark.of(probe).changed_ns <= mark.changed_ns:
        (probe / "file").touch()
        (probe / "file").unlink()
