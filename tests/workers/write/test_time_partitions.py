"""Partition paths made of times: what is written where, what is refused, and reads that skip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.support.referee import referee_table
from workers.concurrency.outcome import Committed
from workers.errors import BadRows, InvalidInput, UnsupportedTable
from workers.files.properties import load_properties, store_properties
from workers.files.time_texts import time_texts
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.options.time_partitions import time_rule
from workers.read.pruning import SlicePruner, among
from workers.storage.local import LocalStorage

PREFIX = "hoodie.keygen.timebased."
DIRECT = {"hoodie.write.markers.type": "direct"}
ASKED = "hoodie.datasource.write.keygenerator.type"
DAYS = {
    PREFIX + "timestamp.type": "EPOCHMILLISECONDS",
    PREFIX + "output.dateformat": "yyyy/MM/dd",
    PREFIX + "timezone": "UTC",
}
TEXTS = {
    PREFIX + "timestamp.type": "DATE_STRING",
    PREFIX + "input.dateformat": "yyyy-MM-dd,yyyy/MM/dd HH:mm",
    PREFIX + "output.dateformat": "yyyyMM",
    PREFIX + "timezone": "UTC",
}
_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "at": pa.int64(), "place": pa.string()}
SCHEMA = pa.schema(_TYPES)
DAY = 86_400_000


def created(
    location: Path,
    *,
    options: dict[str, str],
    partition_by: list[str] | None = None,
    key: list[str] | None = None,
    schema: pa.Schema | None = SCHEMA,
) -> LakehouseTable:
    return create_table(
        location,
        name="t",
        schema=schema,
        record_key=key or ["id"],
        partition_by=["at"] if partition_by is None else partition_by,
        options={"hoodie.bucket.index.num.buckets": "2", **options},
    )


def rows(*listed: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(schema.names, one, strict=True)) for one in listed], schema=schema
    )


def partitions(location: Path) -> set[str]:
    marks = location.rglob(".hoodie_partition_metadata")
    return {str(mark.parent.relative_to(location)) for mark in marks}


def test_rows_lie_by_day_and_keep_their_own_value(tmp_path: Path) -> None:
    table = created(tmp_path / "t", options={ASKED: "TIMESTAMP", **DAYS})
    batch = rows(("a", 0, "x"), ("b", 5, "x"), ("c", 40 * DAY, "y"), ("d", None, "z"))

    assert isinstance(table.write(batch, options=DIRECT), Committed)

    assert partitions(tmp_path / "t") == {"1970/01/01", "1970/02/10"}
    assert table.read().sort_by("id").to_pylist() == batch.to_pylist()
    assert referee_table(tmp_path / "t").num_rows == 4
    properties = load_properties(LocalStorage(tmp_path / "t"))
    assert properties["hoodie.table.keygenerator.type"] == "TIMESTAMP"
    assert properties["hoodie.table.partition.fields"] == "at"
    assert {key: properties[key] for key in DAYS} == DAYS
    assert ASKED not in properties


def test_custom_key_generator_joins_values_and_times(tmp_path: Path) -> None:
    location = tmp_path / "t"
    hive = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    table = created(
        location,
        options={**DAYS, **hive},
        partition_by=["place:simple", "at:timestamp"],
        key=["id", "place"],
    )

    table.write(rows(("a", 0, "x"), ("b", 40 * DAY, None)), options=DIRECT)
    table.write(rows(("a", 5, "x"), ("c", 41 * DAY, "x")), options=DIRECT)

    properties = load_properties(LocalStorage(location))
    assert properties["hoodie.table.partition.fields"] == "place:SIMPLE,at:TIMESTAMP"
    assert properties["hoodie.table.keygenerator.type"] == "CUSTOM"
    assert partitions(location) == {
        "place=x/at=1970/01/01",
        "place=__HIVE_DEFAULT_PARTITION__/at=1970/02/10",
        "place=x/at=1970/02/11",
    }
    assert open_table(location).read().num_rows == 3


def test_text_that_is_no_date_names_the_row_and_the_value(tmp_path: Path) -> None:
    schema = pa.schema({**_TYPES, "at": pa.string()})
    table = created(tmp_path / "t", options={ASKED: "TIMESTAMP", **TEXTS}, schema=schema)
    good = ("a", "2024-02-29", "x"), ("b", "2024/03/01 23:59", "x")
    batch = rows(*good, ("c", "2023-02-29", "x"), ("d", "soon", "x"), schema=schema)

    with pytest.raises(BadRows) as caught:
        table.write(batch, options=DIRECT)
    letters = tmp_path / "letters"
    table.write(batch, options={**DIRECT, "sluice.dead.letter.path": str(letters)})

    assert caught.value.positions == (2, 3)
    assert "first_value=2023-02-29" in str(caught.value)
    assert partitions(tmp_path / "t") == {"202402", "202403"}
    assert table.read().num_rows == 2


def test_filter_on_the_partition_column_misses_no_row(tmp_path: Path) -> None:
    table = created(
        tmp_path / "t",
        options=DAYS,
        partition_by=["place:SIMPLE", "at:TIMESTAMP"],
    )
    table.write(rows(("a", 3, "x"), ("b", 40 * DAY, "x"), ("c", 3, "y")), options=DIRECT)

    def kept(**values: Any) -> set[str]:
        conditions = tuple(among(name, value) for name, value in values.items())
        pruner = SlicePruner(table.table.config, SCHEMA, conditions)
        return {one.partition for one in table.file_groups() if pruner.may_hold(one)}

    assert kept(at=3) == {"x/1970/01/01", "x/1970/02/10", "y/1970/01/01"}
    assert table.read().filter(pc.field("at") == 3).num_rows == 2


def test_partition_is_deleted_by_the_values_of_its_columns(tmp_path: Path) -> None:
    table = created(tmp_path / "t", options={ASKED: "TIMESTAMP", **DAYS})
    table.write(rows(("a", 3, "x"), ("b", 40 * DAY, "x")), options=DIRECT)

    table.delete_partition([{"at": 40 * DAY + 7}], options=DIRECT)

    assert table.read().column("id").to_pylist() == ["a"]


@pytest.mark.parametrize(
    ("options", "partition_by", "key", "named"),
    [
        ({ASKED: "TIMESTAMP"}, ["at"], ["id"], "timestamp.type"),
        ({ASKED: "TIMESTAMP", **DAYS}, ["at", "place"], ["id"], "one key and one partition"),
        ({ASKED: "TIMESTAMP", **DAYS}, ["at"], ["id", "place"], "one key and one partition"),
        ({ASKED: "TIMESTAMP", **DAYS}, ["place"], ["id"], "partitions by a number"),
        ({ASKED: "TIMESTAMP", **TEXTS}, ["at"], ["id"], "partitions by text"),
        ({ASKED: "TIMESTAMP", **DAYS}, ["at:TIMESTAMP"], ["id"], "typed fields"),
        ({ASKED: "CUSTOM", **DAYS}, ["at"], ["id"], "SIMPLE or TIMESTAMP"),
        ({ASKED: "CUSTOM", **DAYS}, ["at:LATER"], ["id"], "SIMPLE or TIMESTAMP"),
        ({ASKED: "UNHEARD"}, ["at"], ["id"], "unknown key generator"),
        (DAYS, ["place"], ["id"], "no partition field is a time"),
    ],
)
def test_key_generator_that_makes_no_sense_is_refused_before_there_is_a_table(
    options: dict[str, str], partition_by: list[str], key: list[str], named: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=named):
        created(tmp_path / "t", options=options, partition_by=partition_by, key=key)

    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"output.dateformat": "yyyy-MMM-dd"}, "part=MMM"),
        ({"output.dateformat": "EEE"}, "part=EEE"),
        ({"output.dateformat": "yyyy a"}, "part=a"),
        ({"output.dateformat": "yyyy z"}, "part=z"),
        ({"output.dateformat": "'open"}, "open quote"),
        ({"output.dateformat": "----"}, "no part of a date"),
        ({"timezone": "Nowhere/Land"}, "unknown time zone"),
        ({"timezone": ""}, "without a time zone"),
        ({"timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "WEEKS"}, "WEEKS"),
        ({"timestamp.type": "DATE_STRING"}, "input.dateformat"),
        ({"timestamp.type": "DATE_STRING", "input.dateformat": "yy-MM-dd"}, "yyyy"),
        ({"timestamp.type": "DATE_STRING", "input.dateformat": "MM-dd"}, "names the year"),
        (
            {
                "timestamp.type": "DATE_STRING",
                "input.dateformat": "yyyy",
                "input.dateformat.list.delimiter.regex": "[,;]+",
            },
            "one character",
        ),
    ],
)
def test_what_other_processes_would_write_otherwise_is_refused_by_name(
    changes: dict[str, str], named: str
) -> None:
    options = DAYS | {PREFIX + part: value for part, value in changes.items()}

    with pytest.raises(InvalidInput, match=named):
        time_rule(options)


def test_foreign_table_with_such_options_is_read_and_not_written(tmp_path: Path) -> None:
    created(tmp_path / "t", options={ASKED: "TIMESTAMP", **DAYS}).write(
        rows(("a", 0, "x")), options=DIRECT
    )
    storage = LocalStorage(tmp_path / "t")
    store_properties(
        storage, {**load_properties(storage), PREFIX + "output.dateformat": "yyyy-MMM"}
    )

    table = open_table(tmp_path / "t")

    assert table.read().num_rows == 1
    with pytest.raises(UnsupportedTable, match="part=MMM"):
        table.write(rows(("b", 0, "x")))


@pytest.mark.parametrize("value", [2**62, -(2**62)])
def test_time_beyond_the_calendar_is_a_bad_row(value: int, tmp_path: Path) -> None:
    table = created(tmp_path / "t", options={ASKED: "TIMESTAMP", **DAYS})

    with pytest.raises(BadRows, match="beyond the years"):
        table.write(rows(("a", 0, "x"), ("b", value, "x")), options=DIRECT)


def test_times_of_many_rows_become_few_texts() -> None:
    column = pa.array(range(0, 80_000_000_000, 80_000), pa.int64())

    texts = time_texts(time_rule(DAYS), "at", column)

    assert len(texts) == 1_000_000
    assert texts[0].as_py() == "1970/01/01"
    assert len(texts.unique()) == 926
