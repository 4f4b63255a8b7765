"""Drivers of streaming queries that are killed around the commit of an epoch, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.classic_environment import classic_environment
from tests.support.storages import use_bucket
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.table.schema_history import read_instant
from workers.write.epochs import EPOCHS_KEY

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

PROJECT = Path(__file__).resolve().parents[3]
DIRECT = {"hoodie.write.markers.type": "direct"}
_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "n": pa.int64()}
SCHEMA = pa.schema(_TYPES)


@pytest.fixture(params=["directory", "bucket"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a test has its tables."""
    return str(tmp_path) if request.param == "directory" else use_bucket(monkeypatch)


def made(where: str) -> LakehouseTable:
    options = {"hoodie.bucket.index.num.buckets": "1"}
    return create_table(where, name="t", schema=SCHEMA, record_key=["id"], options=options)


def write(table: LakehouseTable, *numbers: int) -> None:
    rows = pa.table({"id": [f"k{n}" for n in numbers], "n": list(numbers)}, schema=SCHEMA)
    table.write(rows, options=DIRECT)


@contextmanager
def driver(
    source: LakehouseTable, sink: LakehouseTable, checkpoint: Path, **more: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A driver with a JVM of its own, both of which are killed in the end."""
    arguments = [source.location, sink.location, str(checkpoint), "copy"]
    with checkpoint.with_name("log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.stream_queries", *arguments],
            cwd=PROJECT,
            env=classic_environment() | more,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)


def run(source: LakehouseTable, sink: LakehouseTable, checkpoint: Path) -> int:
    """As a supervisor starts the program again; how many epochs the sink holds then."""
    with driver(source, sink, checkpoint) as process:
        assert process.wait(timeout=400) == 0, end_of_log(checkpoint)
    return len(epochs(sink))


def kill_at(point: str, source: LakehouseTable, sink: LakehouseTable, checkpoint: Path) -> Path:
    """Kill a driver, JVM and all, whose commit has come so far. The Python process that commits may
    outlive it: it goes on as soon as the file that this gives is there.
    """
    release = checkpoint.with_name("release")
    order = {"point": point, "writer": "copy", "action": "pause", "release": str(release)}
    stopping = {"SLUICE_ALLOW_STOP_POINTS": "1", "SLUICE_STOP_POINTS": json.dumps([order])}
    with driver(source, sink, checkpoint, **stopping) as process:
        until_s = time.monotonic() + 400
        while not release.with_name("release.reached").exists():
            assert process.poll() is None, end_of_log(checkpoint)
            assert time.monotonic() < until_s, point
            time.sleep(0.1)
    return release


def end_of_log(checkpoint: Path) -> str:
    return checkpoint.with_name("log").read_text()[-3000:]


def epochs(sink: LakehouseTable) -> list[str]:
    """Of commits of the active timeline."""
    table = open_table(sink.location).table
    contents = [
        read_instant(table, one).extra_metadata for one in table.timeline().list_completed_writes()
    ]
    return [one[EPOCHS_KEY] for one in contents if EPOCHS_KEY in one]


def numbers(sink: LakehouseTable) -> list[int]:
    return sorted(open_table(sink.location).read().column("n").to_pylist())


def test_epoch_whose_commit_outlived_the_driver_is_not_written_again(
    tmp_path: Path, root: str
) -> None:
    """Killed between the commit and the checkpoint, and archived before the restart."""
    source, sink, checkpoint = made(f"{root}/source"), made(f"{root}/sink"), tmp_path / "c"
    write(source, 1, 2)

    kill_at("after_publish", source, sink, checkpoint).touch()

    assert numbers(sink) == [1, 2]
    assert (checkpoint / "offsets" / "0").exists()
    assert not (checkpoint / "commits" / "0").exists()
    write(source, 3)
    for number in range(10, 17):
        write(sink, number)
    sink.archive({"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"})
    assert epochs(sink) == []  # It is archived.
    assert run(source, sink, checkpoint) == 0
    assert run(source, sink, checkpoint) == 1
    assert epochs(sink) == ['{"copy": "1"}']
    assert numbers(sink) == [1, 2, 3, *range(10, 17)]


def test_epoch_is_written_once_when_the_killed_drivers_commit_goes_on_after_the_restart(
    tmp_path: Path, root: str
) -> None:
    source, sink, checkpoint = made(f"{root}/source"), made(f"{root}/sink"), tmp_path / "c"
    write(source, 1, 2)

    release = kill_at("after_data", source, sink, checkpoint)

    assert numbers(sink) == []
    assert run(source, sink, checkpoint) == 1
    release.touch()
    until_s = time.monotonic() + 60  # Or the process died with its driver.
    while any(sink.table.timeline().pending()) and time.monotonic() < until_s:
        time.sleep(0.1)
    write(source, 3)
    assert run(source, sink, checkpoint) == 2
    assert epochs(sink) == ['{"copy": "0"}', '{"copy": "1"}']
    assert numbers(sink) == [1, 2, 3]
