"""A table's schema as one value: Avro JSON as in commit metadata, Arrow as in memory.

Meta columns are never part of it; `with_meta_avro` adds them for file footers and block headers.
Comparing two TableSchemas with `==` compares texts: whether two schemas mean the same is
`equality.equal`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from workers.errors import InvalidInput
from workers.files.avro_schema import Struct, arrow_fields, parse_record, record_of_json
from workers.files.meta_columns import META_COLUMNS
from workers.schema.from_arrow import avro_field, has_no_value

DROPPED_KEY = "sluice.dropped"
"""A property of the record; other engines pass over it."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The data columns of a table. `arrow` has all of them optional, `declared` as they are."""

    avro_json: str
    """Canonical: compact, without meta columns. Use `from_avro_json` for any other text."""
    arrow: pa.Schema = field(init=False, compare=False, repr=False)
    tree: Struct = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        tree, arrow = _parse(self.avro_json)
        object.__setattr__(self, "tree", tree)
        object.__setattr__(self, "arrow", arrow)

    @classmethod
    def from_avro_json(cls, text: str) -> TableSchema:
        """Parse the schema in the text of commit metadata, without its meta columns. Raises
        MalformedTable, UnsupportedTable.
        """
        return cls.from_avro(record_of_json(text))

    @classmethod
    def from_avro(cls, avro: dict[str, Any]) -> TableSchema:
        """Build the schema of a record of commit metadata, without its meta columns. Raises
        MalformedTable, UnsupportedTable.
        """
        fields = [column for column in avro["fields"] if _name(column) not in META_COLUMNS]
        return cls(json.dumps({**avro, "fields": fields}, separators=(",", ":")))

    @classmethod
    def from_arrow(cls, schema: pa.Schema, *, table_name: str) -> TableSchema:
        """Build the schema of these columns without meta columns and without those that have no
        value in any row, its record named after the table as Hudi does. Raises InvalidInput naming
        the column whose name or type the format cannot hold.
        """
        if repeated := find_repeated_names(schema.names):
            raise InvalidInput("two columns have one name", column=repeated[0])
        columns = [
            column
            for column in schema
            if column.name not in META_COLUMNS and not has_no_value(column.type)
        ]
        avro_name = re.sub(r"[^A-Za-z0-9_]", "_", table_name)
        record, namespace = f"{avro_name}_record", f"hoodie.{avro_name}"
        fields = [avro_field(column, parent=f"{namespace}.{record}") for column in columns]
        return cls.from_avro(
            {"type": "record", "name": record, "namespace": namespace, "fields": fields}
        )

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of the data columns, in the table's order."""
        return tuple(column.name for column in self.tree.fields)

    @property
    def declared(self) -> pa.Schema:
        """The schema `arrow` with required columns marked as not nullable."""
        return pa.schema(
            [
                column.with_nullable(field.place.is_nullable)
                for column, field in zip(self.arrow, self.tree.fields, strict=True)
            ]
        )

    @property
    def record_name(self) -> str:
        """Full name of the record, which the names of nested types begin with."""
        avro = self.to_avro()
        return f"{avro['namespace']}.{avro['name']}" if avro.get("namespace") else avro["name"]

    @property
    def dropped(self) -> tuple[str, ...]:
        """Names, in lower case, of columns that were dropped while data files may hold them."""
        return tuple(map(str, self.to_avro().get(DROPPED_KEY, ())))

    def with_dropped(self, names: Collection[str]) -> TableSchema:
        """Return the schema with exactly these dropped columns; itself if it has them already."""
        if set(names) == set(self.dropped):
            return self
        avro = {key: value for key, value in self.to_avro().items() if key != DROPPED_KEY}
        properties = {DROPPED_KEY: sorted(names)} if names else {}
        return TableSchema.from_avro({**avro, **properties})

    def without_dropped(self, names: Collection[str]) -> TableSchema:
        """Return the schema without these dropped columns, once no data file contains them."""
        return self.with_dropped([name for name in self.dropped if name not in names])

    def to_avro(self) -> dict[str, Any]:
        """Return a new dict, which the caller may change."""
        avro: dict[str, Any] = json.loads(self.avro_json)
        return avro

    def with_meta_avro(self) -> dict[str, Any]:
        """Return `to_avro` with Hudi's five meta columns first, all optional texts."""
        avro = self.to_avro()
        meta = [
            {"name": name, "type": ["null", "string"], "doc": "", "default": None}
            for name in META_COLUMNS
        ]
        return {**avro, "fields": [*meta, *avro["fields"]]}

    def select(self, columns: Collection[str]) -> TableSchema:
        """Return these columns only, in the table's order: the schema of a narrow block.

        Raises InvalidInput for a column that is not in the table.
        """
        chosen_names = set(columns)
        if unknown := chosen_names - set(self.field_names):
            raise InvalidInput("table has no such column", column=min(unknown))
        avro = self.to_avro()
        return TableSchema.from_avro(
            {
                **avro,
                "fields": [column for column in avro["fields"] if column["name"] in chosen_names],
            }
        )


@lru_cache(maxsize=32)
def _parse(avro_json: str) -> tuple[Struct, pa.Schema]:
    """Return the tree and the Arrow schema. Nearly all commits of a table carry the same text."""
    tree = parse_record(json.loads(avro_json))
    return tree, pa.schema(arrow_fields(tree.fields))


def find_repeated_names(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, sorted."""
    return sorted(name for name, times in Counter(names).items() if times > 1)


def _name(field: Any) -> Any:
    return field.get("name") if isinstance(field, dict) else None
