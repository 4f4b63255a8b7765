"""Exact conversion of Arrow columns to the types of a table."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from workers.errors import BadRows, InvalidInput
from workers.schema.conversion import can_fit, fit_column
from workers.schema.from_arrow import has_no_value, normal_type
from workers.schema.reconcile import select_changed_columns
from workers.schema.table_schema import TableSchema

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_FLOATS = (pa.float32(), pa.float64())
_DECIMALS = (pa.decimal128(5, 2), pa.decimal128(20, 0), pa.decimal128(38, 30), pa.decimal128(9, 9))
_TARGETS = (pa.int32(), pa.int64(), *_FLOATS, *_DECIMALS)


def fit(values: Any, target: pa.DataType) -> list[Any]:
    column = pa.chunked_array([values])
    assert can_fit(column.type, target), (column.type, target)
    result = fit_column(column, target, name="n")
    assert result.type == target
    result.validate(full=True)
    return result.to_pylist()


def make_numbers(kind: Any, dice: random.Random) -> list[Any]:
    """Numbers that this type holds, most of them near a border of another type."""
    borders = [0, 1, -1, 255, 2**15, 2**24, 2**31, 2**53, 2**63, 2**64 - 1, 10**20]
    near = [number + dice.randint(-2, 2) for number in borders]
    if pa.types.is_integer(kind):
        low, high = (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
        if kind in _UNSIGNED:
            low, high = 0, 2**kind.bit_width - 1
        return [number for number in (*near, low, high) if low <= number <= high]
    if pa.types.is_floating(kind):
        odd = [0.5, 0.1, 9.99, 1e-7, -2.25, 1e300, math.inf, -math.inf, math.nan]
        if kind == pa.float64():
            return [*map(float, near), *odd]
        return [np.float32(number) for number in (*near, *odd) if number != 1e300]
    texts = ["0", "9.99", "-1.5", "0.125", "0.000000001", *map(str, near)]
    with_digits = []
    for text in texts:
        value = Decimal(text)
        try:
            pa.array([value], kind)
        except pa.ArrowInvalid:
            continue
        with_digits.append(value)
    return with_digits


def is_equal(before: Any, after: Any, source: Any, target: Any) -> bool:
    """By exact fractions; a float and a decimal are the same when they are spelled alike."""
    if isinstance(before, float | np.floating) and math.isnan(before):
        return isinstance(after, float) and math.isnan(after)
    if isinstance(before, float | np.floating) and math.isinf(before):
        return bool(before == after)
    if math.isinf(after):
        return False
    if pa.types.is_decimal(source) and pa.types.is_floating(target):
        single = np.float32(after) if target == pa.float32() else after
        return bool(Decimal(str(single)) == before)
    if pa.types.is_floating(source) and pa.types.is_decimal(target):
        return bool(Decimal(str(before)) == after)
    return bool(_fraction(before) == _fraction(after))


def _fraction(value: Any) -> Fraction:
    return Fraction(float(value) if isinstance(value, np.floating) else value)


@pytest.mark.parametrize("target", _TARGETS, ids=str)
def test_numbers_fit_exactly_when_the_type_can_say_the_same(target: pa.DataType) -> None:
    dice = random.Random(40)
    for source in (*_INTEGERS, *_UNSIGNED, *_FLOATS, *_DECIMALS):
        for value in make_numbers(source, dice):
            (there,) = pa.array([value], source).to_pylist()
            original = value if pa.types.is_floating(source) else there
            if has_equal(original, source, target):
                (after,) = fit(pa.array([value], source), target)
                assert is_equal(original, after, source, target), (value, source, after)
            else:
                with pytest.raises(BadRows, match="column=n"):
                    fit(pa.array([value], source), target)


def has_equal(value: Any, source: Any, target: Any) -> bool:
    """Check by Python whether the target has an equal value."""
    is_float = isinstance(value, float | np.floating)
    if is_float and not math.isfinite(value):
        return bool(pa.types.is_floating(target))
    if pa.types.is_integer(target):
        whole = _fraction(value)
        half = 2 ** (target.bit_width - 1)
        return bool(whole.denominator == 1 and -half <= whole < half)
    exact = Decimal(str(value)) if is_float else Decimal(value)
    if pa.types.is_decimal(target):
        digits = abs(Fraction(exact)) * 10**target.scale
        return bool(digits.denominator == 1 and digits < 10**target.precision)
    single = np.float32 if target == pa.float32() else np.float64
    nearest = single(str(value)) if pa.types.is_decimal(source) else single(value)
    return is_equal(value, nearest.item() if single is np.float64 else nearest, source, target)


_DAY = dt.datetime(2026, 5, 17)  # noqa: DTZ001
_RUNS: Any = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None]))
_MILLI = dt.datetime(1970, 1, 1, 0, 0, 0, 1000)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("values", "target", "expected"),
    [
        (pa.array(["a", None]).dictionary_encode(), pa.string(), ["a", None]),
        (pa.array(["a"], pa.large_string()), pa.string(), ["a"]),
        (pa.array(["a"], pa.string_view()), pa.string(), ["a"]),
        (pa.array([b"a"], pa.binary_view()), pa.binary(), [b"a"]),
        (pa.array([b"ab"], pa.binary(2)), pa.binary(), [b"ab"]),
        (_RUNS, pa.string(), ["a", "a", None]),
        (pa.array([np.float16(1.5)], pa.float16()), pa.float32(), [1.5]),
        (pa.array([[1, 2], None], pa.list_(pa.uint8(), 2)), pa.list_(pa.int64()), [[1, 2], None]),
        (pa.array([[1], None, []], pa.list_view(pa.int8())), pa.list_(pa.int32()), [[1], None, []]),
        (pa.array([[], None]), pa.list_(pa.int32()), [[], None]),
        (pa.array([{}, None]), pa.map_(pa.string(), pa.int32()), [[], None]),
        (pa.array([{}, None]), pa.struct([("a", pa.int32())]), [{"a": None}, None]),
        (pa.array([{"a": None}]), pa.struct([("a", pa.list_(pa.int32()))]), [{"a": None}]),
        (
            pa.array([[("k", 1.0)], None], pa.map_(pa.large_string(), pa.float64())),
            pa.map_(pa.string(), pa.int64()),
            [[("k", 1)], None],
        ),
        (
            pa.array([1_000_000], pa.timestamp("ns")),
            pa.timestamp("ms"),
            [_MILLI],
        ),
        (pa.array([_DAY]), pa.date32(), [_DAY.date()]),
        (pa.array([_DAY.date()]), pa.timestamp("us"), [_DAY]),
        (pa.array([_DAY.date()], pa.date64()), pa.date32(), [_DAY.date()]),
        (
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)], pa.binary(16))),
            pa.string(),
            [str(uuid.UUID(int=0))],
        ),
    ],
    ids=lambda value: str(getattr(value, "type", value))[:50],
)
def test_encodings_and_shapes_of_other_libraries_are_the_same_values(
    values: Any, target: pa.DataType, expected: list[Any]
) -> None:
    assert fit(values, target) == expected
    assert (
        fit(pa.concat_arrays([values, values]).slice(1, len(values)), target)
        == ([*expected, *expected][1 : 1 + len(values)])
    )


@pytest.mark.parametrize(
    ("values", "target", "path", "positions"),
    [
        (pa.array([1, 1_500_000], pa.timestamp("ns")), pa.timestamp("ms"), "n", (0, 1)),
        (pa.array([_DAY, _DAY.replace(hour=1)]), pa.date32(), "n", (1,)),
        (pa.array([[1.0], None, [2.0, 2.5]]), pa.list_(pa.int32()), "n.element", (2,)),
        (
            pa.array([None, {"a": [{"b": 2**40}]}]),
            pa.struct([("a", pa.list_(pa.struct([("b", pa.int32())])))]),
            "n.a.element.b",
            (1,),
        ),
        (
            pa.array([[("k", 1)], [("k", 2**63)]], pa.map_(pa.string(), pa.uint64())),
            pa.map_(pa.string(), pa.int64()),
            "n.value",
            (1,),
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named_by_its_path_and_its_rows(
    values: Any, target: pa.DataType, path: str, positions: tuple[int, ...]
) -> None:
    with pytest.raises(BadRows, match=f"column={path} why=") as refused:
        fit(values, target)

    assert refused.value.positions == positions


def test_leftovers_below_a_null_are_not_looked_at() -> None:
    is_null = pa.array([True, False])
    child = pa.array([2**40, 1])
    values = pa.StructArray.from_arrays([child], names=["a"], mask=is_null)

    assert fit(values, pa.struct([("a", pa.int32())])) == [None, {"a": 1}]


def test_rows_are_counted_over_all_chunks() -> None:
    column = pa.chunked_array([pa.array([0.0, 1.5]), pa.array([2.0, 2.5])])

    with pytest.raises(BadRows) as refused:
        fit_column(column, pa.int64(), name="n")

    assert refused.value.positions == (1, 3)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.string(), pa.binary()),
        (pa.binary(), pa.string()),
        (pa.string(), pa.int32()),
        (pa.int32(), pa.string()),
        (pa.bool_(), pa.int32()),
        (pa.int32(), pa.bool_()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us", "UTC"), pa.date32()),
        (pa.date32(), pa.timestamp("us", "UTC")),
        (pa.int64(), pa.timestamp("us")),
        (pa.duration("us"), pa.int64()),
        (pa.struct([("a", pa.int32())]), pa.map_(pa.string(), pa.int32())),
        (pa.struct([("a", pa.int32()), ("b", pa.int32())]), pa.struct([("a", pa.int32())])),
        (pa.list_(pa.int32()), pa.int32()),
    ],
    ids=str,
)
def test_types_that_mean_different_things_never_fit(
    source: pa.DataType, target: pa.DataType
) -> None:
    assert not can_fit(source, target)


@pytest.mark.parametrize(
    "source",
    [
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.time64("us"),
        pa.dense_union([pa.field("a", pa.int32())]),
        pa.struct([("a", pa.duration("s"))]),
        pa.decimal256(60, 2),
    ],
    ids=str,
)
def test_types_that_the_format_has_not_are_refused_by_name(source: pa.DataType) -> None:
    with pytest.raises(InvalidInput, match="column=n"):
        normal_type(source, column="n")


def test_a_type_says_whether_it_has_any_value() -> None:
    nothing = [pa.null(), pa.struct([]), pa.list_(pa.null()), pa.struct([("a", pa.null())])]

    assert all(map(has_no_value, nothing))
    assert not has_no_value(pa.struct([("a", pa.null()), ("b", pa.int32())]))
    assert not has_no_value(pa.map_(pa.string(), pa.null()))


def test_a_new_column_comes_without_what_has_no_value() -> None:
    columns: dict[str, pa.DataType] = {
        "id": pa.string(),
        "nothing": pa.null(),
        "some": pa.struct([("a", pa.null()), ("b", pa.uint32())]),
    }
    source = pa.schema(columns)

    schema = TableSchema.from_arrow(source, table_name="t")

    assert schema.arrow == pa.schema(
        [("id", pa.string()), ("some", pa.struct([("b", pa.int64())]))]
    )


def schema(**columns: pa.DataType) -> TableSchema:
    return TableSchema.from_arrow(pa.schema(list(columns.items())), table_name="t")


@pytest.mark.parametrize(
    ("table", "batch", "result"),
    [
        (pa.int64(), pa.float64(), None),
        (pa.float64(), pa.int64(), None),
        (pa.timestamp("ms"), pa.timestamp("ns"), None),
        (pa.decimal128(38, 0), pa.decimal128(5, 2), None),
        (pa.string(), pa.null(), None),
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.string(), pa.int64(), pa.int64()),
        (
            pa.struct([("a", pa.int64()), ("b", pa.int32())]),
            pa.struct([("a", pa.float64()), ("b", pa.null())]),
            None,
        ),
        (
            pa.struct([("a", pa.int64()), ("b", pa.int32())]),
            pa.struct([("a", pa.float64()), ("c", pa.int32())]),
            pa.struct([("a", pa.int64()), ("c", pa.int32())]),
        ),
        (
            pa.list_(pa.struct([("a", pa.int32())])),
            pa.list_(pa.struct([("a", pa.int64())])),
            pa.list_(pa.struct([("a", pa.int64())])),
        ),
    ],
    ids=str,
)
def test_a_column_meets_the_tables_as_that_unless_it_widens_it(
    table: pa.DataType, batch: pa.DataType, result: pa.DataType | None
) -> None:
    expected = pa.schema([] if result is None else [("n", result)])

    assert select_changed_columns(pa.schema([("n", batch)]), schema(n=table)) == expected


def test_columns_that_must_keep_their_type_take_wider_ones_value_by_value() -> None:
    fields: list[pa.Field[Any]] = [pa.field("n", pa.int64()), pa.field("o", pa.float64())]
    batch = pa.schema(fields)
    table = schema(n=pa.int32(), o=pa.int32())

    assert select_changed_columns(batch, table) == batch
    assert select_changed_columns(batch, table, pinned=("n",), ordering=("o",)).names == []
    assert select_changed_columns(batch, table, evolution=False).names == []


def test_a_type_fits_its_normal_type() -> None:
    source = (*_INTEGERS, *_UNSIGNED, *_FLOATS, pa.float16(), pa.date64(), pa.timestamp("s", "UTC"))
    for number, wrap in itertools.product(source, (lambda kind: kind, pa.list_)):
        kind = wrap(number)
        assert can_fit(kind, normal_type(kind, column="n")), kind
