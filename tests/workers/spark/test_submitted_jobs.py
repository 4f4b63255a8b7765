"""Writes that `spark-submit` runs on a cluster whose Python lacks the checkout."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

from bench.support.standalone import (
    PANDAS,
    TABLES,
    StandaloneCluster,
    make_bare_python,
    standalone_cluster,
)
from tests.support.classic_environment import classic_environment
from workers.jobs import WriteJob
from workers.lakehouse import LakehouseTable, create_table
from workers.spark.cluster import Cluster
from workers.spark.process import ENDING_FILE, LOG_FILE
from workers.spark.submit import SETTINGS_FILE, Job, submit

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = 60_000
DIRECT = {"hoodie.write.markers.type": "direct"}
TYPES: dict[str, pa.DataType] = {"id": pa.string(), "at": pa.int64(), "filler": pa.string()}
SCHEMA = pa.schema(TYPES)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    python = make_bare_python(folder / "python", (*TABLES, *PANDAS))
    with standalone_cluster(folder / "spark", python, processors=(0, 1)) as running:
        yield running


@pytest.fixture
def table(tmp_path: Path) -> LakehouseTable:
    return create_table(
        tmp_path / "lake" / "table",
        name="rows",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["at"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "4"},
    )


def rows(*, plus: int = 0) -> pa.Table:
    """Too many for the driver to write them itself."""
    ids = [f"k{number}" for number in range(ROWS)]
    times = [number + plus for number in range(ROWS)]
    return pa.table({"id": ids, "at": times, "filler": [key * 4 for key in ids]}, schema=SCHEMA)


def run(
    job: Job, cluster: StandaloneCluster, folder: Path, *, python: Path | None = None
) -> tuple[int, Mapping[str, Any], str]:
    """The exit code, the ending and the log."""
    reachable = Cluster(
        master=cluster.master,
        driver_host="127.0.0.1",
        python=str(python or cluster.python),
        settings={"spark.executor.memory": "800m", "spark.cores.max": "2"},
    )
    roots = {
        "SLUICE_TABLE_ROOTS": str(folder / "lake"),
        "SLUICE_SOURCE_ROOTS": str(folder / "sources"),
    }
    code = submit(job, reachable, {**classic_environment(), **roots})
    assert job.run_dir is not None
    run_dir = Path(job.run_dir)
    assert not (run_dir / SETTINGS_FILE).exists()
    log = (run_dir / LOG_FILE).read_text(errors="replace")
    assert (run_dir / ENDING_FILE).exists(), log[-4000:]
    return code, json.loads((run_dir / ENDING_FILE).read_text()), log


def write_job(folder: Path, table: LakehouseTable, operation: str, *, plus: int = 0) -> WriteJob:
    name = uuid.uuid4().hex
    file = folder / "sources" / f"{name}.csv"
    file.parent.mkdir(exist_ok=True)
    pyarrow.csv.write_csv(rows(plus=plus), file)
    return WriteJob(
        operation_id=name,
        table=table.location,
        source={"kind": "csv", "path": str(file)},
        operation=operation,
        options=DIRECT,
        session_id=str(uuid.uuid4()),
        run_dir=str(folder / "run" / name),
    )


def test_a_bulk_insert_and_an_upsert_run_on_the_cluster(
    cluster: StandaloneCluster, table: LakehouseTable, tmp_path: Path
) -> None:
    for operation, plus in (("bulk_insert", 0), ("upsert", 1)):
        job = write_job(tmp_path, table, operation, plus=plus)
        code, ending, log = run(job, cluster, tmp_path)
        assert (code, ending["state"]) == (0, "succeeded"), log[-4000:]
        assert ending["outcome"]["rows"] == ROWS

    assert any(file_slice.log_files for file_slice in table.file_groups())
    assert sum(table.read().column("at").to_pylist()) == sum(range(ROWS)) + ROWS
