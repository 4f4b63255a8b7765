"""A real table under a configured root, registered; and one person per role."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.contrib.auth.models import Group, User
from django.core.cache import cache
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from bench.support.redis_server import redis_server
from controlplane.mirror.sync import sync_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import RowGrant, Table
from tests.controlplane.drivers import driver  # noqa: F401 - a fixture
from tests.controlplane.lake import Lake
from tests.controlplane.sink_jobs import running  # noqa: F401 - a fixture
from tests.controlplane.sql_tables import sql_tables  # noqa: F401 - a fixture
from tests.support.lost_writes import lost_writes_once  # noqa: F401 - a fixture
from workers import create_table

_COLUMNS: list[pa.Field[Any]] = [
    pa.field("id", pa.string()),
    pa.field("ts", pa.int64()),
    pa.field("city", pa.string()),
]
SCHEMA = pa.schema(_COLUMNS)


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    """Return the address of an empty Redis with a password."""
    with redis_server("hush") as server:
        yield server.address


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
def lake(root: Path, admin: User) -> Lake:
    """A merge-on-read table on storage, registered and not yet synced."""
    created = create_table(
        root / "trips",
        name="trips",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
    )
    row = do_register_table(location=str(root / "trips"), slug="trips", name="Trips", by=admin)
    return Lake(created.table, row)


@pytest.fixture
def synced(lake: Lake) -> Table:
    """The same table with one commit, synced."""
    lake.commit({"id": "1", "ts": 1, "city": "Oslo"})
    sync_table(lake.row)
    lake.row.refresh_from_db()
    return lake.row


@pytest.fixture
def working(
    root: Path, live_server: LiveServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a worker has: roots, a token, and the address that it reports to."""
    settings.SLUICE_REPORT_URL = f"{live_server.url}/api/v1/reports/operations/"
    monkeypatch.setenv("SLUICE_WORKER_TOKEN", settings.SLUICE_WORKER_TOKEN)
    monkeypatch.setenv("SLUICE_TABLE_ROOTS", str(root))


def _person(name: str, role: str | None) -> User:
    user = User.objects.create_user(name, password="a long password")
    if role is not None:
        user.groups.add(Group.objects.get(name=role))
    if role in ("viewer", "operator"):  # As whoever had a role before it was a right of its own.
        RowGrant.objects.create(user=user, right="rows")
    return user
