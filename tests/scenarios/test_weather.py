"""Real input: hourly weather of three airports, loaded by the command that a user types.

Tables written at once and by three streams, each with its own columns and the observation's hour as
the common ordering value, hold the same rows, by Arrow (`make test`) and by Connect clients (`make
longer`); hudi-rs agrees.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.referee import assert_referee_agrees
from tests.support.spark_server import shared_server
from workers import open_table
from workers.lakehouse import LakehouseTable
from workers.timeline.instant import State

PROJECT = Path(__file__).resolve().parents[2]
WEATHER = PROJECT.parent / "shared" / "data" / "weather.csv"
OBSERVATIONS = 26_115
STREAMS = "temperature=temp,dewp,humid;wind=wind_dir,wind_speed,wind_gust;rest=*"

pytestmark = [
    pytest.mark.process,
    pytest.mark.spark,
    pytest.mark.skipif(not WEATHER.is_file(), reason="../shared/data/weather.csv is not here"),
]


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("weather")


@pytest.fixture(scope="module")
def plain(roots: Path) -> LakehouseTable:
    return write(roots, "plain", "--no-spark")


@pytest.fixture(scope="module")
def at_once(roots: Path) -> LakehouseTable:
    return write(roots, "weather", remote=shared_server().remote)


@pytest.fixture(scope="module")
def streamed(roots: Path) -> LakehouseTable:
    return write(roots, "streamed", "--streams", STREAMS, remote=shared_server().remote)


def write(roots: Path, name: str, *options: str, remote: str = "") -> LakehouseTable:
    """`manage.py write` as a process of its own."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.prod",
        "SLUICE_HOME": str(roots / "home"),
        "SLUICE_SECRET_KEY": "a key for tests only",
        "SLUICE_SPARK_REMOTE": remote,
        "SLUICE_MARKER_URL": "",
        "SLUICE_TABLE_ROOTS": str(roots),
    }
    command = [sys.executable, "manage.py", "write", str(WEATHER), "--name", name]
    keys = ["--key-from", "origin,time_hour", "--partition-by", "origin", "--ordering", "time_hour"]
    ended = subprocess.run(
        [*command, *keys, *options],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{OBSERVATIONS} rows" in ended.stdout
    return open_table(roots / name)


def by_id(table: LakehouseTable) -> pa.Table:
    rows: pa.Table = table.read()
    return rows.sort_by("id").select(sorted(rows.column_names))


@pytest.mark.slow
def test_every_observation_is_in_the_table_as_it_stands_in_the_file(plain: LakehouseTable) -> None:
    rows = {row["id"]: row for row in plain.read().to_pylist()}
    with WEATHER.open(newline="") as file:
        lines = list(csv.DictReader(file))

    assert len(lines) == len(rows) == OBSERVATIONS
    for line in lines:
        row = rows[f"{line['origin']}|{line['time_hour']}"]
        for name in ("temp", "wind_gust", "pressure", "wind_dir"):
            wanted = None if line[name] == "NA" else float(line[name])
            assert row[name] == wanted, (line, row)
        assert row["time_hour"].strftime("%Y-%m-%dT%H:%M:%SZ") == line["time_hour"]


@pytest.mark.slow
def test_three_streams_give_the_same_rows_as_one_write(roots: Path, plain: LakehouseTable) -> None:
    streamed = write(roots, "plain_streams", "--no-spark", "--streams", STREAMS)

    assert by_id(streamed).equals(by_id(plain))
    assert_referee_agrees(plain.location)
    assert_referee_agrees(streamed.location)


@pytest.mark.slow
def test_spark_gives_the_same_rows_as_arrow(plain: LakehouseTable, at_once: LakehouseTable) -> None:
    assert by_id(at_once).equals(by_id(plain))


@pytest.mark.slow
def test_three_clients_at_once_give_the_same_rows_as_one(
    at_once: LakehouseTable, streamed: LakehouseTable
) -> None:
    assert by_id(streamed).equals(by_id(at_once))


@pytest.mark.slow
def test_three_clients_overlapped_and_none_waited_for_another(streamed: LakehouseTable) -> None:
    writes = streamed.table.timeline().list_completed_writes()[-3:]

    assert all(one.state is State.COMPLETED for one in writes)
    last_start = max(one.requested_at for one in writes)
    first_end = min(str(one.completed_at) for one in writes)
    assert last_start < first_end


@pytest.mark.slow
def test_hudi_rs_reads_the_same_rows(at_once: LakehouseTable, streamed: LakehouseTable) -> None:
    assert_referee_agrees(at_once.location)
    assert_referee_agrees(streamed.location)
