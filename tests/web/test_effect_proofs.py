"""The page of a write shows what storage proves of it, and says so when it no longer does."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from django.contrib.auth.models import User
from django.test import Client

from controlplane.operations.actions import do_request_write
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.support.markup import compact
from tests.web.conftest import TRIPS
from workers import open_table


def test_page_of_a_write_proves_it_from_storage_until_a_file_is_gone(
    trips: Table, admin: User, as_viewer: Client
) -> None:
    source = {"kind": "csv", "path": "/data/trips.csv"}
    operation = do_request_write(table=trips, parameters={"source": source}, by=admin)
    page = f"/t/trips/operations/{operation.pk}"
    waiting = compact(as_viewer.get(page).content.decode())
    rows = pa.Table.from_pylist([{"id": 77, "city": "Moss", "ts": 1}], schema=TRIPS)
    outcome = open_table(trips.location).write(
        rows, options={"sluice.operation.id": str(operation.pk)}
    )
    Operation.objects.update(state="succeeded", instant=outcome.instant)

    proved = compact(as_viewer.get(page).content.decode())
    next(Path(trips.location).glob(f"*_{outcome.instant}.*")).unlink()
    tampered = compact(as_viewer.get(page).content.decode())

    assert waiting.count("</svg> waiting<") == 3
    assert (proved.count("</svg> verified<"), proved.count("not verified")) == (3, 0)
    assert "with 1 row and carries" in proved
    assert (tampered.count("</svg> verified<"), tampered.count("</svg> not verified<")) == (1, 1)
