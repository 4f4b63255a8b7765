"""A planned read: whatever is left out by partition, bucket or footer, the rows are those that
filtering the whole read gives.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.support.sampling import examples
from tests.support.scenario_table import schema_of
from tests.support.watched_storage import WatchedStorage
from workers.errors import InvalidInput, SnapshotExpired
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.read.predicate import predicate_of
from workers.read.row_groups import RowGroupPruner
from workers.read.statistics import known_by

DIRECT = {"hoodie.write.markers.type": "direct"}
FOUR = {"hoodie.bucket.index.num.buckets": "4"}
SCHEMA = schema_of(
    id=pa.int64(),
    city=pa.string(),
    day=pa.date32(),
    at=pa.timestamp("us", tz="UTC"),
    count=pa.int32(),
    share=pa.float64(),
    price=pa.decimal128(9, 2),
    is_open=pa.bool_(),
    ts=pa.int64(),
)
CITIES = ["Oslo", "Rome", "São Paulo", "", None]
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def row(chance: random.Random, key: int, ts: int) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    return {
        "id": key,
        "city": chance.choice(CITIES),
        "day": maybe(dt.date(2026, 1, 1 + chance.randrange(20))),
        "at": maybe(NOON + dt.timedelta(seconds=chance.randrange(10_000))),
        "count": maybe(chance.randrange(-5, 6)),
        "share": maybe(chance.choice([0.0, -0.0, 0.25, 0.5, math.nan, math.inf, -math.inf])),
        "price": maybe(Decimal(chance.randrange(-300, 300)) / 100),
        "is_open": maybe(chance.random() < 0.5),
        "ts": ts,
    }


def filled(where: Path, chance: random.Random) -> LakehouseTable:
    kind = chance.choice(["COPY_ON_WRITE", "MERGE_ON_READ"])
    table = create_table(
        where / "table", name="t", schema=SCHEMA, record_key=["id"], ordering=["ts"],
        partition_by=chance.choice([[], ["city"], ["day"]]), table_type=kind, options=FOUR,
    )  # fmt: skip
    keys = list(range(60))
    rows = [row(chance, key, 1) for key in keys]
    table.write(pa.Table.from_pylist(rows, SCHEMA), options=DIRECT)
    again = [rows[key] | {"count": 99, "ts": 2} for key in chance.sample(keys, 12)]
    table.write(pa.Table.from_pylist(again, SCHEMA), options=DIRECT)
    return table


def condition(chance: random.Random) -> tuple[str, str, Any]:
    given = row(chance, chance.randrange(70), 1)
    name = chance.choice([name for name in given if name != "ts"])
    if (value := given[name]) is None:
        return name, chance.choice(["is", "is not"]), None
    if chance.random() < 0.3:
        others = [row(chance, chance.randrange(70), 1)[name] for _ in range(3)]
        values = [value, *(one for one in others if one is not None)]
        return name, chance.choice(["in", "not in"]), values
    return name, chance.choice(["=", "!=", "<", "<=", ">", ">="]), value


def listed(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("seed", range(examples(9)))
def test_a_scan_gives_the_rows_that_filtering_all_of_them_gives(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    table = filled(tmp_path, chance)
    everything = table.read()

    for _ in range(25):
        where = [condition(chance) for _ in range(chance.choice([1, 1, 2, 3]))]
        columns = chance.choice([None, ["id"], ["price", "id"], ["ts", "city", "id"]])
        expression = predicate_of(where, everything.schema).expression
        matching = everything.filter(expression)

        rows = table.scan(columns, where=where).to_arrow()

        assert listed(rows) == listed(matching.select(columns or SCHEMA.names)), where
        assert rows.column_names == (columns or SCHEMA.names)
        assert listed(table.scan(columns, where=expression).to_arrow()) == listed(rows), where


@pytest.mark.parametrize(
    ("where", "same"),
    [
        ("city = 'Oslo' AND NOT count > 2", [("city", "=", "Oslo"), ("count", "<=", 2)]),
        ("day < '2026-01-09'", [("day", "<", "2026-01-09")]),
        ("id IN (1, 2, 3) AND city IS NULL", [("id", "in", [1, 2, 3]), ("city", "is", None)]),
    ],
)
def test_text_and_conditions_say_the_same(
    where: str, same: list[tuple[str, str, Any]], tmp_path: Path
) -> None:
    table = filled(tmp_path, random.Random(3))

    assert listed(table.scan(where=where).to_arrow()) == listed(table.scan(where=same).to_arrow())


def test_footers_leave_row_groups_out_and_never_a_row(tmp_path: Path) -> None:
    chance = random.Random(5)
    rows = pa.Table.from_pylist([row(chance, key, 1) for key in range(400)], SCHEMA)
    rows = rows.sort_by([("count", "ascending"), ("day", "ascending")])
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=20)
    with pq.ParquetFile(tmp_path / "rows.parquet", pre_buffer=False) as file:
        left_out = 0
        for _ in range(300):
            where = [condition(chance) for _ in range(chance.choice([1, 2]))]
            predicate = predicate_of(where, SCHEMA)
            pruner = RowGroupPruner(SCHEMA, predicate.conditions)
            kept = pruner.kept(known_by(file.metadata, pruner.columns))
            for number in range(file.num_row_groups):
                if number not in kept:
                    group = file.read_row_group(number, use_threads=False)
                    assert group.filter(predicate.expression).num_rows == 0, where
            left_out += file.num_row_groups - len(kept)

    assert left_out > 600


def test_values_of_another_type_are_not_compared_with_bounds(tmp_path: Path) -> None:
    """Arrow rounds a decimal that it compares with a float, Python does not."""
    rows = pa.table({"price": pa.array([Decimal("0.10")] * 3, pa.decimal128(9, 2))})
    pq.write_table(rows, tmp_path / "rows.parquet")
    with pq.ParquetFile(tmp_path / "rows.parquet", pre_buffer=False) as file:
        predicate = predicate_of([("price", "=", 0.1)], rows.schema)
        kept = RowGroupPruner(rows.schema, predicate.conditions).kept(
            known_by(file.metadata, ["price"])
        )

    assert rows.filter(predicate.expression).num_rows == 3
    assert kept == [0]


def numbers(rows: pa.Table) -> list[int]:
    return sorted(one["n"] for one in rows.to_pylist())


def large(where: Path) -> LakehouseTable:
    table = create_table(
        where / "large", name="large", schema=pa.schema([("id", pa.int64()), ("n", pa.int64())]),
        record_key=["id"], options=FOUR,
    )  # fmt: skip
    ids = list(range(2_000))
    table.write(pa.table({"id": ids, "n": ids}), options=DIRECT)
    return table


def test_a_limit_is_kept_and_the_rest_is_not_opened(tmp_path: Path) -> None:
    location = Path(large(tmp_path).location)
    opened: list[str] = []
    watched = WatchedStorage(location, before=lambda call, path: opened.append(path))
    table = open_table(location, storage=watched)
    scan = table.scan(["id"], limit=7)
    opened.clear()

    assert scan.to_arrow().num_rows == 7
    assert len({path for path in opened if path.endswith(".parquet")}) == 1
    assert table.scan(limit=0).to_arrow().num_rows == 0
    assert table.scan(limit=9_999).to_arrow().num_rows == 2_000
    assert table.scan(where="n >= 1990", limit=4).to_arrow().num_rows == 4


def test_a_key_that_is_named_is_looked_for_in_its_bucket(tmp_path: Path) -> None:
    scan = large(tmp_path).scan(where=[("id", "=", 77)])

    assert scan.to_arrow().to_pylist() == [{"id": 77, "n": 77}]
    assert scan.explain().startswith("large: 1 of 4 file slices; filtered on id; 2 columns; ")
    assert scan.explain().count("left out by bucket") == 3


def test_a_scan_is_of_its_moment(tmp_path: Path) -> None:
    table = large(tmp_path)
    first = table.timeline()[-1].completed_at
    before = table.scan(where="id < 3")
    table.write(pa.table({"id": [1], "n": [-1]}), options=DIRECT)

    assert numbers(before.to_arrow()) == [0, 1, 2]
    assert numbers(table.scan(where="id < 3").to_arrow()) == [-1, 0, 2]
    then = table.scan(["n"], where="id < 3", as_of=first).to_arrow()
    assert numbers(then) == [0, 1, 2]


def test_a_file_that_is_gone_is_said_in_a_sentence(tmp_path: Path) -> None:
    table = large(tmp_path)
    scan = table.scan()
    for path in Path(table.location).rglob("*.parquet"):
        path.unlink()

    with pytest.raises(SnapshotExpired, match="read again, and keep more versions"):
        scan.to_arrow()


def test_others_take_its_batches(tmp_path: Path) -> None:
    scan = large(tmp_path).scan(["n"], where=pc.field("id") >= 1_998)

    rows = pa.RecordBatchReader.from_stream(scan).read_all()

    assert numbers(rows) == [1_998, 1_999]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"columns": ["id", "no"]}, "table has no such column"),
        ({"columns": []}, "columns must be named"),
        ({"limit": -1}, "a limit is a number of rows"),
        ({"limit": True}, "a limit is a number of rows"),
        ({"where": "no = 1"}, "predicate names no column"),
        ({"where": [("no", "=", 1)]}, "predicate names no column"),
        ({"where": [("id", "like", "x")]}, "predicate knows no such comparison"),
        ({"where": [("id", "=", None)]}, "for missing values say 'is' or 'is not'"),
        ({"where": [("id", "in", [])]}, "'in' takes a list of values"),
        ({"where": [("id", "=")]}, r"a condition is \(column, comparison, value\)"),
        ({"where": [("id", "=", "soon")]}, "no value of its type"),
        ({"where": 3}, "a predicate is text, a pyarrow expression or a list"),
        ({"as_of": "yesterday"}, "a time is 17 digits"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_read(
    arguments: dict[str, Any], says: str, tmp_path: Path
) -> None:
    table = large(tmp_path)

    with pytest.raises(InvalidInput, match=says):
        table.scan(**arguments)
