"""The demo's calm table: a price list with a good load, and one that made all of it dearer.
A hundred times dearer: what a rollback is for.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from django.conf import settings
from django.contrib.auth.models import User

from controlplane.audit.actions import do_record
from controlplane.demo.upkeep import delete_files
from controlplane.mirror.sync import sync_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table as TableRow
from workers.clock import InstantTime, SystemClock
from workers.errors import TableNotFound
from workers.lakehouse import LakehouseTable, create_table, open_table

NAME: Final = "price_list"
SLUG: Final = "price-list"
_COUNTRIES: Final = ("no", "de", "pe")
_PRODUCTS: Final = 90
_COLUMNS: Final[dict[str, pa.DataType]] = {
    "product": pa.string(),
    "country": pa.string(),
    "price": pa.float64(),
    "changed_at": pa.int64(),
}
_EMPTY_COMMITS: Final = 1
"""A new table begins with one."""
_GOOD, _BAD = "prices-nightly", "prices-in-cents"


def do_load_wrong_prices(by: User) -> tuple[TableRow, InstantTime]:
    """Write the wrong load, on top of a good one, and let the mirror see it; its instant.

    Raises ControlPlaneError, LakehouseError.
    """
    table = _opened()
    row = TableRow.objects.filter(location=table.location).first() or do_register_table(
        location=table.location, slug=SLUG, name=NAME, by=by
    )
    if len(table.table.timeline().list_completed_writes()) <= _EMPTY_COMMITS:
        table.write(_prices(1.0), options=_options(_GOOD))
    table.write(_prices(100.0), options=_options(_BAD))
    sync_table(row)
    wrong = table.table.timeline().list_completed_writes()[-1].requested_at
    do_record(
        who=by.get_username(),
        what="demo.load_wrong_prices",
        subject=row.slug,
        result="succeeded",
        details={"instant": wrong},
    )
    return row, wrong


def delete_prices() -> None:
    """Delete the table with its files. Raises StorageFailed."""
    TableRow.objects.filter(location=table_location()).delete()
    delete_files(table_location())


def table_location() -> str:
    return f"{settings.SLUICE_TABLE_ROOTS[0]}/{NAME}"


def _opened() -> LakehouseTable:
    try:
        return open_table(table_location())
    except TableNotFound:
        return create_table(
            table_location(),
            name=NAME,
            schema=pa.schema(_COLUMNS),
            record_key=["product"],
            partition_by=["country"],
            ordering=["changed_at"],
        )


def _options(writer: str) -> dict[str, str]:
    return {"sluice.writer.name": writer, "hoodie.write.markers.type": "direct"}


def _prices(factor: float) -> pa.Table:
    now_ms = SystemClock().now_ms()
    rows = [
        {
            "product": f"p-{number:03d}",
            "country": _COUNTRIES[number % len(_COUNTRIES)],
            "price": round((5 + number * 1.7) * factor, 2),
            "changed_at": now_ms,
        }
        for number in range(_PRODUCTS)
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(_COLUMNS))
