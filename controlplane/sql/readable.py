"""Which tables of the register a person may name in SQL, and what of each is masked for him."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.mirror.models import SchemaRecord
from controlplane.sql.errors import SqlRefused
from controlplane.tables.access import Caller, visible_tables
from controlplane.tables.locations import checked_location
from controlplane.tables.masks import masks_part
from controlplane.tables.models import Table
from controlplane.tables.row_access import RowAccess, row_access
from workers.schema.table_schema import TableSchema
from workers.sql.checking import ReadableTable
from workers.sql.type_names import name_of_type


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table of the register by the name that a statement has for it."""

    row: Table
    access: RowAccess

    @property
    def location(self) -> str:
        """Where it is. Raises InvalidRequest when it lies under no configured root any more."""
        return checked_location(self.row.location)


@dataclass(slots=True)
class ReadableTables:
    """The register as SQL of one person sees it; what `check_select` asks.

    A table goes by its slug, or by namespace and slug with a dot between them. One that the person
    does not see is not there. Raises PermissionDenied for one whose rows he may not read,
    SqlRefused for one of which no schema is known.
    """

    user: Caller
    named: dict[str, NamedTable] = field(default_factory=dict)
    """What statements named so far."""

    def __call__(self, names: frozenset[str]) -> Mapping[str, ReadableTable]:
        slugs = {name.rpartition(".")[2] for name in names}
        tables = {table.slug: table for table in visible_tables(self.user).filter(slug__in=slugs)}
        readable = {}
        for name in sorted(names):
            namespace, dot, slug = name.rpartition(".")
            table = tables.get(slug)
            if table is None or (dot and table.namespace != namespace):
                continue
            access = row_access(self.user, table)
            access.check()
            self.named[name] = NamedTable(table, access)
            readable[name] = _readable(table, access)
        return readable


def _readable(table: Table, access: RowAccess) -> ReadableTable:
    newest = SchemaRecord.objects.filter(table=table).order_by("-completed_at").first()
    if newest is None:
        raise SqlRefused(
            "the table has no known schema yet: retry after its first sync", table=table.slug
        )
    arrow = TableSchema.from_avro(newest.avro).arrow
    columns = {column.name: name_of_type(column.type) for column in arrow}
    return ReadableTable(columns, lambda path: masks_part(path, access.masked))
