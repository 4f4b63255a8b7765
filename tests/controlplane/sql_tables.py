"""Tables for SQL: two that one person may read, of one of which columns are masked, and one of
another namespace that he must never see.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from django.contrib.auth.models import User

from controlplane.accounts.models import Grant
from controlplane.mirror.sync import sync_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import READS_ROWS, MaskedColumn, RowGrant, Table
from workers import create_table

CANARY: Final = "canary-4711"
ORDERS: Final[list[dict[str, Any]]] = [
    {"id": 1, "city": "Oslo", "amount": 10.5, "day": "2026-01-01"},
    {"id": 2, "city": "Bergen", "amount": 20.0, "day": "2026-01-02"},
    {"id": 3, "city": "Oslo", "amount": 4.5, "day": "2026-02-01"},
    {"id": 4, "city": None, "amount": None, "day": "2026-02-02"},
]
PEOPLE: Final[list[dict[str, Any]]] = [
    {"id": 1, "city": "Oslo", "ssn": CANARY, "home": {"street": CANARY, "zip": 150}},
    {"id": 2, "city": "Turku", "ssn": None, "home": {"street": CANARY, "zip": 20100}},
]
_COUNTED: list[pa.Field[Any]] = [pa.field("id", pa.int64()), pa.field("city", pa.string())]
_ORDERS = pa.schema([*_COUNTED, pa.field("amount", pa.float64()), pa.field("day", pa.string())])
_HOME = pa.struct([pa.field("street", pa.string()), pa.field("zip", pa.int32())])
_PEOPLE = pa.schema([*_COUNTED, pa.field("ssn", pa.string()), pa.field("home", _HOME)])


@dataclass(frozen=True, slots=True)
class SqlTables:
    pia: User
    orders: Table
    people: Table
    payroll: Table


@pytest.fixture
def sql_tables(root: Path, admin: User) -> SqlTables:
    """`pia` reads rows of `default.orders` and `default.people`, of which `ssn` and `home.street`
    are masked; `secret.payroll` is none of her business.
    """
    orders = _table(root, admin, "orders", _ORDERS, ORDERS)
    people = _table(root, admin, "people", _PEOPLE, PEOPLE)
    payroll = _table(root, admin, "payroll", _ORDERS, ORDERS, namespace="secret")
    for path in ("ssn", "home.street"):
        MaskedColumn.objects.create(table=people, path=path)
    pia = User.objects.create_user("pia", password="a long password")
    for table in (orders, people):
        Grant.objects.create(user=pia, table=table, role="viewer", granted_by="a test")
        RowGrant.objects.create(user=pia, table=table, right=READS_ROWS, granted_by="a test")
    return SqlTables(pia, orders, people, payroll)


def _table(
    root: Path,
    admin: User,
    slug: str,
    schema: pa.Schema,
    rows: list[dict[str, Any]],
    *,
    namespace: str = "default",
) -> Table:
    created = create_table(root / slug, name=slug, schema=schema, record_key=["id"])
    created.write(pa.Table.from_pylist(rows, schema=schema))
    location = str(root / slug)
    row = do_register_table(location=location, slug=slug, name=slug, by=admin, namespace=namespace)
    sync_table(row)
    return row
