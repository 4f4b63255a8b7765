"""One driver per operation, also when whoever launches it dies at any moment."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from workers.clock import SystemClock
from workers.jobs import WriteJob
from workers.spark.process import DRIVER_FILE, JOB_FILE, kill_driver, launch, read_pid


@pytest.fixture
def job(tmp_path: Path) -> Iterator[WriteJob]:
    run_dir = tmp_path / "run"
    yield WriteJob(
        operation_id=str(uuid.uuid4()),
        table=str(tmp_path / "table"),
        source={"kind": "csv", "path": "/nowhere.csv"},
        session_id=str(uuid.uuid4()),
        run_dir=str(run_dir),
    )
    for pid in drivers(run_dir):
        kill_driver(run_dir, pid, SystemClock())


def drivers_seen(run_dir: Path) -> list[int]:
    """Once there is any: a process that was started a moment ago has no command line yet."""
    deadline = time.monotonic() + 60
    while not (pids := drivers(run_dir)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return pids


def drivers(run_dir: Path) -> list[int]:
    """Whose command line carries the job."""
    word = str(run_dir / JOB_FILE)
    return [
        one.pid for one in psutil.process_iter(["cmdline"]) if word in (one.info["cmdline"] or ())
    ]


def started_by_one_who_dies(job: WriteJob) -> int:
    """Right behind the start of the driver: its pid cannot be noted, so the launch ends there."""
    run_dir = Path(job.run_dir)
    run_dir.mkdir()
    (run_dir / DRIVER_FILE).symlink_to(run_dir / "nowhere" / "driver.json")
    with pytest.raises(FileNotFoundError):
        launch(job, os.environ)
    (run_dir / DRIVER_FILE).unlink()
    [pid] = drivers_seen(run_dir)
    return pid


def wait_until_noted(run_dir: Path) -> int:
    deadline = time.monotonic() + 60
    while (pid := read_pid(run_dir)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return pid


@pytest.mark.slow
def test_launcher_that_dies_before_it_notes_the_pid_leaves_one_driver(job: WriteJob) -> None:
    run_dir = Path(job.run_dir)
    first = started_by_one_who_dies(job)

    again = launch(job, os.environ)

    assert again is None
    assert drivers_seen(run_dir) == [first]
    assert wait_until_noted(run_dir) == first


def test_driver_that_died_before_its_pid_was_noted_is_launched_again(job: WriteJob) -> None:
    run_dir = Path(job.run_dir)
    first = started_by_one_who_dies(job)
    kill_driver(run_dir, first, SystemClock())

    again = launch(job, os.environ)

    assert again is not None
    assert drivers_seen(run_dir) == [again]
