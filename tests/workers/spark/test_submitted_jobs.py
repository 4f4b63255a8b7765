"""Jobs that `spark-submit` runs on a cluster whose Python lacks the checkout, and the rollback of
one from the page.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from bench.support.standalone import (
    KAFKA,
    PANDAS,
    TABLES,
    StandaloneCluster,
    make_bare_python,
    standalone_cluster,
)
from controlplane.mirror.sync import sync_table
from controlplane.operations.models import Operation
from controlplane.tables.actions import do_register_table
from tests.sink.conftest import SCHEMA as RECORDS
from tests.support.classic_environment import classic_environment
from tests.support.kafka import eventually, fresh_topic, kafka, topics
from tests.support.markup import compact
from tests.support.referee import assert_referee_agrees
from tests.support.sink_run import ask_to_stop, assert_each_offset_once, has_committed, send
from workers.jobs import ServiceJob, SinkJob, WriteJob
from workers.lakehouse import LakehouseTable, create_append_table, create_table, open_table
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.topics import Topics
from workers.spark.cluster import Cluster
from workers.spark.process import ENDING_FILE, LOG_FILE
from workers.spark.submit import SETTINGS_FILE, Job, submit
from workers.tasks.rollback import rollback

__all__ = ["kafka", "topics"]

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = 60_000
DIRECT = {"hoodie.write.markers.type": "direct"}
TYPES: dict[str, pa.DataType] = {"id": pa.string(), "at": pa.int64(), "filler": pa.string()}
SCHEMA = pa.schema(TYPES)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    python = make_bare_python(folder / "python", (*TABLES, *PANDAS, *KAFKA))
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
    job: Job,
    cluster: StandaloneCluster,
    folder: Path,
    *,
    python: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> tuple[int, Mapping[str, Any], str]:
    """The exit code, the ending and the log."""
    reachable = Cluster(
        master=cluster.master,
        driver_host="127.0.0.1",
        python=str(python or cluster.python),
        settings={"spark.executor.memory": "800m", "spark.cores.max": "2", **(settings or {})},
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
    assert_rows(table, plus=1)


@pytest.mark.parametrize(
    ("distributions", "sentence"),
    [
        (("numpy", *PANDAS), "nothing was written: pyarrow is missing at .*fastavro is missing at"),
        ((), "executors have no Python at this path, so nothing was written"),
    ],
    ids=["package", "python"],
)
def test_executors_that_cannot_run_tasks_are_refused(
    distributions: Sequence[str],
    sentence: str,
    cluster: StandaloneCluster,
    table: LakehouseTable,
    tmp_path: Path,
) -> None:
    python = tmp_path / "no-python"
    if distributions:
        python = make_bare_python(tmp_path / "python", distributions)
    before = table.timeline()

    code, ending, log = run(
        write_job(tmp_path, table, "bulk_insert"), cluster, tmp_path, python=python
    )

    assert (code, ending["state"]) == (2, "failed"), log[-4000:]
    assert re.search(sentence, ending["message"]), ending["message"]
    assert table.timeline() == before


def test_a_file_of_the_job_that_hides_the_engine_from_tasks_is_refused(
    cluster: StandaloneCluster, table: LakehouseTable, tmp_path: Path
) -> None:
    """Spark puts files of a job into the working folder of each executor."""
    hiding = tmp_path / "workers.py"
    hiding.write_text("")
    job = write_job(tmp_path, table, "bulk_insert")
    before = table.timeline()

    code, ending, log = run(job, cluster, tmp_path, settings={"spark.files": str(hiding)})

    assert (code, ending["state"]) == (2, "failed"), log[-4000:]
    assert re.search(
        r"nothing was written: the engine \(package workers\) is another one than the driver's "
        rf"\(rename or remove {re.escape(str(cluster.folder))}/127\S+/workers\.py\)",
        ending["message"],
    ), ending["message"]
    assert table.timeline() == before


def assert_rows(table: LakehouseTable, *, plus: int) -> None:
    total = table.read().column("at")
    assert (len(total), sum(total.to_pylist())) == (ROWS, sum(range(ROWS)) + ROWS * plus)


@pytest.mark.parametrize(
    ("service", "parameters"),
    [
        ("compaction", {}),
        ("clustering", {"hoodie.clustering.plan.strategy.sort.columns": "filler"}),
    ],
)
def test_tasks_of_a_service_run_on_the_cluster(
    service: str,
    parameters: Mapping[str, str],
    cluster: StandaloneCluster,
    table: LakehouseTable,
    tmp_path: Path,
) -> None:
    table.write(rows(), "bulk_insert", options=DIRECT)
    table.write(rows(plus=1), options=DIRECT)
    assert all(file_slice.log_files for file_slice in table.file_groups())
    job = ServiceJob(
        operation_id=uuid.uuid4().hex,
        table=table.location,
        service=service,
        parameters=parameters,
        by="a test",
        run_dir=str(tmp_path / "run"),
    )
    before = find_task_logs(cluster)

    code, ending, log = run(job, cluster, tmp_path)

    assert (code, ending["state"]) == (0, "succeeded"), log[-4000:]
    assert ending["instant"] == table.timeline()[-1].requested_at
    assert len(find_task_logs(cluster) - before) == 2
    assert not any(file_slice.log_files for file_slice in table.file_groups())
    assert_rows(table, plus=1)
    assert_referee_agrees(table.location)


def find_task_logs(cluster: StandaloneCluster) -> set[Path]:
    """Return the logs of the executors that finished a task."""
    logs = cluster.folder.glob("127.*/app-*/*/stderr")
    return {log for log in logs if "Finished task" in log.read_text(errors="replace")}


def test_a_sink_runs_on_the_cluster_until_it_is_stopped(
    cluster: StandaloneCluster, kafka: Broker, topics: Topics, tmp_path: Path
) -> None:
    topic = fresh_topic(topics, 2)
    table = create_append_table(
        tmp_path / "lake" / "trips", name="trips", schema=RECORDS, topic=topic, partitions=2
    )
    for partition in range(2):
        send(kafka, topic, partition, 0, 2_000)
    job = SinkJob(
        operation_id=uuid.uuid4().hex,
        table=table.location,
        sink_options={
            "hoodie.kafka.topic": topic,
            "bootstrap.servers": kafka.bootstrap,
            "hoodie.kafka.control.topic": f"{topic}-control",
            "hoodie.kafka.commit.interval.secs": "1",
            "hoodie.kafka.coordinator.write.timeout.secs": "30",
            "hoodie.kafka.start.offsets": "earliest",
            "hoodie.kafka.compaction.async.enable": "false",
        },
        session_id=str(uuid.uuid4()),
        run_dir=str(tmp_path / "run"),
    )
    ended: list[tuple[int, Mapping[str, Any], str]] = []
    thread = threading.Thread(target=lambda: ended.append(run(job, cluster, tmp_path)))

    def await_records(count: int) -> None:
        offsets = dict.fromkeys(range(2), count)
        eventually(
            lambda: bool(ended) or has_committed(table.location, topic, offsets), within_s=400
        )
        assert ended == []

    thread.start()
    try:
        await_records(2_000)
        for partition in range(2):
            send(kafka, topic, partition, 2_000, 1_000)
        await_records(3_000)
    finally:
        ask_to_stop(table.location, topic)
        thread.join(180)

    ((code, ending, log),) = ended
    assert (code, ending["state"]) == (0, "succeeded"), log[-4000:]
    assert_each_offset_once(table.location, dict.fromkeys(range(2), 3_000))


@pytest.mark.django_db(transaction=True)
def test_an_admin_rolls_back_a_commit_of_the_cluster_from_the_page(
    cluster: StandaloneCluster,
    table: LakehouseTable,
    tmp_path: Path,
    live_server: LiveServer,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = str(tmp_path / "lake")
    settings.SLUICE_TABLE_ROOTS, settings.SLUICE_HOME = (lake,), tmp_path
    settings.SLUICE_REPORT_URL = f"{live_server.url}/api/v1/reports/operations/"
    monkeypatch.setenv("SLUICE_TABLE_ROOTS", lake)
    monkeypatch.setenv("SLUICE_WORKER_TOKEN", settings.SLUICE_WORKER_TOKEN)
    admin = User.objects.create_user("ada", password="a long enough password")
    admin.groups.add(Group.objects.get(name="admin"))
    table.write(rows(), "bulk_insert", options=DIRECT)
    code, ending, log = run(write_job(tmp_path, table, "upsert", plus=1), cluster, tmp_path)
    assert code == 0, log[-4000:]
    sync_table(do_register_table(location=table.location, slug="rows", name="rows", by=admin))
    browser = Client()
    browser.force_login(admin)
    page = f"/t/rows/rollback/{ending['instant']}"
    plan_page = browser.get(page).content.decode()
    hidden = dict(re.findall(r'name="(plan_hash|idempotency_key)" value="([^"]+)"', plan_page))

    answer = browser.post(page, {"typed_name": "rows", "reason": "wrong day", **hidden})
    operation = Operation.objects.get(kind="rollback")
    rollback.apply(args=[operation.parameters["job"]]).get()

    operation.refresh_from_db()
    assert (answer.status_code, operation.state) == (302, "succeeded"), operation.message
    ended = compact(browser.get(answer["Location"]).content.decode())
    assert "checked against storage" in ended
    assert_rows(open_table(table.location), plus=0)
    assert_referee_agrees(table.location)
