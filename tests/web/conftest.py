"""One person per role, a busy table as its mirror would be, and a small one that really exists."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.contrib.auth.models import Group, User
from django.core.cache import cache
from django.test import Client
from pytest_django import Settings

from controlplane.mirror.models import (
    FileGroupRecord,
    HeartbeatRecord,
    InstantRecord,
    LockRecord,
    MarkerCount,
    MarkerDirectory,
    SchemaRecord,
    ServerSample,
    StreamStatus,
    UndoneRecord,
)
from controlplane.mirror.sync import sync_table
from controlplane.operations.models import MarkerServer, Operation
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import RowGrant, Table
from controlplane.writers.models import Conflict
from tests.support.lost_writes import lost_writes_once  # noqa: F401 - a fixture
from web.windows import to_instant
from workers import create_table

_COLUMNS: list[pa.Field[Any]] = [
    pa.field("id", pa.int64()),
    pa.field("city", pa.string()),
    pa.field("ts", pa.int64()),
]
TRIPS = pa.schema(_COLUMNS)


@pytest.fixture(autouse=True)
def _fresh_cache() -> None:
    cache.clear()


@pytest.fixture
def root(tmp_path: Path, settings: Settings) -> Path:
    """The configured table root of this test."""
    root = tmp_path / "tables"
    root.mkdir()
    settings.SLUICE_TABLE_ROOTS = (str(root),)
    settings.SLUICE_SOURCE_ROOTS = ("default=/data",)
    settings.SLUICE_HOME = tmp_path
    return root


@pytest.fixture
def admin(db: None) -> User:
    return _person("ada", "admin")


@pytest.fixture
def operator(db: None) -> User:
    return _person("olaf", "operator")


@pytest.fixture
def viewer(db: None) -> User:
    return _person("vera", "viewer")


@pytest.fixture
def nobody(db: None) -> User:
    """Signed in, but without a role."""
    return _person("nora", None)


@pytest.fixture
def as_admin(admin: User) -> Client:
    return _signed_in(admin)


@pytest.fixture
def as_viewer(viewer: User) -> Client:
    return _signed_in(viewer)


@pytest.fixture
def client_of(
    client: Client, nobody: User, viewer: User, operator: User, admin: User
) -> dict[str, Client]:
    people = {"nobody": nobody, "viewer": viewer, "operator": operator, "admin": admin}
    clients = {"anonymous": client}
    for role, person in people.items():
        clients[role] = Client()
        clients[role].force_login(person)
    return clients


@pytest.fixture(scope="session")
def trips_on_storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three commits, made once; a test takes a copy."""
    location = tmp_path_factory.mktemp("trips") / "trips"
    created = create_table(location, name="trips", schema=TRIPS, record_key=["id"], ordering=["ts"])
    for batch in range(3):
        rows = [{"id": at, "city": "Oslo", "ts": batch} for at in range(9)]
        created.write(pa.Table.from_pylist(rows, schema=TRIPS))
    return location


@pytest.fixture
def trips(root: Path, admin: User, trips_on_storage: Path) -> Table:
    """Three commits in storage, mirrored."""
    shutil.copytree(trips_on_storage, root / "trips")
    row = do_register_table(location=str(root / "trips"), slug="trips", name="trips", by=admin)
    sync_table(row)
    row.refresh_from_db()
    return row


@pytest.fixture
def orders(root: Path, admin: User) -> Table:
    """A merge-on-read table without a sink."""
    columns: list[pa.Field[Any]] = [
        pa.field("id", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("city", pa.string()),
    ]
    location = str(root / "orders")
    create_table(
        location,
        name="orders",
        schema=pa.schema(columns),
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
    )
    row = do_register_table(location=location, slug="orders", by=admin)
    sync_table(row)
    row.refresh_from_db()
    return row


@pytest.fixture
def busy(admin: User) -> Table:
    """One row of everything that a page can show."""
    return fill("ads", admin)


def fill(slug: str, admin: User, *, text: str = "w", now: datetime | None = None) -> Table:
    """A table whose mirror has every kind of row; `text` stands wherever a table's own words do."""
    now = now or datetime.now(UTC)
    table = Table.objects.create(
        slug=slug, name=slug, location=f"/lake/{slug}", table_type="MERGE_ON_READ",
        record_key="request_id", partition_by="region", synced_at=now, sync_error=text[:500],
    )  # fmt: skip
    done, open_, lost = (instant(now, seconds=at) for at in (60, 20, 40))
    for requested_at, action, state, completed in (
        (done, "deltacommit", "completed", instant(now, seconds=50)),
        (open_, "deltacommit", "inflight", None),
        (instant(now, seconds=30), "rollback", "completed", instant(now, seconds=29)),
    ):
        InstantRecord.objects.create(
            table=table, requested_at=requested_at, action=action, state=state,
            completed_at=completed, writer_name=text[:200], stream=text[:100],
            operation_type=text[:32], rows=7, files=1, bytes=2048, partitions=1,
            operation_ref=text[:64],
            metadata={
                "file_groups": [[text, text]], "file_group_count": 1,
                "partition_bytes": {text: 7}, "extra": {
                    text: text,
                    "sluice.lock": json.dumps({"provider": text, "epoch": 2, "waited_ms": 40}),
                },
                "rolled_back": [text], "error": text,
            },
        )  # fmt: skip
    HeartbeatRecord.objects.create(
        table=table, instant=open_, beat_at=now - timedelta(seconds=2), interval_ms=2000,
        tolerable_misses=5, writer_name=text[:200], stream=text[:100], mode=text[:64],
        operation=text[:32], host=text[:255], pid=7, last_seen=now,
    )  # fmt: skip
    MarkerDirectory.objects.create(
        table=table, instant=open_, layout=text[:32], markers=3, by_file=[[text, 3]],
        claims=[[text, text]], claim_count=1, changed_at=now,
        verdict={"rival": done, "rival_writer": text, "file_groups": 1, "message": text},
    )  # fmt: skip
    LockRecord.objects.create(
        table=table, provider=text[:32], place=text, problem=text, is_held=True, owner=text,
        writer=text[:200], instant=open_, epoch=3, since=now, until=now, sampled_at=now,
        waiters=[{
            "writer": text, "instant": open_, "since_ms": 5, "until_ms": 9, "holder": text,
            "host": text, "pid": 7,
        }],
        holders=[{
            "writer": text, "owner": text, "instant": open_, "epoch": 3, "since_ms": 5,
            "seen_ms": 6,
        }],
    )  # fmt: skip
    MarkerCount.objects.create(table=table, instant=open_, kind=text[:16], count=3, sample=[text])
    avro = {"type": "record", "name": "r", "fields": [{"name": text, "type": ["null", "string"]}]}
    SchemaRecord.objects.create(
        table=table, instant=done, completed_at=done, writer_name=text[:200], avro=avro,
        fingerprint="f", columns=1,
    )  # fmt: skip
    SchemaRecord.objects.create(
        table=table, instant=lost, completed_at=lost, writer_name=text[:200],
        avro={**avro, "fields": [*avro["fields"], {"name": text + "2", "type": "long"}]},
        fingerprint="g", columns=2,
    )  # fmt: skip
    InstantRecord.objects.create(
        table=table, requested_at=done, action="savepoint", state="completed", completed_at=lost,
        metadata={"by": text, "comment": text},
    )  # fmt: skip
    InstantRecord.objects.create(
        table=table, requested_at=instant(now, seconds=25), action="compaction",
        state="requested", writer_name=text[:200],
        metadata={"plan": {"file_groups": 1, "files": 2, "bytes": 3, "strategy": text}},
    )  # fmt: skip
    for ago, undone_by in ((40, ""), (35, instant(now, seconds=30))):
        UndoneRecord.objects.create(
            table=table, requested_at=instant(now, seconds=ago), action="deltacommit",
            ended_at=instant(now, seconds=29), undone_by=undone_by, writer_name=text[:200],
            stream=text[:100], operation_type=text[:32], rows=7, files=1, bytes=9,
            operation_ref=text[:64],
        )  # fmt: skip
    FileGroupRecord.objects.create(
        table=table, partition=text, file_id=text[:140], base_instant=done, base_file=text[:300],
        base_bytes=2048, log_files=2, log_bytes=512, bytes=2560, slices=1, old_files=1,
        first_instant=done, last_instant=open_, is_replaced=False,
        history=[{
            "base_instant": done, "base_file": text, "base_bytes": 2048, "log_files": 2,
            "log_bytes": 512, "instants": [done], "instant_count": 1,
        }],
    )  # fmt: skip
    story_facts = {
        "strategy": text, "reason": text, "clashes": [[text, text]],
        "differences": [
            {"path": text, "kind": kind, "by": by, "before": text, "after": text}
            for kind in ("added", "type", text) for by in ("writer", "rival")
        ],
    }  # fmt: skip
    for kind, schemas in (("write", None), ("schema", {"at_start": None, "writer": avro})):
        Conflict.objects.create(
            table=table, loser_instant=lost if kind == "write" else open_,
            loser_writer=text[:200], winner_instant=done, winner_writer=text[:200], kind=kind,
            message=text, file_groups=[[text, text]], overlap=1, wasted_files=2,
            wasted_bytes=900, lasted_ms=5_000, detected="early" if kind == "write" else "commit",
            details={
                "rule": text, "strategy": text, "case": text, "rolled_back_by": text,
                "lost": {
                    "operation": text, "mode": text, "host": text, "pid": 7, "stream": text,
                    "operation_id": text, "elsewhere": [[text + "2", text]], "elsewhere_count": 1,
                },
            },
            schemas={**schemas, "at_validation": avro, **story_facts} if schemas else None,
            decided_at=now,
        )  # fmt: skip
    StreamStatus.objects.create(
        table=table, stream=text[:100], columns=[text], rows_with=999, rows_without=1,
        last_event_time=text[:64], last_commit_at=done, lag_s=4.0, sampled_at=now,
    )  # fmt: skip
    Operation.objects.create(
        table=table, kind="rollback", state="running", requested_by=admin, reason=text[:500],
        message=text, instant=done, parameters={"writer": text}, progress_done=2,
        progress_total=8, progress_unit=text[:32], plan={"files": [], "file_count": 0},
    )  # fmt: skip
    MarkerServer.objects.get_or_create(port=8765, state="running")
    for up in (True, False, True):
        ServerSample.objects.create(at=now, up=up, queue_depth=3, batches=2, requests=9, p50_ms=4)
    return table


def instant(now: datetime, *, seconds: float) -> str:
    """The instant time that many seconds ago."""
    return to_instant(int(now.timestamp() * 1000 - seconds * 1000))


def _signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def _person(name: str, role: str | None) -> User:
    user = User.objects.create_user(name, password="a long enough password")
    if role:
        user.groups.add(Group.objects.get(name=role))
    if role in ("viewer", "operator"):  # As whoever had a role before it was a right of its own.
        RowGrant.objects.create(user=user, right="rows")
    return user
