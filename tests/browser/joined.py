"""A table that three streams write, each by its own clock: late, ahead, with gaps and deletes."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.mirror.streams import measure
from controlplane.mirror.sync import sync_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from tests.support.joined import DIRECT, NON_BLOCKING
from workers import LakehouseTable, create_table

SLUG = "ad-join"
_GROUPS: list[dict[str, Any]] = [
    {"name": "impression", "ordering": ["shown_at"], "columns": ["site", "price"]},
    {"name": "click", "ordering": ["clicked_at"], "columns": ["clicks", "referrer"]},
    {
        "name": "conversion",
        "ordering": ["paid_at"],
        "columns": ["amount", "currency"],
        "null_mode": "keep",
    },
]
_TIME = pa.timestamp("us", "UTC")
_COLUMNS: dict[str, pa.DataType] = {
    "request": pa.string(),
    "shown_at": _TIME,
    "site": pa.string(),
    "price": pa.float64(),
    "clicked_at": _TIME,
    "clicks": pa.int32(),
    "referrer": pa.string(),
    "paid_at": _TIME,
    "amount": pa.float64(),
    "currency": pa.string(),
    "_hoodie_is_deleted": pa.bool_(),
}
_SCHEMA = pa.schema(_COLUMNS)
_DAYS = 12
_ROUNDS = 4
_OPTIONS = DIRECT | NON_BLOCKING


def joined_table(admin: User) -> Table:
    """Registered, mirrored and measured more than once."""
    location = Path(settings.SLUICE_TABLE_ROOTS[0]) / SLUG
    table = create_table(
        location,
        name=SLUG,
        schema=_SCHEMA,
        record_key=["request"],
        table_type="MERGE_ON_READ",
        options={
            "hoodie.multistream.groups": json.dumps(_GROUPS),
            "hoodie.bucket.index.num.buckets": "4",
        },
    )
    row = do_register_table(location=str(location), slug=SLUG, name=SLUG, by=admin)
    for number in range(_ROUNDS):
        _round(table, number)
        if number == 1:
            table.compact()
        sync_table(row)
        row.refresh_from_db()
        measure(row, now=timezone.now() - timedelta(minutes=10 * (_ROUNDS - number)))
    return row


def _round(table: LakehouseTable, number: int) -> None:
    now = timezone.now()
    days = range(_DAYS * number // _ROUNDS, _DAYS * (number + 1) // _ROUNDS)
    shown = [
        (f"r{day:02d}-{n:02d}", now - timedelta(days=_DAYS - day, hours=n))
        for day in days
        for n in range(20)
    ]
    _write(
        table,
        "impression",
        [
            {"request": key, "shown_at": at, "site": "oslo.example", "price": 0.5}
            for key, at in shown
        ],
    )
    _write(
        table,
        "click",
        [
            {
                "request": key,
                "clicked_at": at + timedelta(minutes=3),
                "clicks": 1,
                "referrer": None if at.day % 2 else "mail",
            }
            for n, (key, at) in enumerate(shown)
            if n % 3
        ],
    )
    if number < _ROUNDS - 1:
        _write(
            table,
            "conversion",
            [
                {
                    "request": key,
                    "paid_at": at + timedelta(hours=5),
                    "amount": 9.0,
                    "currency": "NOK",
                }
                for n, (key, at) in enumerate(shown)
                if n % 3 == 1
            ],
        )
    key, at = shown[1]
    _write(table, "click", [{"request": key, "clicked_at": at, "clicks": 7, "referrer": "late"}])
    key, at = shown[2]
    gone = {"request": key, "clicked_at": at + timedelta(hours=1), "_hoodie_is_deleted": True}
    _write(table, "click", [gone])


def _write(table: LakehouseTable, stream: str, rows: list[dict[str, Any]]) -> None:
    named = [one for one in _SCHEMA if any(one.name in row for row in rows)]
    batch = pa.Table.from_pylist(rows, schema=pa.schema(named))
    table.write(batch, stream=stream, options=_OPTIONS | {"sluice.writer.name": stream})
