"""Every way out of a scan gives the rows that filtering the whole read gives, over tables drawn by
chance; pruning changes no answer.

The whole read goes another way: each slice merged whole (`read_snapshot`), then filtered.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sampling import examples
from tests.workers.read.random_tables import KEYS, a_table, conditions
from workers.files import base_file
from workers.lakehouse import LakehouseTable
from workers.read.file_slice import slice_schema
from workers.read.incremental import plan_incremental, window_rows
from workers.read.predicate import predicate_of
from workers.read.request import moment
from workers.read.snapshot import read_snapshot

TABLES = [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, examples(6)))]
"""By number; `make test` takes one."""


@pytest.fixture(scope="module", params=TABLES)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    chance = random.Random(f"{os.environ['SLUICE_TEST_SEED']} {request.param}")
    with pytest.MonkeyPatch.context() as patched:
        # Several row groups in each base file, as large ones have.
        patched.setattr(base_file, "ROW_GROUP_ROWS", 5)
        return a_table(tmp_path_factory.mktemp("scan"), chance)


def listed(rows: Any) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


some_columns = st.sampled_from([None, ["id"], ["price", "id"], ["city", "at", "id", "share"]])


@settings(max_examples=examples(45))
@given(where=st.lists(conditions(), min_size=1, max_size=3), columns=some_columns, data=st.data())
def test_every_door_gives_what_filtering_all_rows_gives(
    table: LakehouseTable, where: list[Any], columns: list[str] | None, data: st.DataObject
) -> None:
    everything = read_snapshot(table.table)
    expression = predicate_of(where, everything.schema).expression
    names = columns or everything.column_names
    wanted = listed(everything.filter(expression).select(names))
    scan = table.scan(columns, where=where)

    assert listed(table.read(columns=columns, where=where)) == wanted
    assert listed(scan.to_arrow()) == wanted
    assert listed(replace(scan, threads=1).to_arrow()) == wanted
    assert listed(pa.table(replace(scan, threads=3))) == wanted
    assert listed(table.scan(columns, where=expression).to_arrow()) == wanted
    assert len(scan.to_pandas()) == len(wanted)
    assert scan.to_arrow().column_names == names
    limit = data.draw(st.integers(0, KEYS), label="limit")
    few = listed(scan.limited(limit).to_arrow())
    assert len(few) == min(limit, len(wanted))
    assert set(few) <= set(wanted)


@pytest.mark.slow
@settings(max_examples=examples(18))
@given(where=st.lists(conditions(), min_size=1, max_size=2))
def test_polars_and_duckdb_push_down_without_changing_an_answer(
    table: LakehouseTable, where: list[Any]
) -> None:
    everything = read_snapshot(table.table)
    scan = table.scan()
    condition = polars_condition(where)
    text = sql_condition(where)

    lazy = scan.to_polars().filter(condition).select("id", "city").collect()
    pushed = computed(f"SELECT id, city FROM t WHERE {text}", t=scan.to_duckdb())

    frame: Any = pl.from_arrow(everything)
    assert listed(lazy.to_arrow()) == listed(
        frame.filter(condition).select("id", "city").to_arrow()
    )
    assert listed(pushed) == listed(computed(f"SELECT id, city FROM t WHERE {text}", t=everything))
    assert scan.to_polars().head(7).collect().height == min(7, everything.num_rows)


def test_duckdb_agrees_over_parquet_of_all_rows(table: LakehouseTable, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    rows = table.scan().to_arrow()
    pq.write_table(rows, path)

    query = 'SELECT count(*), sum(id), count(city), count(DISTINCT day), min("at") FROM'
    there = computed(f"{query} t", t=table.scan().to_duckdb()).to_pylist()

    assert there == computed(f"{query} read_parquet('{path}')").to_pylist()
    assert rows.num_rows == next(iter(there[0].values()))


def test_frames_of_pandas_have_all_rows(table: LakehouseTable) -> None:
    frame = table.scan(["id", "city"]).to_pandas()

    assert type(frame).__module__.startswith("pandas")
    whole: Any = read_snapshot(table.table)
    assert sorted(frame["id"]) == sorted(whole.column("id").to_pylist())


@settings(max_examples=examples(12))
@given(where=st.lists(conditions(), min_size=1, max_size=2), data=st.data())
def test_windows_of_commits_are_filtered_alike(
    table: LakehouseTable, where: list[Any], data: st.DataObject
) -> None:
    times = sorted(str(one.completed_at) for one in table.timeline() if one.completed_at)
    since = data.draw(st.sampled_from(["earliest", *times[:-1]]), label="since")
    plan = plan_incremental(table.table, since=moment(since), until=times[-1])
    storage, config = table.table.storage, table.table.config
    parts = [window_rows(storage, config, plan, one) for one in plan.slices]
    whole = pa.concat_tables([slice_schema(plan.schema).empty_table(), *parts])
    expression = predicate_of(where, whole.schema).expression

    scan = table.scan(["id", "count"], where=where, since=since, until=times[-1])

    assert listed(scan.to_arrow()) == listed(whole.filter(expression).select(["id", "count"]))


def computed(query: str, **relations: Any) -> pa.Table:
    """What DuckDB answers."""
    with duckdb.connect() as database:
        for name, relation in relations.items():
            database.register(name, relation)
        answer: Any = database.sql(query)
        rows: pa.Table = answer.to_arrow_table()
        return rows


def polars_condition(where: list[Any]) -> Any:
    whole: Any = pl.lit(True)
    for name, sign, value in where:
        column = pl.col(name)
        match sign:
            case "is" | "is not":
                part = column.is_null() if sign == "is" else column.is_not_null()
            case "in" | "not in":
                part = pl.any_horizontal([column == one for one in value])
                part = part if sign == "in" else ~part
            case _:
                part = {
                    "=": column == value, "!=": column != value, "<": column < value,
                    "<=": column <= value, ">": column > value, ">=": column >= value,
                }[sign]  # fmt: skip
        whole = whole & part
    return whole


def sql_condition(where: list[Any]) -> str:
    parts = []
    for name, sign, value in where:
        if value is None:
            parts.append(f'"{name}" {sign} NULL')
        elif isinstance(value, list):
            parts.append(f'"{name}" {sign} ({", ".join(map(spelled, value))})')
        else:
            parts.append(f'"{name}" {sign} {spelled(value)}')
    return " AND ".join(f"({one})" for one in parts)


def spelled(value: Any) -> str:
    if isinstance(value, bool | int):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


def test_the_drawn_tables_are_not_all_alike(table: LakehouseTable) -> None:
    assert table.file_groups()
    assert pc.count(table.read().column("id")).as_py() > KEYS // 2
