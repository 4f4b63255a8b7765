"""The data source's filter: fewer slices are planned, and the rows are those that match.

No session is needed: planning and the tasks' side are ordinary calls.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict

from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable, create_table
from workers.read.predicate import predicate_of
from workers.read.request import read_request
from workers.read.scan_plan import scan_of
from workers.spark.datasource import SluiceDataSource
from workers.spark.datasource.options import condition_of, request_of
from workers.spark.datasource.reader import SluiceReader, context_of, plan_work
from workers.spark.types import to_spark
from workers.spark.work import ScanWork

DIRECT = {"hoodie.write.markers.type": "direct"}
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
CITIES = ["Oslo", "São Paulo", "a/b", "50 %", "x=y", "", None]


def filled(where: Path, rows: pa.Table, options: dict[str, str], **keys: Any) -> LakehouseTable:
    """Half of the rows a second time, so that merge-on-read tables have logs."""
    table = create_table(
        where / "table",
        name="t",
        schema=rows.schema,
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "4", **options},
        **keys,
    )
    table.write(rows, options=DIRECT)
    table.write(rows.slice(0, rows.num_rows // 2), options=DIRECT)
    return table


def planned(table: LakehouseTable, condition: str | None, **request: Any) -> tuple[int, pa.Table]:
    """How many slices are read, and the rows of all tasks."""
    work, schema = plan_work(table.table, read_request(**request), condition)
    reader = SluiceReader(work, schema)
    batches = [batch for one in reader.partitions() for batch in reader.read(one)]
    return len(reader.partitions()), pa.Table.from_batches(batches, schema)


def assert_pruned_to(table: LakehouseTable, condition: str, most: int) -> None:
    slices, rows = planned(table, condition)
    everything = table.read()
    matching = everything.filter(predicate_of(condition, everything.schema).expression)
    assert listed(rows) == listed(matching), condition
    assert slices <= most < len(table.file_groups()), condition


def listed(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("options", [ENCODED, ENCODED | HIVE], ids=["plain", "hive"])
def test_partition_values_tell_where_rows_are(tmp_path: Path, options: dict[str, str]) -> None:
    count = 10 * len(CITIES)
    rows = pa.table(
        {"id": [f"k{one}" for one in range(count)], "city": CITIES * 10, "n": list(range(count))}
    )
    table = filled(tmp_path, rows, options, record_key=["id"], partition_by=["city"])

    for city in CITIES[:5]:
        assert_pruned_to(table, f"city = '{city}' AND n > 3", 4)
    assert_pruned_to(table, "city IN ('a/b', 'x=y', 'nowhere')", 8)
    assert_pruned_to(table, "city IS NULL", 4)
    assert_pruned_to(table, "city = ''", 4)
    assert_pruned_to(table, "city BETWEEN 'P' AND 'b'", 12)  # As text: São Paulo, a/b.
    groups = len(table.file_groups())
    assert_pruned_to(table, "city IS NOT NULL AND city <> 'Oslo'", groups - 1)
    assert planned(table, "city = 'nowhere'")[0] == 0
    for told_nothing in (
        "city = 'Oslo' OR n = 1",
        "city = 'Oslo' AND n < 9 OR n = 1",
        "n = 1 OR (city = 'Oslo' AND n < 9)",
        "NOT city = 'Oslo' AND (city = 'Oslo' OR n > 3)",
    ):
        assert planned(table, told_nothing)[0] == groups, told_nothing


def test_partitions_of_several_columns_and_types(tmp_path: Path) -> None:
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2), None]
    rows = pa.table(
        {
            "id": list(range(36)),
            "day": pa.array(days * 12, pa.date32()),
            "hour": [*range(4), *range(4), *range(4)] * 3,
        }
    )
    table = filled(tmp_path, rows, HIVE, record_key=["id"], partition_by=["day", "hour"])
    groups = len(table.file_groups())

    assert_pruned_to(table, "day >= '2024-01-02' AND hour = 3", 4)
    assert_pruned_to(table, "hour < 2 AND day IS NULL", 8)
    assert_pruned_to(table, "hour = 2", groups // 3)
    assert planned(table, "day > '2024-01-02'")[0] == 0


def test_values_with_slashes_tell_nothing_of_several_columns(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "one": ["x", "x"], "two": ["y/z", "w"]})
    table = filled(tmp_path, rows, {}, record_key=["id"], partition_by=["one", "two"])

    assert planned(table, "two = 'y/z'")[1].num_rows == 1


def test_keys_tell_the_bucket(tmp_path: Path) -> None:
    keys = ["", "ß€😀", "it's", "a,b", "c:d", *(f"k{one}" for one in range(40))][1:]
    rows = pa.table({"id": keys, "n": list(range(len(keys)))})
    table = filled(tmp_path, rows, {}, record_key=["id"])

    for key in keys[:6]:
        quoted = key.replace("'", "''")
        assert_pruned_to(table, f"id = '{quoted}'", 1)
    assert_pruned_to(table, "id IN ('k1', 'k2') AND n >= 0", 2)
    assert_pruned_to(table, "id IN ('k1', 'k2') AND id = 'k2'", 1)
    assert planned(table, "id > 'k1'")[0] == len(table.file_groups())


def test_times_without_a_zone_and_keys_that_hudi_parses_tell_the_bucket(tmp_path: Path) -> None:
    moments = [dt.datetime.fromisoformat(f"2026-01-01 00:00:0{n}.000001") for n in range(9)]
    times = pa.table({"at": pa.array(moments, pa.timestamp("us")), "n": range(9)})
    texts = pa.table({"id": [f"id:{n},x" for n in range(9)], "n": range(9)})

    assert_pruned_to(
        filled(tmp_path / "times", times, {}, record_key=["at"]),
        "at = '2026-01-01 00:00:03.000001'",
        1,
    )
    assert_pruned_to(filled(tmp_path / "texts", texts, {}, record_key=["id"]), "id = 'id:3,x'", 1)


def test_composite_keys_tell_the_bucket_when_all_fields_are_named(tmp_path: Path) -> None:
    names = ["x", "y", "it's", "a,b", "c:d", "a,b:c"]
    rows = pa.table({"name": names * 6, "number": [one // 6 for one in range(36)]})
    table = filled(tmp_path, rows, {}, record_key=["name", "number"])

    for name in names:
        quoted = name.replace("'", "''")
        assert_pruned_to(table, f"name = '{quoted}' AND number = 3", 1)
    assert_pruned_to(table, "number IN (1, 2) AND name = 'x'", 2)
    assert planned(table, "name = 'x'")[0] == len(table.file_groups())


def test_windows_are_pruned_and_columns_that_only_the_filter_needs_do_not_show(
    tmp_path: Path,
) -> None:
    rows = pa.table({"id": [f"k{one}" for one in range(40)], "n": list(range(40))})
    table = filled(tmp_path, rows, {}, record_key=["id"])
    first = table.table.timeline().list_completed_writes()[1]

    slices, window = planned(table, "id = 'k3'", since=first.completed_at)
    assert (slices, window.column("n").to_pylist()) == (1, [3])
    slices, narrow = planned(table, "id = 'k3'", columns=["n"])
    assert (slices, narrow.to_pydict()) == (1, {"n": [3]})


def test_where_leaves_out_row_groups_and_columns_as_a_scan_does(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "n": [1, 2], "wide": ["x" * 1000, "y" * 1000]})
    options = {"hoodie.bucket.index.num.buckets": "1"}
    table = create_table(
        tmp_path / "table", name="t", schema=rows.schema, record_key=["id"], options=options
    )
    table.write(rows, options=DIRECT)
    work, schema = plan_work(table.table, read_request(columns=["wide"]), "n > 1")
    planned_none, _ = plan_work(table.table, read_request(columns=["wide"]), "n > 2")
    scan = scan_of(table.table, read_request(columns=["wide"]), "n > 2")
    none = ScanWork.of(scan, context_of(table.table, scan.table_schema))
    assert isinstance(work, ScanWork)
    assert len(planned_none) == 0
    assert cloudpickle.loads(cloudpickle.dumps(work)).predicate.columns == {"n"}

    [base] = [one.slice_.base_file for one in work.planned]
    path = Path(table.location) / str(base)
    whole = path.read_bytes()
    path.write_bytes(b"\0" * (len(whole) - footer_bytes(whole)) + whole[-footer_bytes(whole) :])

    assert [rows.num_rows for rows in none.tables(0)] == []  # By the footer alone.
    path.write_bytes(whole)
    assert [rows.to_pydict() for rows in work.tables(0)] == [{"wide": ["y" * 1000]}]
    assert schema.names == ["wide"]


def footer_bytes(parquet: bytes) -> int:
    return 8 + int.from_bytes(parquet[-8:-4], "little")


def test_schema_that_somebody_declares_is_the_tables_or_refused(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a"], "n": pa.array([1], pa.int64())})
    table = create_table(tmp_path / "table", name="t", schema=rows.schema, record_key=["id"])
    table.write(rows, options=DIRECT)
    given = CaseInsensitiveDict({"path": table.location})

    def read(**declared: pa.DataType) -> list[dict[str, Any]]:
        reader = SluiceDataSource(given).reader(to_spark(pa.schema(declared)))
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        return [row for batch in batches for row in batch.to_pylist()]

    assert read(n=pa.int64(), id=pa.string()) == [{"n": 1, "id": "a"}]
    assert read(n=pa.int64()) == [{"n": 1}]
    with pytest.raises(InvalidInput, match="declared otherwise, or have changed"):
        read(id=pa.string(), n=pa.int32())
    with pytest.raises(InvalidInput, match="no such column"):
        read(id=pa.string(), m=pa.int64())


def test_filter_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a"], "n": [1]})
    table = filled(tmp_path, rows, {}, record_key=["id"])

    for condition in ("nowhere = 1", "n = ", "n = 'x'"):
        with pytest.raises(InvalidInput):
            planned(table, condition)
    with pytest.raises(InvalidInput, match="not with changes"):
        planned(table, "n = 1", query="cdc", since="earliest")
    assert request_of({"sluice.read.filter": "n = 1"}) == read_request()
    assert condition_of({"where": "n = 1"}) == condition_of({"sluice.read.filter": "n = 1"})
    with pytest.raises(InvalidInput, match="two options of one meaning"):
        condition_of({"where": "n = 1", "sluice.read.filter": "n = 2"})


def test_statistics_of_base_files_leave_slices_without_a_task(tmp_path: Path) -> None:
    cities = ["Oslo", "Bergen", "Rome", "Turin"]
    rows = pa.table(
        {
            "id": [f"k{number}" for number in range(400)],
            "city": [cities[number // 100] for number in range(400)],
            "n": list(range(400)),
        }
    )
    table = create_table(
        tmp_path / "table",
        name="t",
        schema=rows.schema,
        record_key=["id"],
        partition_by=["city"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "1"},
    )
    table.write(rows, options=DIRECT)

    assert_pruned_to(table, "n BETWEEN 120 AND 180", 1)
    assert_pruned_to(table, "n >= 350", 1)
    assert planned(table, "n < 0")[0] == 0
    # A log may hold what the base file does not.
    late = pa.table({"id": ["k399"], "city": ["Turin"], "n": [150]})
    table.write(late, options=DIRECT)
    assert_pruned_to(table, "n BETWEEN 120 AND 180", 2)
