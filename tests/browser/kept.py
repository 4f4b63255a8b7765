"""A real merge-on-read table with a life behind it: upserts, a column added, compactions, a clean,
a savepoint, an archived beginning, and a plan that waits. Every file is the engine's.

Needs Django set up; `seed` does that first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from django.conf import settings
from django.contrib.auth.models import User

from controlplane.mirror.sync import sync_table
from controlplane.operations.models import Operation
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from workers import create_table, open_table
from workers.options.write_options import write_options
from workers.table_services import registry
from workers.table_services.service import ServiceRequest
from workers.tasks.table_service import run_service

SLUG = "fares"
LATE = "20990101000000000"
"""An instant that nobody ever requested."""
CITIES = ("bergen", "narvik", "oslo")
_FIELDS: list[pa.Field[Any]] = [
    pa.field("ride", pa.int64()),
    pa.field("city", pa.string()),
    pa.field("paid_at", pa.int64()),
    pa.field("amount", pa.float64()),
]
_SCHEMA = pa.schema(_FIELDS)
_TIPPED: pa.Schema = _SCHEMA.append(pa.field("tip", pa.float64()))


def kept_table(admin: User) -> Table:
    """Registered and mirrored."""
    location = Path(settings.SLUICE_TABLE_ROOTS[0]) / SLUG
    create_table(
        location,
        name=SLUG,
        schema=_SCHEMA,
        record_key=["ride"],
        partition_by=["city"],
        ordering=["paid_at"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "2"},
    )
    _upserts(location, 0, 7)
    run(location, "compaction", {})
    _upserts(location, 7, 11, schema=_TIPPED)
    run(location, "savepoint", {"comment": "before the year's fares are loaded again"})
    _upserts(location, 11, 14, schema=_TIPPED)
    run(location, "compaction", {})
    run(location, "clean", {"hoodie.clean.commits.retained": "3"})
    run(location, "archive", {"hoodie.keep.min.commits": "6", "hoodie.keep.max.commits": "8"})
    _upserts(location, 14, 19, schema=_TIPPED)
    run(location, "compaction", {"schedule_only": "true"})
    _leave_behind(location)
    table = do_register_table(location=str(location), slug=SLUG, name=SLUG, by=admin)
    sync_table(table)
    return table


def run(location: Path, service: str, parameters: Mapping[str, str]) -> None:
    """As a worker would; what the engine does not offer yet is left out of the table's life."""
    if service not in registry.list_service_names():
        return
    request = ServiceRequest(by="ada", reason="seed", parameters=parameters)
    options = write_options({"sluice.writer.name": f"{service} by ada"})
    registry.get_service(service).run(open_table(location).table, request, options)


def work(table: Table, *, pk: str) -> str:
    """Carry out what a person asked for, by the worker's own task; it reports over the API."""
    operation = Operation.objects.get(pk=pk)
    run_service.apply(args=[operation.parameters["job"]]).get()
    sync_table(table)
    return Operation.objects.get(pk=pk).state


def _leave_behind(location: Path) -> None:
    """What a killed writer, a late task of an instant that nobody knows, and Apache Hudi left."""
    base = max(location.glob("oslo/*.parquet"))
    late = base.name.replace(base.stem.rpartition("_")[2], LATE)
    (base.parent / late).write_bytes(base.read_bytes())
    cut_off = location / "bergen" / ".sluice-tmp-4f1c"
    cut_off.write_bytes(b"half a file")
    lock = location / ".hoodie" / "lock"
    lock.write_bytes(b"")
    for file in (cut_off, lock):
        os.utime(file, (0, 0))


def _upserts(location: Path, first: int, end: int, *, schema: pa.Schema = _SCHEMA) -> None:
    for batch in range(first, end):
        rows = [
            {
                "ride": at,
                "city": CITIES[at % 3],
                "paid_at": batch * 1000 + at,
                "amount": 80.0 + at % 17,
                "tip": float(at % 5),
            }
            for at in range(batch * 5, batch * 5 + 400 + 60 * (batch % 3))
        ]
        named = [{name: row[name] for name in schema.names} for row in rows]
        open_table(location).write(
            pa.Table.from_pylist(named, schema=schema),
            options={"sluice.writer.name": f"fares-{'backfill' if batch % 4 == 3 else 'ingest'}"},
        )
