"""Tables in a bucket: a node does with them what it does with tables in directories."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError
from django.test import Client
from pytest_django import Settings

from bench.support.s3_server import BUCKET
from controlplane.demo.actions import kill_in_the_middle
from controlplane.demo.prices import do_load_wrong_prices
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_request_write, do_start_sink, plan_replay
from controlplane.operations.models import Operation
from controlplane.sql.limits import SqlLimits
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.controlplane.left_out import leave_out
from tests.controlplane.sink_jobs import OPTIONS as SINK_OPTIONS
from tests.controlplane.test_commands import BERGEN, OSLO, run
from tests.support.sinks import SINK
from tests.support.storages import use_bucket
from workers.demo.ad_requests import KEY, STREAMS, AdRequests
from workers.files.properties import load_properties, store_properties
from workers.lakehouse import create_table, open_table, write_arrow
from workers.storage.opener import open_storage
from workers.timeline.extra_metadata import POSITION_KEY, Position
from workers.write.request import WriteRequest

DIRECT = {"hoodie.write.markers.type": "direct"}
TYPES: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64(), "city": pa.string()}
BUCKETS = "hoodie.bucket.index.num.buckets"
ROWS = b"id,ts,city\n7,1,Turku\n8,1,Kiel\n"


@pytest.fixture
def root(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> str:
    """The only table root, in place of the folder of other tests."""
    root = use_bucket(monkeypatch)
    settings.SLUICE_TABLE_ROOTS = (root,)
    settings.SLUICE_SOURCE_ROOTS = (f"default=s3://{BUCKET}/drop",)
    settings.SLUICE_HOME = tmp_path
    settings.SLUICE_SQL = SqlLimits(wall_s=250, cpu_s=250)
    monkeypatch.setenv("SLUICE_TABLE_ROOTS", root)
    return root


@pytest.fixture
def lake(root: str, admin: User) -> Lake:
    """A merge-on-read table, registered and not yet synced."""
    created = create_table(
        f"{root}/trips",
        name="trips",
        schema=pa.schema(TYPES),
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
    )
    run("table", "register", f"{root}/trips", "--slug", "trips")
    return Lake(created.table, Table.objects.get(slug="trips"))


@pytest.fixture
def as_admin(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def cities(lake: Lake) -> list[str]:
    return sorted(open_table(lake.row.location).read()["city"].to_pylist())


def test_statements_of_the_shell_change_a_table(lake: Lake, root: str) -> None:
    created = run(
        "sql",
        "CREATE TABLE towns (id STRING PRIMARY KEY, ts BIGINT, city STRING)",
        "--table",
        f"towns={root}/towns",
    )
    lake.commit(OSLO, BERGEN)
    run("sql", "INSERT INTO towns SELECT id, ts, city FROM trips")
    run("sql", "UPDATE towns SET city = upper(city) WHERE id = '1'")
    run("sql", "ALTER TABLE towns ADD COLUMN note STRING")
    run(
        "sql",
        "MERGE INTO trips t USING towns s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET city = s.city",
    )
    run("sql", "DELETE FROM towns WHERE id = '2'", "--yes")

    assert "registered as towns" in created
    answer = run("sql", "SELECT t.city, n.note FROM trips t JOIN towns n ON n.id = t.id")
    assert [json.loads(line) for line in answer.splitlines()] == [{"city": "OSLO", "note": None}]
    assert cities(lake) == ["Bergen", "OSLO"]


@pytest.mark.slow
def test_statement_over_rest_and_pages_show_rows(lake: Lake, as_admin: Client) -> None:
    lake.commit(OSLO)
    instant = lake.commit(OSLO | {"ts": 2, "city": "Moss"}, BERGEN)
    sync_table(lake.row)
    body = {"statement": "SELECT id, city FROM trips ORDER BY id"}

    answer = as_admin.post("/api/v1/sql/", body, "application/json").json()
    pages = {
        name: as_admin.get(f"/t/trips/{name}", headers={"X-Sluice-Part": "1"})
        for name in (
            "data/rows?where=id+%3D+'1'",
            f"data/changes/{instant}/rows",
            "data/row/versions?key=1",
            "data/plan/part",
            "files/rows",
            "timeline/rows",
            "schema",
        )
    }

    assert answer["rows"] == [["1", "Moss"], ["2", "Bergen"]], answer
    assert {name: page.status_code for name, page in pages.items()} == dict.fromkeys(pages, 200)
    texts = {name: page.content.decode() for name, page in pages.items()}
    assert "Moss" in texts["data/rows?where=id+%3D+'1'"]
    assert "Oslo" in texts[f"data/changes/{instant}/rows"]
    assert "Oslo" in texts["data/row/versions?key=1"]


@pytest.mark.slow
def test_services_run_from_the_shell(lake: Lake) -> None:
    instants = [lake.commit(OSLO | {"ts": ts}) for ts in range(1, 4)]
    run("table", "savepoint", "trips", "--comment", "before the move")

    assert "merged 2 logs" in run("table", "compact", "trips")
    newest = lake.commit(BERGEN)
    assert "rolled back by" in run("table", "rollback", "trips", newest, "--yes", "--reason", "x")
    run("table", "cluster", "trips", "--set", "hoodie.clustering.plan.strategy.sort.columns=city")
    run("table", "clean", "trips", "--yes", "--set", "hoodie.clean.commits.retained=1")
    restored = run("table", "restore", "trips", instants[-1], "--yes", "--reason", "x")

    run("table", "archive", "trips", "--yes")
    run("table", "repair", "trips", "--yes", "--reason", "x")
    run("table", "delete-markers", "trips", "--yes", "--reason", "x")
    assert cities(lake) == ["Oslo"], restored
    assert "00000" in run("table", "file-groups", "trips")


def test_foreign_table_is_registered_and_adopted(root: str, db: None) -> None:
    rows = pa.table({"id": [f"k{n}" for n in range(100)], "ts": [1] * 100})
    table = create_table(
        f"{root}/foreign",
        name="foreign",
        schema=rows.schema,
        record_key=["id"],
        ordering=["ts"],
        options={BUCKETS: "6"},
    )
    table.write(rows, options=DIRECT)
    storage = open_storage(table.location)
    properties = load_properties(storage)
    del properties[BUCKETS]
    store_properties(storage, {**properties, "hoodie.table.timeline.timezone": "LOCAL"})
    run("table", "register", table.location, "--slug", "foreign")

    output = run("table", "adopt", "foreign", "--yes", "--reason", "ours now")

    assert "6" in output
    assert load_properties(storage)[BUCKETS] == "6"
    open_table(table.location).write(rows, options=DIRECT)


def put_file(place: str, tmp_path: Path, content: bytes) -> str:
    """Put a file into a folder of this machine or into a bucket, and return its path."""
    folder = str(tmp_path) if place == "folder" else f"s3://{BUCKET}/drop/{uuid.uuid4().hex}"
    open_storage(folder).put("new.csv", content)
    return f"{folder}/new.csv"


@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_file_of_a_folder_and_of_a_bucket_is_loaded(
    lake: Lake, root: str, tmp_path: Path, place: str
) -> None:
    path = put_file(place, tmp_path, ROWS)
    types = "--column-types=id=string"

    run("write", path, "--no-spark", "--table", f"{root}/trips", types)
    run("write", path, "--no-spark", "--name", "fresh", types)

    assert cities(lake) == ["Kiel", "Turku"]
    assert open_table(f"{root}/fresh").read().num_rows == 2
    assert Table.objects.filter(location=f"{root}/fresh").exists()


def test_object_is_loaded_one_path_at_a_time_and_from_no_table(lake: Lake) -> None:
    lake.commit(OSLO)
    inside = f"{lake.row.location}/x.csv"

    with pytest.raises(CommandError, match="expected one path in a bucket"):
        run("write", inside, f"s3://{BUCKET}/drop/b.csv", "--no-spark")
    with pytest.raises(CommandError, match="must not be in a table or below a table root"):
        run("write", inside, "--no-spark", "--name", "stolen")
    with pytest.raises(CommandError, match="no source file matches"):
        run("write", f"s3://{BUCKET}/nothing/*.csv", "--no-spark")


@pytest.mark.parametrize("place", [pytest.param("folder", marks=pytest.mark.slow), "bucket"])
def test_rows_and_keys_of_services_come_from_files(
    lake: Lake, tmp_path: Path, place: str, as_admin: Client
) -> None:
    path = put_file(place, tmp_path, ROWS)
    lake.commit(OSLO)
    plan = run("table", "insert-overwrite-table", "trips", path)
    into = ("--table", lake.row.location, "--operation", "insert_overwrite_table")
    assert run("write", path, *into) == plan
    run("write", path, *into, "--yes", "--reason", "new start")
    assert cities(lake) == ["Kiel", "Turku"]
    keys = put_file(place, tmp_path, b"id\n7\n")
    run("table", "delete", "trips", "--path", keys, "--yes")
    assert cities(lake) == ["Kiel"]

    run("table", "delete", "trips", "city = 'Kiel'", "--yes")

    assert cities(lake) == []
    address = "/api/v1/tables/trips/services/delete/plan/"
    for outside in (f"s3://{BUCKET}/elsewhere/new.csv", f"{lake.row.location}/new.csv"):
        body = {"parameters": {"path": outside}}
        refused = as_admin.post(address, body, "application/json")
        assert refused.status_code == 400
        assert "source" in refused.json()["detail"]


def test_streams_of_the_demo_write_a_bucket_and_continue_their_run(root: str, admin: User) -> None:
    run("demo", "--start", "--rounds", "2")
    [number] = {write.parameters["job"]["source"]["run"] for write in Operation.objects.all()}
    requests = AdRequests(seed=7, run=number, rounds=2, requests_per_round=40)
    table = open_table(f"{root}/ad_requests")
    keys: set[str] = set()
    for stream in STREAMS:
        events = requests.events(stream, 0)
        keys.update(str(key) for key in events[KEY].to_pylist())
        position = ((POSITION_KEY, Position(number, 0).encode()),)
        request = WriteRequest("upsert", stream, position)
        write_arrow(table.table, events, request, DIRECT)
    Operation.objects.update(state="cancelled")

    status = run("demo", "--status").splitlines()
    run("demo", "--start", "--rounds", "9")

    assert [line.split()[:4] for line in status[:3]] == [[name, "1", "of", "2"] for name in STREAMS]
    sources = [write.parameters["job"]["source"] for write in Operation.objects.all()]
    assert {(source["run"], source["rounds"]) for source in sources} == {(number, 2)}
    assert sorted(table.read(columns=[KEY])[KEY].to_pylist()) == sorted(keys)


def test_demo_kills_the_writer_with_files_in_a_bucket(
    lake: Lake, admin: User, driver: Callable[[Operation], int]
) -> None:
    source = {"source": {"kind": "demo_stream"}}
    writing, idle = (do_request_write(table=lake.row, parameters=source, by=admin) for _ in "ab")
    pids = [driver(writing), driver(idle)]
    lake.begin(OSLO, operation_id=str(writing.pk))

    killed = kill_in_the_middle(lake.row)

    assert killed == writing
    assert os.waitpid(pids[0], 0)[1] == signal.SIGKILL
    assert os.waitpid(pids[1], os.WNOHANG) == (0, 0)


@pytest.mark.slow
def test_dead_letters_of_a_sink_in_a_bucket_are_shown_planned_and_requested(
    lake: Lake, admin: User, as_admin: Client
) -> None:
    do_start_sink(lake.row, SINK_OPTIONS, by=admin)
    instant = leave_out(lake.row)
    address = f"/api/v1/tables/trips/sinks/{SINK}/dead-letters/"

    page = as_admin.get(f"{address}{instant}/").json()
    plan = plan_replay(lake.row, SINK, instant=instant)
    body = {"instant": instant, "reason": "a test"}
    requested = as_admin.post(f"{address}replay/", body, "application/json")

    assert [row["cause"] for row in page["rows"]] == ["not JSON", "not UTF-8"]
    assert (plan.to_send, plan.already) == (2, 0)
    assert requested.status_code == 202
    [operation] = Operation.objects.filter(kind="replay")
    assert operation.parameters["job"]["directory"] == f"{lake.row.location}-dead-letters"


def test_reset_of_the_demo_leaves_no_object_of_it(root: str, admin: User) -> None:
    run("demo", "--start", "--rounds", "1")
    Operation.objects.update(state="cancelled")
    do_load_wrong_prices(admin)
    orders = create_table(
        f"{root}/shop_orders",
        name="shop_orders",
        schema=pa.schema({"id": pa.string()}),
        record_key=["id"],
    )
    run("table", "register", orders.location, "--slug", "shop-orders")
    open_storage(f"{root}/shop_orders-dead-letters").put("x.parquet", b"x")
    open_storage(f"{root}/another").put("x", b"stays")

    run("demo", "--reset")

    assert [file.path for file in open_storage(root).list_tree("")] == ["another/x"]
    assert not Table.objects.exists()
