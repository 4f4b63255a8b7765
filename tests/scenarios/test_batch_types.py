"""Batches whose types are not the table's: from Arrow, pandas and Polars."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest

from workers.concurrency.outcome import Committed
from workers.errors import BadRows, InvalidInput
from workers.files.meta_columns import META_COLUMNS
from workers.lakehouse import LakehouseTable, create_table
from workers.options.write_keys import DEAD_LETTER_KEY

FAR = 300_000_000_000_000_000
"""Microseconds; the year is 11476."""
_UTC = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_LOCAL = _UTC.replace(tzinfo=None)


def make_table(
    path: Path, columns: dict[str, pa.DataType] | None = None, **more: Any
) -> LakehouseTable:
    schema = None
    if columns is not None:
        schema = pa.schema([("id", pa.string()), *columns.items()])
    return create_table(path / "t", name="t", schema=schema, record_key=["id"], **more)


def write(table: LakehouseTable, rows: Any) -> Committed:
    outcome = table.write(rows)
    assert isinstance(outcome, Committed)
    return outcome


def read(table: LakehouseTable) -> list[dict[str, Any]]:
    rows = table.read()
    names = [name for name in rows.column_names if name not in META_COLUMNS]
    return sorted(rows.select(names).to_pylist(), key=lambda row: str(row["id"]))


def test_a_pandas_frame_of_the_second_day_comes_as_the_tables_types(tmp_path: Path) -> None:
    table = make_table(tmp_path, {"price": pa.float64(), "n": pa.int64(), "at": pa.timestamp("ms")})
    write(table, pd.DataFrame({"id": ["a"], "price": [9.99], "n": [1], "at": [pd.Timestamp(0)]}))

    frame = pd.DataFrame(
        {
            "id": ["b", "c"],
            "price": [10, 11],
            "n": [2.0, None],
            "at": pd.to_datetime(["2026-01-01", None]),
        }
    )
    assert write(table, frame).warnings == ()

    new_year = dt.datetime(2026, 1, 1)  # noqa: DTZ001
    assert read(table)[1:] == [
        {"id": "b", "price": 10.0, "n": 2, "at": new_year},
        {"id": "c", "price": 11.0, "n": None, "at": None},
    ]


def test_a_pandas_frame_brings_the_named_levels_of_its_index(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    frame = pd.DataFrame({"id": ["a", "b"], "n": [1, 2]})

    write(table, frame.set_index("id"))
    write(table, frame[frame["n"] > 1])

    assert read(table) == [{"id": "a", "n": 1}, {"id": "b", "n": 2}]


def test_integers_of_any_size_stay_exact(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    big = [18446744073709551615, 18446744073709551614]

    write(table, pa.table({"id": ["a", "b"], "n": pa.array(big, pa.uint64())}))
    write(table, pd.DataFrame({"id": ["c", "d"], "n": pd.Series([10**19, 7], dtype=object)}))

    assert [row["n"] for row in read(table)] == [*big, 10**19, 7]
    assert table.read().schema.field("n").type == pa.decimal128(20, 0)


def test_uint64_is_a_long_if_all_values_fit(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    inner = pa.array([[2**63 - 1]], pa.list_(pa.uint64()))

    write(table, pa.table({"id": ["a"], "n": pa.array([1], pa.uint64()), "inner": inner}))

    assert read(table) == [{"id": "a", "n": 1, "inner": [2**63 - 1]}]
    assert table.read().schema.field("n").type == pa.int64()
    with pytest.raises(BadRows, match=r"column=n .*rows=1 first_rows=\[1\]"):
        table.write(pa.table({"id": ["b", "c"], "n": pa.array([1, 2**63], pa.uint64())}))


def test_columns_without_a_value_are_taken_if_known_and_else_left_out(tmp_path: Path) -> None:
    some = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
    table = make_table(tmp_path, {"some": some, "pairs": pa.map_(pa.string(), pa.int32())})
    nothing = pa.table(
        {
            "id": ["a"],
            "some": pa.array([{"a": None, "b": [], "c": None}]),
            "pairs": pa.array([{}]),
            "none": pa.nulls(1),
            "empty": pa.array([[]]),
        }
    )

    outcome = write(table, nothing)

    assert read(table) == [{"id": "a", "some": {"a": None, "b": []}, "pairs": []}]
    (warning,) = outcome.warnings
    assert warning.endswith("left out: columns=3 first=some.c,none,empty")


def test_a_table_is_made_without_columns_that_have_no_value(tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": ["a"], "none": [None], "some": [{"x": None, "y": 1}]})

    table = make_table(tmp_path, {"none": pa.null(), "n": pa.int32()})
    first = write(table, frame)

    assert read(table) == [{"id": "a", "n": None, "some": {"y": 1}}]
    assert first.warnings[0].endswith("columns=2 first=none,some.x")


def test_a_key_without_any_value_is_refused(tmp_path: Path) -> None:
    table = make_table(tmp_path)

    with pytest.raises(InvalidInput, match=r"no value in any row: columns=\['id'\]"):
        table.write(pa.table({"id": pa.nulls(1), "n": [1]}))


def test_text_in_views_is_read_wherever_rows_are_looked_at(tmp_path: Path) -> None:
    views: Any = pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 3], pa.int32()), pa.array(["x", None], pa.string_view())
    )
    rows = pa.table(
        {
            "id": pa.array(["a", None, "c"], pa.string_view()),
            "runs": views,
            "lists": pa.array([["y"], [], None], pa.list_view(pa.string_view())),
        }
    )
    table = make_table(tmp_path)

    with pytest.raises(BadRows, match=r"record key is null.*first_rows=\[1\]"):
        table.write(rows)
    table.write(rows, options={DEAD_LETTER_KEY: str(tmp_path / "aside")})

    assert read(table) == [
        {"id": "a", "runs": "x", "lists": ["y"]},
        {"id": "c", "runs": None, "lists": None},
    ]


def test_polars_types_come_as_the_next_type_of_the_format(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    frame = pl.DataFrame(
        {
            "id": pl.Series(["a", "b"], dtype=pl.Categorical),
            "small": pl.Series([255, None], dtype=pl.UInt8),
            "ids": pl.Series([[2**32 - 1], None], dtype=pl.List(pl.UInt32)),
            "amount": pl.Series([Decimal("1.10"), None]),
            "at": pl.Series(
                [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None], dtype=pl.Datetime("ns", "UTC")
            ),
        }
    )

    write(table, frame)

    assert read(table)[0] == {
        "id": "a",
        "small": 255,
        "ids": [2**32 - 1],
        "amount": Decimal("1.10"),
        "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    }


@pytest.mark.parametrize(
    ("frame", "named"),
    [
        (pd.DataFrame({"id": ["a"], "d": [pd.Timedelta(1)]}), "column=d type=duration"),
        (pd.DataFrame({"id": ["a", "b"], "d": [1, "x"]}), "column=d"),
        (pd.DataFrame({"id": ["a"], "d": pd.Series([10**60], dtype=object)}), "column=d"),
        (pd.DataFrame({"id": ["a"], "d": [1j]}), "column=d"),
        (pd.DataFrame({"id": ["a"], "d": [pd.Period("2026-01")]}), "column=d type=extension"),
        (pd.DataFrame({"id": ["a", "b"], "d": [_UTC, _LOCAL]}), "with and without a time zone"),
        (pd.DataFrame([["a", 1, 2]], columns=["id", "d", "d"]), "columns=\\['d'\\]"),
        (pl.DataFrame({"id": ["a"], "d": [dt.time(1)]}), "column=d type=time64"),
        (pl.DataFrame({"id": ["a"], "d": [object()]}), "columns=\\['d'\\]"),
        (pl.LazyFrame({"id": ["a"]}), "frame.collect"),
        ([{"id": "a"}], "neither Arrow nor a pandas"),
        (
            pa.table({"id": ["a"], "d": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}),
            "column=d",
        ),
    ],
    ids=[
        "timedelta",
        "mixed",
        "digits",
        "complex",
        "period",
        "zones",
        "twice",
        "time",
        "object",
        "lazy",
        "list",
        "interval",
    ],
)
def test_what_the_format_lacks_is_refused_in_one_sentence(
    tmp_path: Path, frame: Any, named: str
) -> None:
    table = make_table(tmp_path)

    with pytest.raises(InvalidInput, match=named) as refused:
        table.write(frame)

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_ordering_values_after_the_year_9999_are_values_like_others(
    tmp_path: Path, table_type: str
) -> None:
    table = make_table(
        tmp_path,
        {"at": pa.timestamp("us", "UTC"), "n": pa.int32()},
        ordering=["at"],
        table_type=table_type,
    )
    for number, at in enumerate([0, FAR, 1]):
        write(
            table,
            pa.table(
                {"id": ["a"], "at": pa.array([at]).view(pa.timestamp("us", "UTC")), "n": [number]}
            ),
        )

    assert table.read(columns=["n"]).column("n").to_pylist() == [1]


def test_a_value_that_needs_microseconds_is_refused_with_its_row(tmp_path: Path) -> None:
    table = make_table(tmp_path, {"at": pa.timestamp("ms")})
    micros = np.array(["2026-01-01T00:00:00.001", "2026-01-01T00:00:00.0015"], "datetime64[us]")

    with pytest.raises(BadRows, match=r"column=at why=it is finer.*first_rows=\[1\]"):
        table.write(pd.DataFrame({"id": ["a", "b"], "at": micros}))


def test_a_date_that_makes_no_partition_is_refused_with_its_row(tmp_path: Path) -> None:
    table = make_table(tmp_path, {"day": pa.date32()}, partition_by=["day"])
    days = pa.array([1, 5_000_000], pa.int32()).view(pa.date32())

    with pytest.raises(
        BadRows, match=r"outside the years 1 to 9999: column=day .*first_rows=\[1\]"
    ):
        table.write(pa.table({"id": ["a", "b"], "day": days}))
