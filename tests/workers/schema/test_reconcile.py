"""The writer schema of a batch, and the batch made to fit it."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from workers.errors import BadRows, InvalidInput
from workers.files.meta_columns import META_COLUMNS
from workers.schema.equality import equal
from workers.schema.reconcile import conform, reconcile
from workers.schema.table_schema import TableSchema


def schema(**columns: pa.DataType) -> TableSchema:
    fields = [pa.field(name, found) for name, found in columns.items()]
    return TableSchema.from_arrow(pa.schema(fields), table_name="t")


def foreign(*fields: dict[str, Any]) -> TableSchema:
    """As another writer spelled it: required columns, docs, defaults."""
    avro = {"type": "record", "name": "t_record", "namespace": "hoodie.t", "fields": fields}
    return TableSchema.from_avro_json(json.dumps(avro))


TABLE = schema(id=pa.string(), ts=pa.int64(), city=pa.string())


def test_the_first_batch_decides_the_schema() -> None:
    assert reconcile(None, TABLE) == TABLE


def test_a_batch_of_the_tables_columns_changes_nothing_in_whatever_order_they_come() -> None:
    batch = schema(city=pa.large_string(), id=pa.string(), ts=pa.int32())

    assert reconcile(TABLE, batch) is TABLE


def test_a_stream_that_writes_few_columns_never_narrows_the_table() -> None:
    assert reconcile(TABLE, schema(id=pa.string(), ts=pa.int64())) is TABLE


def test_new_columns_go_to_the_end_in_the_batchs_order() -> None:
    batch = schema(z=pa.int32(), id=pa.string(), b=pa.decimal128(9, 2))

    reconciled = reconcile(TABLE, batch)

    assert reconciled.field_names == ("id", "ts", "city", "z", "b")
    assert equal(
        reconciled,
        schema(
            id=pa.string(), ts=pa.int64(), city=pa.string(), z=pa.int32(), b=pa.decimal128(9, 2)
        ),
    )


def test_two_streams_that_add_the_same_column_arrive_at_one_schema() -> None:
    from_spark = reconcile(TABLE, schema(clicks=pa.int64()))
    from_pandas = reconcile(TABLE, schema(id=pa.large_string(), clicks=pa.int64()))

    assert from_spark == from_pandas


@pytest.mark.parametrize(
    ("table", "batch", "result"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int64(), pa.int32(), pa.int64()),
        (pa.int32(), pa.float64(), pa.float64()),
        (pa.float64(), pa.int32(), pa.float64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(7, 3), pa.decimal128(7, 3)),
        (pa.decimal128(5, 2), pa.decimal128(5, 4), pa.decimal128(7, 4)),
        (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), pa.list_(pa.int64())),
        (
            pa.map_(pa.string(), pa.float32()),
            pa.map_(pa.string(), pa.float64()),
            pa.map_(pa.string(), pa.float64()),
        ),
        (
            pa.struct([("a", pa.int32()), ("b", pa.string())]),
            pa.struct([("c", pa.bool_()), ("a", pa.int64())]),
            pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.bool_())]),
        ),
    ],
    ids=str,
)
def test_a_column_widens_to_the_least_type_that_loses_nothing(
    table: pa.DataType, batch: pa.DataType, result: pa.DataType
) -> None:
    reconciled = reconcile(schema(id=pa.string(), n=table), schema(n=batch))

    assert equal(reconciled, schema(id=pa.string(), n=result))


@pytest.mark.parametrize(
    ("table", "batch"),
    [
        (pa.int64(), pa.float64()),
        (pa.float32(), pa.int32()),
        (pa.int64(), pa.float32()),
        (pa.string(), pa.int32()),
        (pa.int32(), pa.string()),
        (pa.string(), pa.binary()),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us")),
        (pa.timestamp("us", "UTC"), pa.int64()),
        (pa.date32(), pa.timestamp("us")),
        (pa.decimal128(38, 0), pa.decimal128(5, 2)),
        (pa.int32(), pa.list_(pa.int32())),
        (pa.list_(pa.int64()), pa.list_(pa.string())),
        (pa.struct([("a", pa.int32())]), pa.struct([("A", pa.int32())])),
    ],
    ids=str,
)
def test_types_without_a_lossless_common_one_are_refused_with_the_columns_name(
    table: pa.DataType, batch: pa.DataType
) -> None:
    with pytest.raises(InvalidInput, match="column=n"):
        reconcile(schema(id=pa.string(), n=table), schema(n=batch))


def test_widening_does_not_depend_on_who_was_first() -> None:
    pool: list[pa.DataType] = [pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()]
    pool += [pa.decimal128(5, 2), pa.decimal128(7, 3), pa.decimal128(4, 4)]

    def joined(left: pa.DataType, right: pa.DataType) -> TableSchema | None:
        try:
            return reconcile(schema(n=left), schema(n=right))
        except InvalidInput:
            return None

    for left, right in itertools.product(pool, pool):
        right_into_left, left_into_right = joined(left, right), joined(right, left)
        assert (right_into_left is None) == (left_into_right is None), (left, right)
        if right_into_left is not None and left_into_right is not None:
            assert equal(right_into_left, left_into_right), (left, right)


def test_columns_that_differ_only_by_case_are_refused_wherever_they_meet() -> None:
    for table in (None, TABLE):
        with pytest.raises(InvalidInput, match="only by case"):
            reconcile(table, schema(Mail=pa.string(), mail=pa.string()))
    with pytest.raises(InvalidInput, match="column=City"):
        reconcile(TABLE, schema(City=pa.string()))


def test_a_batch_without_columns_is_refused() -> None:
    for table in (None, TABLE):
        with pytest.raises(InvalidInput, match="no columns"):
            reconcile(table, schema())


def test_evolution_switched_off_refuses_new_columns_and_wider_types_only() -> None:
    assert reconcile(TABLE, schema(ts=pa.int32()), evolution=False) is TABLE
    with pytest.raises(InvalidInput, match="column=extra"):
        reconcile(TABLE, schema(extra=pa.int32()), evolution=False)
    with pytest.raises(InvalidInput, match="column=n"):
        reconcile(schema(n=pa.int32()), schema(n=pa.int64()), evolution=False)


def test_a_key_or_ordering_column_keeps_its_type() -> None:
    table = schema(id=pa.int32(), n=pa.int32())

    assert reconcile(table, schema(n=pa.int64()), pinned=["id"]).arrow.field("n").type == pa.int64()
    with pytest.raises(InvalidInput, match="column=id"):
        reconcile(table, schema(id=pa.int64()), pinned=["id"])
    wide = schema(id=pa.int64())
    assert reconcile(wide, schema(id=pa.int32()), pinned=["id"]) is wide


def test_what_another_writer_said_about_a_column_survives_the_widening_of_it() -> None:
    table = foreign(
        {"name": "id", "type": "string", "doc": "the key"},
        {"name": "n", "type": ["int", "null"], "default": 7, "doc": "how many"},
    )

    reconciled = reconcile(table, schema(id=pa.string(), n=pa.int64()))

    assert reconciled.to_avro()["fields"] == [
        {"name": "id", "type": "string", "doc": "the key"},
        {"name": "n", "type": ["long", "null"], "default": 7, "doc": "how many"},
    ]


def test_a_new_column_that_old_rows_cannot_have_is_refused() -> None:
    with pytest.raises(InvalidInput, match="required"):
        reconcile(TABLE, foreign({"name": "must", "type": "int"}))


def test_a_batch_is_ordered_widened_and_filled_with_typed_nulls() -> None:
    batch = pa.table({"ts": pa.array([1], pa.int32()), "id": pa.array(["a"], pa.large_string())})

    conformed = conform(batch, TABLE)

    assert conformed.schema == TABLE.arrow
    assert conformed.to_pylist() == [{"id": "a", "ts": 1, "city": None}]


def test_a_record_batch_will_do() -> None:
    batch = pa.RecordBatch.from_pydict({"id": ["a"], "ts": [1], "city": ["Oslo"]})

    assert conform(batch, TABLE).to_pylist() == [{"id": "a", "ts": 1, "city": "Oslo"}]


def test_a_narrow_stream_gets_its_own_columns_only() -> None:
    batch = pa.table({"city": ["Oslo"], "ts": [1], "id": ["a"]})

    assert conform(batch, TABLE, columns=["ts", "id"]).to_pylist() == [{"id": "a", "ts": 1}]
    assert conform(batch, TABLE, columns=["id", "city"]).column_names == ["id", "city"]


def test_meta_columns_of_rows_that_were_read_from_a_table_are_dropped() -> None:
    batch = pa.table({**{name: ["x"] for name in META_COLUMNS}, "id": ["a"]})

    assert conform(batch, TABLE).column_names == ["id", "ts", "city"]


def test_arrow_metadata_of_a_batch_is_gone() -> None:
    noisy = pa.schema(
        [pa.field("id", pa.string(), metadata={"PARQUET:field_id": "1"})], metadata={"pandas": "{}"}
    )

    conformed = conform(pa.table({"id": ["a"]}, schema=noisy), TABLE)

    assert conformed.schema.equals(TABLE.arrow, check_metadata=True)


UTC = dt.UTC


@pytest.mark.parametrize(
    ("values", "target", "expected"),
    [
        (pa.array([1], pa.int32()), pa.float64(), 1.0),
        (pa.array([1.5], pa.float32()), pa.float64(), 1.5),
        (pa.array([Decimal("1.10")]), pa.decimal128(9, 4), Decimal("1.1000")),
        (pa.array([1_500_000], pa.timestamp("ns", "UTC")), pa.timestamp("us", "UTC"), None),
        (
            pa.array([dt.datetime(2026, 1, 1, 12, tzinfo=UTC)], pa.timestamp("us", "Asia/Tokyo")),
            pa.timestamp("us", "UTC"),
            dt.datetime(2026, 1, 1, 12, tzinfo=UTC),
        ),
        (pa.array(["x"]).dictionary_encode(), pa.string(), "x"),
        (pa.array([b"ab"], pa.binary(2)), pa.binary(), b"ab"),
        (pa.array([[1, 2]], pa.list_(pa.int32(), 2)), pa.list_(pa.int64()), [1, 2]),
        (pa.nulls(1), pa.list_(pa.int64()), None),
        (
            pa.array([{"b": "x", "a": 1}]),
            pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.bool_())]),
            {"a": 1, "b": "x", "c": None},
        ),
        (
            pa.array([[{"a": 1}]], pa.list_(pa.struct([("a", pa.int32())]))),
            pa.list_(pa.struct([("z", pa.string()), ("a", pa.int64())])),
            [{"z": None, "a": 1}],
        ),
    ],
    ids=lambda value: str(getattr(value, "type", value))[:40],
)
def test_values_arrive_unchanged_in_the_tables_type(
    values: Any, target: pa.DataType, expected: Any
) -> None:
    column = conform(pa.table({"n": values}), schema(n=target)).column("n")

    assert column.type == target
    if expected is not None:
        assert column.to_pylist() == [expected]


@pytest.mark.parametrize(
    ("values", "target"),
    [
        (pa.array([2**31], pa.int64()), pa.int32()),
        (pa.array([2**53 + 1]), pa.float64()),
        (pa.array([0.1]), pa.float32()),
        (pa.array(["1"]), pa.int32()),
        (pa.array([1]), pa.string()),
        (pa.array([1_500], pa.timestamp("ns", "UTC")), pa.timestamp("us", "UTC")),
        (pa.array([1], pa.timestamp("us")), pa.timestamp("us", "UTC")),
        (pa.array([Decimal("1.105")]), pa.decimal128(9, 2)),
        (pa.array([{"a": 1, "lost": 2}]), pa.struct([("a", pa.int64())])),
    ],
    ids=lambda value: str(getattr(value, "type", value))[:40],
)
def test_a_value_that_would_be_lost_or_changed_is_refused(values: Any, target: pa.DataType) -> None:
    with pytest.raises(InvalidInput, match="column=n"):
        conform(pa.table({"n": values}), schema(n=target))


def test_rows_that_do_not_fit_are_named_with_their_column() -> None:
    chunks = [pa.array(values, pa.timestamp("ns", "UTC")) for values in ([0, 1], [1_000, 1_500])]

    with pytest.raises(BadRows, match=r"column=n .*rows=2 first_rows=\[1, 3\]") as refused:
        conform(pa.table({"n": pa.chunked_array(chunks)}), schema(n=pa.timestamp("us", "UTC")))

    assert refused.value.positions == (1, 3)


def test_rows_that_lack_what_the_table_requires_are_named() -> None:
    table = foreign({"name": "n", "type": "long"})

    with pytest.raises(BadRows, match="required column holds null") as refused:
        conform(pa.table({"n": pa.array([1, None, 3, None], pa.int64())}), table)

    assert refused.value.positions == (1, 3)


def test_a_column_that_the_table_has_not_is_refused() -> None:
    batch = pa.table({"id": ["a"], "extra": [1]})

    with pytest.raises(InvalidInput, match="column=extra"):
        conform(batch, TABLE)
    with pytest.raises(InvalidInput, match="column=nowhere"):
        conform(batch.select(["id"]), TABLE, columns=["id", "nowhere"])


def test_what_another_writer_requires_must_be_there_or_have_a_default() -> None:
    table = foreign({"name": "id", "type": "string"}, {"name": "n", "type": "int", "default": 7})

    assert conform(pa.table({"id": ["a"]}), table).to_pylist() == [{"id": "a", "n": 7}]
    with pytest.raises(InvalidInput, match="column=id"):
        conform(pa.table({"n": [1]}), table)
    with pytest.raises(InvalidInput, match="column=id"):
        conform(pa.table({"id": pa.array([None], pa.string())}), table)
