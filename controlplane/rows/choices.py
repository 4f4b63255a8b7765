"""What a person chooses rows by: moments of a table and its columns, from the mirror alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import OuterRef, Subquery

from controlplane.mirror.models import InstantRecord, SchemaRecord
from controlplane.rows.answers import RowColumn
from controlplane.tables.masks import masks_part
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from controlplane.tables.row_access import RowAccess
from workers.errors import LakehouseError
from workers.schema.table_schema import TableSchema
from workers.sql.type_names import name_of_type

MOMENTS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMoment:
    """When a write became visible, and whose it was."""

    instant: str
    completed_at: str
    writer: str
    stream: str
    operation: str
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """The newest writes of a table, oldest first."""

    commits: list[CommitMoment]
    is_cut: bool
    """Whether there are older ones."""


def moments_of(table: Table) -> Moments:
    """One query, of 200 at most."""
    records = InstantRecord.objects.filter(
        table=table, action__in=DATA_ACTIONS, completed_at__isnull=False
    ).order_by("-completed_at")
    newest = [
        CommitMoment(
            instant=requested_at,
            completed_at=str(completed_at),
            writer=writer,
            stream=stream,
            operation=operation.lower(),
            rows=rows,
        )
        for requested_at, completed_at, writer, stream, operation, rows in records.values_list(
            "requested_at", "completed_at", "writer_name", "stream", "operation_type", "rows"
        )[: MOMENTS_MAX + 1]
    ]
    return Moments(commits=newest[:MOMENTS_MAX][::-1], is_cut=len(newest) > MOMENTS_MAX)


def commit_moment(table: Table, instant: str) -> CommitMoment | None:
    """The moment of one completed write; None where the mirror knows none."""
    record = InstantRecord.objects.filter(
        table=table, requested_at=instant, action__in=DATA_ACTIONS, completed_at__isnull=False
    ).first()
    if record is None:
        return None
    return CommitMoment(
        instant=record.requested_at,
        completed_at=str(record.completed_at),
        writer=record.writer_name,
        stream=record.stream,
        operation=record.operation_type.lower(),
        rows=record.rows,
    )


def columns_of_table(table: Table, access: RowAccess) -> list[RowColumn]:
    """As the mirror saw them last; none before the first schema, or where it cannot be read."""
    newest = SchemaRecord.objects.filter(table=table).order_by("-completed_at").first()
    if newest is None:
        return []
    hidden = access.masked if access.may_read or not access.masked else None
    return _columns(newest.avro, hidden)


def load_columns(masked: Mapping[int, frozenset[str]]) -> dict[int, list[RowColumn]]:
    """Return the columns of several tables by their keys, each with the paths that are masked in
    it. A table without a schema is left out. One query.
    """
    newest = SchemaRecord.objects.filter(table=OuterRef("table")).order_by("-completed_at")
    records = SchemaRecord.objects.filter(
        table__in=masked, pk=Subquery(newest.values("pk")[:1])
    ).values_list("table", "avro")
    return {key: _columns(avro, masked[key]) for key, avro in records}


def _columns(avro: Any, masked: frozenset[str] | None) -> list[RowColumn]:
    """`masked`: None where every column is. Empty for a schema that cannot be read."""
    try:
        arrow = TableSchema.from_avro(avro).arrow
    except (LakehouseError, KeyError, TypeError, ValueError):
        return []
    return [
        RowColumn(
            name=field.name,
            type=name_of_type(field.type),
            is_masked=masked is None or masks_part(field.name, masked),
        )
        for field in arrow
    ]
