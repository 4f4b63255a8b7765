"""Tables that other engines made, as the mirror, the API and the pages show them."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from bench.support.golden import ARCHIVES, MISSING, golden_archive, unpacked
from controlplane.mirror.models import FileGroupRecord, InstantRecord, SchemaRecord
from controlplane.mirror.storage import engine_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from workers import create_table, open_table
from workers.files.properties import load_properties, store_properties
from workers.storage.local import LocalStorage
from workers.timeline.instant import Action, Instant, State
from workers.timeline.metadata import WriteStat, commit_metadata

pytestmark = pytest.mark.skipif(not ARCHIVES, reason=MISSING)


PENDING_AT = "20990101000000000"


def avro_of(operation: str) -> bytes:
    """Commit metadata, as Hudi's inflight files of versions 8 and 9 are."""
    return commit_metadata([], extra={}, operation_type=operation).encode(Action.COMMIT)


def registered(archive: Path, root: Path) -> tuple[Table, Path]:
    location = unpacked(archive, root)
    do_register_table(location=str(location), slug="theirs", by=None)
    call_command("sync", "theirs", stdout=StringIO())
    return Table.objects.get(slug="theirs"), location


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.stem)
def test_golden_table_is_mirrored_whole(archive: Path, root: Path, db: None) -> None:
    row, location = registered(archive, root)
    table = open_table(location)

    assert row.sync_error == ""
    assert set(
        InstantRecord.objects.filter(table=row).values_list("requested_at", "action", "state")
    ) == {
        (one.requested_at, one.action.value, one.state.value)
        for one in table.timeline(archived=True)
    }
    groups = FileGroupRecord.objects.filter(table=row, is_replaced=False)
    assert set(groups.values_list("partition", "file_id")) == {
        (one.partition, one.file_id) for one in table.file_groups()
    }
    schema = table.schema()
    newest = SchemaRecord.objects.filter(table=row).order_by("completed_at").last()
    assert schema is not None
    if newest is not None:
        assert [one["name"] for one in newest.avro["fields"]] == schema.names
    damaged = InstantRecord.objects.filter(table=row, metadata__has_key="error")
    assert not damaged.exists()


def test_table_page_says_who_made_it_and_why_it_is_not_written(
    root: Path, as_viewer: Client
) -> None:
    registered(golden_archive("mor-avro-v9_txns_simple_meta"), root)

    page = as_viewer.get(reverse("overview", args=["theirs"])).content.decode()
    listed = as_viewer.get(reverse("tables")).content.decode()

    assert "created by another engine" in page
    assert "active metadata table" in page
    assert "read only" in listed


def test_api_tells_version_maker_and_refusal(root: Path, as_viewer: Client) -> None:
    registered(golden_archive("mor-avro-v6_trips"), root)

    table = json.loads(as_viewer.get("/api/v1/tables/theirs/").content)

    assert (table["table_version"], table["is_foreign"]) == (6, True)
    assert table["write_refusal"].startswith("tables of version 6 are read only; upgrade")


def test_lock_that_lies_elsewhere_is_unknown_and_not_free(root: Path, as_viewer: Client) -> None:
    registered(golden_archive("cow-v9_txns_simple_nometa"), root)

    lock = json.loads(as_viewer.get("/api/v1/tables/theirs/lock/").content)
    page = as_viewer.get(reverse("locks", args=["theirs"])).content.decode()

    assert (lock["state"], lock["provider"]) == ("unknown", "unknown")
    assert "ZooKeeper" in lock["reason"]
    assert "Free" not in page


@pytest.mark.parametrize(
    ("archive", "action", "content", "operation"),
    [
        ("cow-v9_txns_simple_nometa", "commit", avro_of("BULK_INSERT"), "BULK_INSERT"),
        ("mor-avro-v6_trips", "deltacommit", b'{"operationType": "UPSERT"}', "UPSERT"),
        ("mor-avro-v6_trips", "compaction", b"", "COMPACT"),
        ("mor-avro-v6_trips", "deltacommit", b"", ""),
        ("mor-avro-v6_trips", "deltacommit", b'{"operationType": 7}', ""),
        ("cow-v9_txns_simple_nometa", "commit", b"half a fi", ""),
    ],
)
def test_pending_write_of_another_engine_says_what_it_does(
    archive: str, action: str, content: bytes, operation: str, root: Path, as_viewer: Client
) -> None:
    row, _ = registered(golden_archive(archive), root)
    table = engine_table(row)
    requested = Instant(PENDING_AT, Action(action), State.REQUESTED)
    for state, body in ((requested, b""), (requested.inflight(), content)):
        table.storage.put(table.layout.path(state), body)
    table.storage.put(f".hoodie/.heartbeat/{PENDING_AT}", b"")

    call_command("sync", "theirs", stdout=StringIO())

    answer = json.loads(as_viewer.get(f"/api/v1/tables/theirs/instants/{PENDING_AT}/").content)
    [writer] = json.loads(as_viewer.get("/api/v1/tables/theirs/writers/").content)
    assert (answer["row"]["operation_type"], writer["operation"]) == (operation, operation)
    assert writer["doing"] == "beginning"
    states = {phase["name"]: phase["state"] for phase in answer["phases"]}
    assert states["completed"] == "not_yet"
    assert states["validated"] == states["decided"] == "unknown"


def test_rows_of_a_commit_are_those_that_it_changed_and_not_those_that_it_copied(
    root: Path, as_viewer: Client
) -> None:
    row, _ = registered(golden_archive("cow-v9_txns_simple_nometa"), root)
    stat = WriteStat("f1", "p/f1.parquet", "p", num_writes=200, num_updates=50, num_inserts=3)
    table = engine_table(row)
    done = Instant(PENDING_AT, Action.COMMIT, State.INFLIGHT).complete("20990101000001000")
    written = commit_metadata([stat], extra={}, operation_type="UPSERT")
    table.storage.put(table.layout.path(done), written.encode(Action.COMMIT))

    call_command("sync", "theirs", stdout=StringIO())

    answer = json.loads(as_viewer.get(f"/api/v1/tables/theirs/instants/{PENDING_AT}/").content)
    assert answer["row"]["rows"] == 53
    counts = {name: answer["metadata"][name] for name in ("inserts", "updates", "deletes")}
    assert counts == {"inserts": 3, "updates": 50, "deletes": 0}


def test_upgraded_table_is_mirrored_in_its_new_layout(root: Path, db: None) -> None:
    row, location = registered(golden_archive("mor-parquet-v6"), root)
    before = set(InstantRecord.objects.filter(table=row).values_list("requested_at", "action"))

    call_command("table", "upgrade", "theirs", "--yes", "--reason", "ours now", stdout=StringIO())
    call_command("sync", "theirs", stdout=StringIO())

    row.refresh_from_db()
    records = InstantRecord.objects.filter(table=row)
    assert (row.table_version, row.sync_error) == (9, "")
    assert "adopt the table first" in row.write_refusal
    assert set(records.values_list("requested_at", "action")) == before
    assert set(records.values_list("requested_at", "state", "completed_at")) == {
        (one.requested_at, one.state.value, one.completed_at)
        for one in open_table(location).timeline()
    }
    assert not records.filter(metadata__has_key="error").exists()


def test_page_offers_upgrade_and_adoption_of_foreign_tables_alone(
    root: Path, as_viewer: Client
) -> None:
    registered(golden_archive("mor-avro-v6_trips"), root)
    create_table(root / "own", name="own", schema=pa.schema({"id": pa.string()}), record_key=["id"])
    do_register_table(location=str(root / "own"), slug="own", by=None)
    call_command("sync", "own", stdout=StringIO())

    theirs = as_viewer.get(reverse("services", args=["theirs"])).content.decode()
    own = as_viewer.get(reverse("services", args=["own"])).content.decode()
    plan = as_viewer.get(reverse("service", args=["theirs", "upgrade"])).content.decode()

    links = [reverse("service", args=["theirs", name]) for name in ("upgrade", "adopt")]
    assert all(link in theirs for link in links)
    assert "run/upgrade" not in own
    assert "upgrade the table from version 6 to version 9" in plan


def test_api_plans_the_upgrade(root: Path, as_viewer: Client) -> None:
    registered(golden_archive("mor-avro-v6_trips"), root)

    plan = as_viewer.post(
        "/api/v1/tables/theirs/services/upgrade/plan/", "{}", content_type="application/json"
    )

    assert plan.status_code == 200, plan.content
    assert "from version 6 to version 9" in json.loads(plan.content)["summary"]


def test_table_that_is_not_read_says_so_in_its_place(root: Path, as_viewer: Client) -> None:
    location = unpacked(golden_archive("cow-v9_txns_simple_nometa"), root)
    storage = LocalStorage(location)
    properties = load_properties(storage)
    store_properties(storage, {**properties, "hoodie.table.base.file.format": "LANCE"})
    do_register_table(location=str(location), slug="theirs", by=None)

    call_command("sync", "theirs", stdout=StringIO())

    listed = as_viewer.get(reverse("tables")).content.decode()
    assert "base files are of another format" in listed
    assert "LANCE" in listed
