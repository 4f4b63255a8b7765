"""Alters as pure functions over schemas: spelling, what was dropped, names after renames."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tests.support.scenario_table import schema_of
from workers.errors import InvalidInput
from workers.schema.alter import (
    AddColumn,
    DropColumn,
    RelaxColumn,
    RenameColumn,
    WidenColumn,
    apply_changes,
    get_renames,
)
from workers.schema.equality import equal
from workers.schema.reconcile import reconcile
from workers.schema.table_schema import TableSchema

ARROW = schema_of(id=pa.int64(), a=pa.int32(), b=pa.string())
SCHEMA = TableSchema.from_arrow(ARROW, table_name="t")
REQUIRED = TableSchema.from_avro_json(
    json.dumps(
        {
            "type": "record",
            "name": "t_record",
            "namespace": "hoodie.t",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "a", "type": "int", "doc": "kept"},
                {"name": "b", "type": "int", "default": 7},
            ],
        }
    )
)


def batch(**types: pa.DataType) -> TableSchema:
    return TableSchema.from_arrow(pa.schema(types), table_name="t")


def test_changes_are_made_in_their_order() -> None:
    altered_schema = apply_changes(
        SCHEMA,
        [AddColumn("c", pa.int32()), WidenColumn("c", pa.int64()), RenameColumn("c", "d")],
        pinned=["id"],
    )

    wanted = pa.schema([*ARROW, pa.field("d", pa.int64())])
    assert equal(altered_schema, TableSchema.from_arrow(wanted, table_name="t"))


def test_dropped_names_travel_with_the_schema_through_later_batches() -> None:
    dropped = apply_changes(SCHEMA, [DropColumn("b")], pinned=["id"])

    later = reconcile(dropped, batch(id=pa.int64(), new=pa.string()))

    assert later.field_names == ("id", "a", "new")
    assert later.dropped == ("b",)
    assert equal(dropped, batch(id=pa.int64(), a=pa.int32()))
    with pytest.raises(InvalidInput, match="was dropped"):
        reconcile(later, batch(id=pa.int64(), B=pa.string()))
    assert later.without_dropped(["b"]).dropped == ()


def test_required_column_is_relaxed_with_its_default_and_doc_kept() -> None:
    altered_schema = apply_changes(REQUIRED, [RelaxColumn("a"), RelaxColumn("b")], pinned=["id"])

    a, b = altered_schema.to_avro()["fields"][1:]
    assert a == {"name": "a", "type": ["null", "int"], "doc": "kept", "default": None}
    assert b == {"name": "b", "type": ["int", "null"], "default": 7}


def test_widened_required_column_stays_required() -> None:
    altered_schema = apply_changes(REQUIRED, [WidenColumn("a", pa.int64())], pinned=["id"])

    assert altered_schema.to_avro()["fields"][1] == {"name": "a", "type": "long", "doc": "kept"}


def test_names_after_several_renames_are_the_last_ones() -> None:
    changes = [RenameColumn("a", "x"), RenameColumn("x", "y"), RenameColumn("b", "a")]

    assert get_renames(changes) == {"a": "y", "b": "a"}


def test_last_column_cannot_be_dropped() -> None:
    with pytest.raises(InvalidInput, match="at least one column"):
        apply_changes(batch(a=pa.int32()), [DropColumn("a")], pinned=[])


def test_no_change_at_all_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one change"):
        apply_changes(SCHEMA, [], pinned=["id"])
