"""Adopting a table that another engine made: what the rows prove, and what is in the way."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from workers.clock import format_instant
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput, ServiceRefused, UnsupportedTable
from workers.files.properties import load_properties, store_properties
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.storage.local import LocalStorage
from workers.table_services.adopt import Adopt
from workers.table_services.service import ServicePlan

_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "part": pa.string(),
    "ts": pa.int64(),
}
SCHEMA = pa.schema(_TYPES)
DIRECT = {"hoodie.write.markers.type": "direct"}
BUCKETS = "hoodie.bucket.index.num.buckets"
HASHED = "hoodie.bucket.index.hash.field"
ZONE = "hoodie.table.timeline.timezone"


def rows(numbers: range) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": f"k{n}", "part": "ab"[n % 2], "ts": n} for n in numbers], schema=SCHEMA
    )


def foreign(
    location: Path, numbers: range = range(200), *, key: str = "id", hashed: str = ""
) -> LakehouseTable:
    """As Hudi leaves a table with a bucket index: nothing says that it has one."""
    table = create_table(
        location,
        name="t",
        schema=SCHEMA,
        record_key=key.split(","),
        partition_by=["part"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
        options={BUCKETS: "6", HASHED: hashed},
    )
    if numbers:
        assert isinstance(table.write(rows(numbers), options=DIRECT), Committed)
    forget(location)
    return open_table(location)


def forget(location: Path) -> None:
    storage = LocalStorage(location)
    properties = load_properties(storage)
    for key in (BUCKETS, HASHED, "hoodie.index.type"):
        properties.pop(key, None)
    store_properties(storage, {**properties, ZONE: "LOCAL"})


def change(location: Path, changes: dict[str, str]) -> LakehouseTable:
    storage = LocalStorage(location)
    store_properties(storage, {**load_properties(storage), **changes})
    return open_table(location)


def planned(table: LakehouseTable, **parameters: str) -> ServicePlan:
    return Adopt().plan(table.table, parameters)


def test_adopted_table_is_written_where_its_rows_lie(tmp_path: Path) -> None:
    table = foreign(tmp_path / "t")
    with pytest.raises(UnsupportedTable, match="adopt the table first"):
        table.write(rows(range(1)))

    outcome = table.adopt()

    assert outcome.figures["buckets"] == 6
    assert isinstance(table.write(rows(range(100, 300)), options=DIRECT), Committed)
    assert table.read().num_rows == 300
    properties = load_properties(LocalStorage(tmp_path / "t"))
    assert (properties[BUCKETS], properties[HASHED], properties[ZONE]) == ("6", "id", "UTC")
    assert properties["sluice.adopted.at"].isdigit()


INDEX = "hoodie.index.type"
SIMPLE_MOVES = "hoodie.simple.index.update.partition.path"


@pytest.mark.parametrize(
    ("index", "more", "kept"),
    [
        ("BLOOM", {}, {INDEX: "BLOOM"}),
        ("SIMPLE", {}, {INDEX: "SIMPLE"}),
        ("GLOBAL_SIMPLE", {}, {INDEX: "GLOBAL_SIMPLE", SIMPLE_MOVES: "true"}),
        (
            "GLOBAL_SIMPLE",
            {SIMPLE_MOVES: "false"},
            {INDEX: "GLOBAL_SIMPLE", SIMPLE_MOVES: "false"},
        ),
    ],
)
def test_a_table_whose_keys_are_looked_up_is_adopted_by_the_name_of_its_index(
    tmp_path: Path, index: str, more: dict[str, str], kept: dict[str, str]
) -> None:
    create_table(
        tmp_path / "t",
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        options={INDEX: index, **more},
    ).write(rows(range(50)), options=DIRECT)
    forget(tmp_path / "t")
    table = open_table(tmp_path / "t")
    assert any("hoodie.index.type=BLOOM" in one for one in planned(table).blockers)

    outcome = table.adopt({INDEX: index, **more})

    assert outcome.figures == {"rows_read": 50, "file_groups_read": 2}
    properties = load_properties(LocalStorage(tmp_path / "t"))
    assert kept.items() <= properties.items()
    assert BUCKETS not in properties
    assert isinstance(table.write(rows(range(40, 60)), options=DIRECT), Committed)
    assert table.read().num_rows == 60
    assert planned(table).is_done


def test_rows_that_lie_elsewhere_are_no_table_of_such_an_index(tmp_path: Path) -> None:
    table = foreign(tmp_path / "t")
    (tmp_path / "t" / "a").rename(tmp_path / "t" / "c")
    index_options = {INDEX: "GLOBAL_SIMPLE"}

    [blocker] = planned(table, **index_options).blockers

    assert "in 'c', and Sluice in 'a'" in blocker
    assert not planned(table, **index_options, **{SIMPLE_MOVES: "false"}).blockers


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({INDEX: "SIMPLE", BUCKETS: "4"}, "has buckets"),
        ({INDEX: "RECORD_INDEX"}, "metadata table"),
        ({INDEX: "BLOOM", SIMPLE_MOVES: "true"}, "another index"),
    ],
)
def test_an_index_that_cannot_be_is_refused(
    tmp_path: Path, parameters: dict[str, str], named: str
) -> None:
    table = foreign(tmp_path / "t")

    with pytest.raises(InvalidInput, match=named):
        planned(table, **parameters)


def test_plan_changes_nothing_and_names_every_property(tmp_path: Path) -> None:
    table = foreign(tmp_path / "t")
    before = load_properties(LocalStorage(tmp_path / "t"))

    plan = planned(table)

    assert {item.what: item.detail for item in plan.items} == {
        "hoodie.index.type": "BUCKET",
        BUCKETS: "6",
        HASHED: "id",
        ZONE: "UTC",
    }
    assert not plan.blockers
    assert plan.warnings
    assert load_properties(LocalStorage(tmp_path / "t")) == before


def test_doing_it_again_does_nothing(tmp_path: Path) -> None:
    table = foreign(tmp_path / "t")
    table.adopt()
    before = load_properties(LocalStorage(tmp_path / "t"))

    assert planned(table).is_done
    table.adopt()

    assert load_properties(LocalStorage(tmp_path / "t")) == before


@pytest.mark.parametrize("numbers", [range(0), range(1)])
def test_too_few_rows_need_a_number(tmp_path: Path, numbers: range) -> None:
    table = foreign(tmp_path / "t", numbers)

    [blocker] = planned(table).blockers
    assert BUCKETS in blocker

    assert not planned(table, **{BUCKETS: "6"}).blockers


def test_number_that_the_rows_contradict_is_refused(tmp_path: Path) -> None:
    table = foreign(tmp_path / "t")

    with pytest.raises(ServiceRefused, match="do not lie in 8 buckets"):
        table.adopt({BUCKETS: "8"})


def test_hashed_fields_that_are_not_the_whole_key_are_asked_for(tmp_path: Path) -> None:
    table = foreign(tmp_path / "t", key="id,ts", hashed="id")

    [blocker] = planned(table).blockers
    assert HASHED in blocker

    table.adopt({HASHED: "id"})
    assert isinstance(table.write(rows(range(50, 250)), options=DIRECT), Committed)
    assert table.read().num_rows == 250


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hoodie.table.metadata.partitions": "files"}, "metadata table"),
        ({"hoodie.table.cdc.enabled": "true"}, "CDC"),
        ({"hoodie.table.keygenerator.type": "TIMESTAMP"}, "TIMESTAMP"),
        ({"hoodie.table.keygenerator.type": "COMPLEX"}, "spell a key differently"),
        ({"hoodie.datasource.write.hive_style_partitioning": "true"}, "'part=a'"),
        ({"hoodie.index.type": "RECORD_INDEX"}, "metadata table"),
    ],
)
def test_what_is_in_the_way_is_named(tmp_path: Path, changes: dict[str, str], named: str) -> None:
    foreign(tmp_path / "t")

    [blocker] = planned(change(tmp_path / "t", changes)).blockers

    assert named in blocker


def test_file_groups_of_another_index_are_named(tmp_path: Path) -> None:
    table = foreign(tmp_path / "t")
    log = next((tmp_path / "t" / "a").glob("*.parquet"), None) or next(
        (tmp_path / "t" / "a").glob(".0*")
    )
    file_id = log.name.lstrip(".").partition("_")[0]
    log.rename(log.with_name(log.name.replace(file_id, "3f2b0c1e-aaaa-bbbb-cccc-000000000000-0")))

    [blocker] = planned(table).blockers

    assert "3f2b0c1e" in blocker


def test_pending_work_of_another_engine_is_named(tmp_path: Path) -> None:
    table = foreign(tmp_path / "t")
    pending = tmp_path / "t" / ".hoodie" / "timeline" / "20240101000000000.deltacommit.inflight"
    pending.touch()

    [blocker] = planned(table).blockers

    assert "deltacommit 20240101000000000 is inflight" in blocker


def test_timeline_that_is_ahead_of_utc_waits(tmp_path: Path) -> None:
    table = foreign(tmp_path / "t")
    now_ms = table.table.ports.clock.now_ms()
    ahead = [format_instant(now_ms + hours * 3_600_000) for hours in (5, 6)]
    timeline = tmp_path / "t" / ".hoodie" / "timeline"
    newest = max(timeline.glob("*.deltacommit"))
    newest.rename(timeline / f"{ahead[0]}_{ahead[1]}.deltacommit")

    blockers = planned(open_table(tmp_path / "t")).blockers

    assert any("ahead" in one for one in blockers)


def test_unknown_parameter_and_field_are_refused(tmp_path: Path) -> None:
    table = foreign(tmp_path / "t", range(0))

    with pytest.raises(InvalidInput, match="unknown parameter"):
        planned(table, buckets="4")
    with pytest.raises(InvalidInput, match="record key"):
        planned(table, **{HASHED: "ts"})


@pytest.mark.parametrize("value", ["it's", "50%", "a=b%20c"])
def test_path_that_sluice_does_not_write_is_named_with_what_to_do(
    tmp_path: Path, value: str
) -> None:
    """Hudi spells such values raw, unless it encodes them."""
    encode = "hoodie.datasource.write.partitionpath.urlencode"
    create_table(
        tmp_path / "t",
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        options={BUCKETS: "1", encode: "true"},
    ).write(pa.table({"id": ["k"], "part": [value], "ts": [1]}), options=DIRECT)
    forget(tmp_path / "t")
    table = change(tmp_path / "t", {encode: "false"})

    [blocker] = planned(table, **{BUCKETS: "1"}).blockers

    assert "has a path that Sluice does not write" in blocker
    assert f"{encode}=true" in blocker
    assert table.read().column("part").unique().to_pylist() == [value]
