"""Sums over the rows of the mirror, by table and kind: whether they are still as they were written.

Each row counts by a hash of all its columns, so that a row which was changed, deleted or added by
anybody but the sync makes another sum. The database computes them; tables in bulk, no query each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from django.apps import apps
from django.db import connection, models

from controlplane.mirror.models import (
    FileGroupRecord,
    FileTotals,
    HeartbeatRecord,
    InstantRecord,
    LeftOutFiles,
    LockRecord,
    MarkerCount,
    MarkerDirectory,
    SchemaRecord,
    SinkParticipant,
    SinkRecord,
    UndoneRecord,
)
from controlplane.tables.models import Table

HISTORY: Final = "history"
"""Of archived instants, which may be very many: summed by range, see `history_sum`."""
OF_LISTING: Final = (
    *("instants", "undone", "schemas", "files", "left_out_files", "file_totals", "conflicts"),
)
OF_CLAIMS: Final = ("table", "heartbeats", "markers", "directories", "lock")
OF_BOTH: Final = ("sinks", "participants")
KINDS: Final = (*OF_LISTING, HISTORY, *OF_CLAIMS, *OF_BOTH)
_NO_PROJECTION: Final = frozenset(
    {
        *("slug", "name", "namespace", "location", "registered_at", "registered_by"),
        *("synced_at", "sync_error", "owner", "tags", "description"),
    }
)
"""Columns of a table that people fill in, or that every look writes."""
_HASH_BYTES: Final = 5
"""SQLite sums in 64 bits."""


@dataclass(frozen=True, slots=True)
class RowSum:
    rows: int = 0
    hashes: int = 0

    @property
    def text(self) -> str:
        return f"{self.rows}:{self.hashes}"

    def __add__(self, other: RowSum) -> RowSum:
        return RowSum(self.rows + other.rows, self.hashes + other.hashes)

    def __sub__(self, other: RowSum) -> RowSum:
        return RowSum(self.rows - other.rows, self.hashes - other.hashes)


def parsed(text: str) -> RowSum:
    rows, _, hashes = text.partition(":")
    return RowSum(int(rows), int(hashes))


def row_sums(tables: Collection[int], kinds: Iterable[str] = KINDS) -> dict[int, dict[str, RowSum]]:
    """By table's key and kind; a kind that has no rows is an empty sum. One query."""
    wanted = tuple(kinds)
    sums = {table: dict.fromkeys(wanted, RowSum()) for table in tables}
    statement = " UNION ALL ".join(_select(kind) for kind in wanted)
    for kind, table, rows, hashes in _rows(statement, [list(tables)] * len(wanted)):
        sums[table][kind] = RowSum(rows, int(hashes))
    return sums


def history_sum(table: Table, first: str, last: str) -> RowSum:
    """The sum over the archived instants that were requested from `first` to `last`."""
    statement = _select(HISTORY, "AND r.requested_at >= %s AND r.requested_at <= %s")
    for _, _, rows, hashes in _rows(statement, [[table.pk], first, last]):
        return RowSum(rows, int(hashes))
    return RowSum()


def models_of() -> Mapping[str, type[models.Model]]:
    """By kind. Conflicts belong to an app above the mirror, so their model is asked for by name."""
    return {
        "instants": InstantRecord,
        HISTORY: InstantRecord,
        "undone": UndoneRecord,
        "schemas": SchemaRecord,
        "files": FileGroupRecord,
        "left_out_files": LeftOutFiles,
        "file_totals": FileTotals,
        "conflicts": apps.get_model("writers", "Conflict"),
        "table": Table,
        "heartbeats": HeartbeatRecord,
        "markers": MarkerCount,
        "directories": MarkerDirectory,
        "lock": LockRecord,
        "sinks": SinkRecord,
        "participants": SinkParticipant,
    }


def _select(kind: str, condition: str = "") -> str:
    model = models_of()[kind]
    owner = {"table": "r.id", "participants": "s.table_id"}.get(kind, "r.table_id")
    joined = f"{model._meta.db_table} r"
    if kind == "participants":
        joined += f" JOIN {SinkRecord._meta.db_table} s ON s.id = r.sink_id"
    if kind in ("instants", HISTORY):
        condition += " AND r.is_archived" if kind == HISTORY else " AND NOT r.is_archived"
    columns = ", ".join(
        f'r."{field.column}"'
        for field in model._meta.concrete_fields
        if kind != "table" or field.name not in _NO_PROJECTION
    )
    if connection.vendor == "postgresql":
        hashed, among = f"hashtextextended(ROW({columns})::text, 0)", f"{owner} = ANY(%s)"
    else:
        hashed = f"sluice_row_hash({columns})"
        among = f"{owner} IN (SELECT value FROM json_each(%s))"  # noqa: S608
    # Of names in the models alone; keys and times are parameters.
    return (
        f"SELECT '{kind}', {owner}, COUNT(*), SUM({hashed}) FROM {joined} "  # noqa: S608
        f"WHERE {among} {condition} GROUP BY {owner}"
    )


def _rows(statement: str, parameters: list[Any]) -> list[tuple[str, int, int, Any]]:
    if connection.vendor != "postgresql":
        parameters = [str(one) if isinstance(one, list) else one for one in parameters]
        connection.ensure_connection()
        connection.connection.create_function("sluice_row_hash", -1, _hashed, deterministic=True)
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        rows: list[tuple[str, int, int, Any]] = cursor.fetchall()
    return rows


def _hashed(*columns: object) -> int:
    return int.from_bytes(blake2b(repr(columns).encode(), digest_size=_HASH_BYTES).digest())
