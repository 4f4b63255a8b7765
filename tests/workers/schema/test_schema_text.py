"""What stands in the text of a schema, for readers that go by it alone: Avro fills up a field that
a file lacks from its default, and refuses the file where there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from workers.schema.alter import AddColumn, apply_changes
from workers.schema.table_schema import TableSchema

INNER = pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string(), nullable=False)])
FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("city", pa.string()),
    pa.field("price", pa.decimal128(9, 2)),
    pa.field("place", INNER),
    pa.field("visits", pa.list_(INNER)),
    pa.field("tags", pa.map_(pa.string(), INNER)),
]
DEEP = pa.schema(FIELDS)


@pytest.mark.parametrize("with_meta", [False, True])
def test_optional_fields_of_every_level_have_null_as_their_default(with_meta: bool) -> None:
    schema = TableSchema.from_arrow(DEEP, table_name="t")
    avro = schema.with_meta_avro() if with_meta else schema.to_avro()

    optional = [field for field in _fields(avro) if "null" in field["type"]]

    assert len(optional) == 8 + 5 * with_meta
    assert [field for field in optional if field.get("default", "none") is not None] == []
    assert [field for field in optional if field["type"][0] != "null"] == []


@pytest.mark.parametrize(
    ("kind", "default"), [(pa.int32(), 5), (pa.string(), ""), (pa.bool_(), False)], ids=str
)
def test_an_added_required_column_has_its_default_in_the_text(
    kind: pa.DataType, default: Any
) -> None:
    schema = TableSchema.from_arrow(DEEP, table_name="t")

    after = apply_changes(
        schema, [AddColumn("new", kind, is_nullable=False, default=default)], pinned=["id"]
    )

    assert after.to_avro()["fields"][-1]["default"] == default
    assert TableSchema.from_avro_json(after.avro_json).to_avro() == after.to_avro()


def _fields(avro: Any) -> Iterator[dict[str, Any]]:
    """Of records at any depth."""
    for part in avro if isinstance(avro, list) else [avro]:
        if isinstance(part, dict):
            for field in part.get("fields", []):
                yield field
                yield from _fields(field["type"])
            for nested in ("items", "values"):
                yield from _fields(part.get(nested))
