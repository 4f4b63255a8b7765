"""A table in a bucket is registered and mirrored as one in a directory."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from django.contrib.auth.models import User

from bench.support.s3_server import shared_server
from controlplane.mirror.models import InstantRecord
from controlplane.mirror.sync import sync_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from tests.support.storages import use_bucket
from workers.lakehouse import create_table

OPTIONS = {"hoodie.write.markers.type": "direct"}


@pytest.fixture
def trips(admin: User, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Table:
    root = use_bucket(monkeypatch)
    settings.SLUICE_TABLE_ROOTS = (root,)
    rows = pa.table({"id": ["a", "b"], "ts": [1, 2]})
    table = create_table(
        f"{root}/trips", name="trips", schema=rows.schema, record_key=["id"], ordering=["ts"]
    )
    table.write(rows, options=OPTIONS)
    return do_register_table(location=f"{root}/trips", slug="trips", by=admin)


def test_what_lies_in_a_bucket_is_mirrored(trips: Table) -> None:
    sync_table(trips)

    trips.refresh_from_db()
    assert trips.table_type == "COPY_ON_WRITE"
    mirrored = InstantRecord.objects.filter(table=trips).order_by("requested_at")
    assert [one.action for one in mirrored] == ["commit", "commit"]


def test_no_row_of_the_database_holds_the_keys_of_the_bucket(trips: Table) -> None:
    sync_table(trips)

    stored = list(Table.objects.values()) + list(InstantRecord.objects.values())
    secret = shared_server().environment["AWS_SECRET_ACCESS_KEY"]
    assert secret not in json.dumps(stored, default=str)
