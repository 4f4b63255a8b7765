"""Creating and opening tables: what is laid down, what is refused, what is read only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.referee import assert_referee_agrees
from tests.support.scenario_table import READINGS, schema_of
from workers.concurrency.lock_takeover import table_lock
from workers.errors import InvalidInput, LockTimeout, TableExists, TableNotFound, UnsupportedTable
from workers.files.properties import load_properties, store_properties, table_checksum
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.options.table_options import config_from_properties, table_options
from workers.options.write_options import write_options
from workers.storage.local import LocalStorage
from workers.timeline.metadata import SCHEMA_KEY, read_commit_metadata
from workers.write.removal import remove_unwritten

ALONE = {"hoodie.write.markers.type": "direct"}
PRECOMBINE = "hoodie.datasource.write.precombine.field"
IMPATIENT = {"hoodie.write.lock.wait_time_ms": "50"}
PARTIAL = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}

RATIOS = schema_of(
    ratio=pa.float64(), moment=pa.timestamp("us", "UTC"), place=pa.string(), ts=pa.int64()
)
ZONELESS = schema_of(
    id=pa.string(), moment=pa.list_(pa.timestamp("us")), place=pa.string(), ts=pa.int64()
)


def create(location: Path, **changes: Any) -> LakehouseTable:
    definition: dict[str, Any] = {
        "name": "readings",
        "schema": READINGS,
        "record_key": ["id"],
        "ordering": ["ts"],
        "partition_by": ["place"],
        "table_type": "MERGE_ON_READ",
    }
    return create_table(location, **(definition | changes))


def test_properties_are_those_that_hudi_reads(tmp_path: Path) -> None:
    create(tmp_path / "t")

    properties = load_properties(LocalStorage(tmp_path / "t"))

    expected = {
        "hoodie.table.name": "readings",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "place",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "8",
        "hoodie.bucket.index.hash.field": "id",
        "hoodie.table.checksum": str(table_checksum("", "readings")),
    }
    assert expected.items() <= properties.items()
    assert "hoodie.table.metadata.partitions" not in properties


@pytest.mark.parametrize("ordering", [(), ("ts",)])
def test_the_ordering_field_may_be_given_by_the_precombine_option(
    tmp_path: Path, ordering: Sequence[str]
) -> None:
    create(tmp_path / "t", ordering=ordering, options={PRECOMBINE: "ts"})

    properties = load_properties(LocalStorage(tmp_path / "t"))
    assert properties["hoodie.table.ordering.fields"] == "ts"
    assert properties["hoodie.record.merge.mode"] == "EVENT_TIME_ORDERING"
    assert PRECOMBINE not in properties


def test_a_precombine_option_that_contradicts_the_ordering_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="contradicts") as refused:
        create(tmp_path / "t", ordering=["ts"], options={PRECOMBINE: "value"})

    assert refused.value.values["ordering"] == ("ts",)
    assert not (tmp_path / "t").exists()


HASHED = "hoodie.bucket.index.hash.field"
INDEX = "hoodie.index.type"
CLASS = "hoodie.index.class"
CLASSES = "org.apache.hudi.index"
ENGINE = "hoodie.index.bucket.engine"
BLOOM_MOVES = "hoodie.bloom.index.update.partition.path"
SIMPLE_MOVES = "hoodie.simple.index.update.partition.path"
FPP = "hoodie.index.bloom.fpp"
FILTERS = {
    "hoodie.index.bloom.num_entries": "60000",
    FPP: "0.000000001",
    "hoodie.bloom.index.filter.type": "DYNAMIC_V0",
    "hoodie.bloom.index.filter.dynamic.max.entries": "100000",
}
GROUP = '{"weather": {"columns": ["value"], "ordering": ["ts"]}}'


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({INDEX: "simple"}, {INDEX: "SIMPLE"}),
        ({INDEX: "BLOOM"}, {INDEX: "BLOOM"}),
        ({CLASS: f"{CLASSES}.bloom.HoodieBloomIndex"}, {INDEX: "BLOOM"}),
        ({CLASS: f"{CLASSES}.simple.HoodieSimpleIndex"}, {INDEX: "SIMPLE"}),
        ({CLASS: f"{CLASSES}.bucket.HoodieSimpleBucketIndex"}, {INDEX: "BUCKET"}),
        ({INDEX: "SIMPLE_BUCKET", ENGINE: "simple"}, {INDEX: "BUCKET"}),
        ({INDEX: "GLOBAL_SIMPLE"}, {INDEX: "GLOBAL_SIMPLE", SIMPLE_MOVES: "true"}),
        ({INDEX: "BLOOM"}, FILTERS),
        (
            {INDEX: "GLOBAL_BLOOM", FPP: "0.01", "hoodie.bloom.index.filter.type": "simple"},
            FILTERS | {FPP: "0.01", "hoodie.bloom.index.filter.type": "SIMPLE"},
        ),
        (
            {INDEX: "GLOBAL_BLOOM", BLOOM_MOVES: "False"},
            {INDEX: "GLOBAL_BLOOM", BLOOM_MOVES: "false"},
        ),
    ],
)
def test_the_index_is_kept_with_the_table(
    tmp_path: Path, options: dict[str, str], kept: dict[str, str]
) -> None:
    table = create(tmp_path / "t", options=options).table

    properties = load_properties(LocalStorage(tmp_path / "t"))

    assert kept.items() <= properties.items()
    assert table.config.index == properties[INDEX]
    has_buckets = properties[INDEX] == "BUCKET"
    assert (table.config.bloom is not None) == (FPP in properties) == ("BLOOM" in properties[INDEX])
    assert (HASHED in properties) == ("hoodie.bucket.index.num.buckets" in properties)
    assert (HASHED in properties) == has_buckets == (table.config.buckets > 0)


def test_some_of_the_key_fields_can_choose_the_bucket(tmp_path: Path) -> None:
    definition = {"record_key": ["id", "place"], "partition_by": [], "ordering": []}
    table = create(tmp_path / "t", **definition, options={HASHED: "place"})
    rows = [{"id": str(n), "place": "Oslo", "ts": n} for n in range(20)]

    table.write(pa.Table.from_pylist(rows, READINGS), options=ALONE)

    assert load_properties(LocalStorage(tmp_path / "t"))[HASHED] == "place"
    assert open_table(tmp_path / "t").table.config.index_fields == ("place",)
    assert len(table.file_groups()) == 1
    assert table.read().num_rows == 20
    assert_referee_agrees(tmp_path / "t")


@pytest.mark.parametrize("hashed", ["note", "id,note", "id,id"])
def test_fields_outside_the_key_choose_no_bucket(tmp_path: Path, hashed: str) -> None:
    with pytest.raises(InvalidInput):
        create(tmp_path / "t", options={HASHED: hashed})

    assert not (tmp_path / "t").exists()


def test_a_table_hashed_by_other_fields_than_its_key_is_read_only(tmp_path: Path) -> None:
    create(tmp_path / "t")
    storage = LocalStorage(tmp_path / "t")
    store_properties(storage, load_properties(storage) | {HASHED: "note"})

    table = open_table(tmp_path / "t")

    assert table.read().num_rows == 0
    with pytest.raises(UnsupportedTable, match="outside the record key"):
        table.table.check_writable()


def test_new_table_is_empty_for_everybody_and_knows_its_schema(tmp_path: Path) -> None:
    table = create(tmp_path / "t")

    assert table.read().num_rows == 0
    assert table.schema() == READINGS
    assert_referee_agrees(tmp_path / "t")


def test_first_instant_carries_the_schema(tmp_path: Path) -> None:
    """Without it, a foreign reader takes a pending first writer's files for archived ones."""
    table = create(tmp_path / "t").table

    [first] = table.timeline().instants

    metadata = read_commit_metadata(table.storage.read(table.layout.path(first)))
    assert first.is_completed
    assert metadata.stats == []
    assert metadata.extra_metadata[SCHEMA_KEY] == table.config.create_schema_json


def test_table_without_schema_takes_that_of_its_first_write(tmp_path: Path) -> None:
    table = create(tmp_path / "t", schema=None)

    assert table.schema() is None
    assert table.timeline() == ()
    assert table.read().num_rows == 0


def test_second_table_at_one_place_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    create(tmp_path / "t")
    before = load_properties(LocalStorage(tmp_path / "t"))

    with pytest.raises(TableExists):
        create(tmp_path / "t", name="other")

    assert load_properties(LocalStorage(tmp_path / "t")) == before


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"record_key": []}, "record key"),
        ({"record_key": ["value", "value"]}, "twice"),
        ({"record_key": ["ratio"], "schema": RATIOS}, "record key is text"),
        ({"schema": ZONELESS, "options": {"sluice.portable": "true"}}, "moment"),
        ({"options": {"sluice.portable": "perhaps"}}, "portable"),
        ({"record_key": "id"}, "record_key"),
        ({"record_key": ["nope"]}, "nope"),
        ({"partition_by": ["nope"]}, "nope"),
        ({"ordering": ["nope"]}, "nope"),
        ({"ordering": ["ts", "value"]}, "ordering"),
        ({"name": "a b"}, "table name"),
        ({"name": "../x"}, "table name"),
        ({"name": ""}, "table name"),
        ({"table_type": "SHEET"}, "table type"),
        ({"options": {"hoodie.index.typ": "BUCKET"}}, r"hoodie\.index\.type"),
        ({"options": {INDEX: "RECORD_INDEX"}}, "metadata table"),
        ({"options": {INDEX: "GLOBAL_RECORD_LEVEL_INDEX"}}, "metadata table"),
        ({"options": {INDEX: "RECORD_LEVEL_INDEX"}}, "metadata table"),
        ({"options": {INDEX: "HBASE"}}, "HBase"),
        ({"options": {INDEX: "INMEMORY"}}, "memory of one process"),
        ({"options": {INDEX: "FLINK_STATE"}}, "Flink"),
        ({"options": {INDEX: "HASH"}}, "not known"),
        ({"options": {ENGINE: "CONSISTENT_HASHING"}}, "CONSISTENT_HASHING is not supported"),
        ({"options": {INDEX: "SIMPLE", ENGINE: "SIMPLE"}}, "has an engine"),
        ({"options": {INDEX: "SIMPLE", CLASS: f"{CLASSES}.bloom.HoodieBloomIndex"}}, "differ"),
        ({"options": {CLASS: "org.example.OwnIndex"}}, "unknown class"),
        ({"options": {INDEX: "BLOOM", "hoodie.bucket.index.num.buckets": "4"}}, "has buckets"),
        ({"options": {INDEX: "SIMPLE", HASHED: "id"}}, "has buckets"),
        ({"options": {INDEX: "GLOBAL_SIMPLE", BLOOM_MOVES: "true"}}, "another index"),
        ({"options": {INDEX: "SIMPLE", SIMPLE_MOVES: "true"}}, "another index"),
        ({"options": {INDEX: "SIMPLE", FPP: "0.1"}}, "another index"),
        ({"options": {FPP: "0.1"}}, "another index"),
        ({"options": {INDEX: "BLOOM", FPP: "2"}}, "fpp"),
        ({"options": {INDEX: "GLOBAL_BLOOM", BLOOM_MOVES: "maybe"}}, "neither true nor false"),
        ({"options": {INDEX: "SIMPLE", "hoodie.multistream.groups": GROUP}}, "bucket index"),
        ({"options": {"hoodie.bucket.index.num.buckets": "0"}}, "num.buckets"),
        ({"options": {"hoodie.bucket.index.num.buckets": "many"}}, "num.buckets"),
        ({"options": {"hoodie.table.partial.update.mode": "SOME"}}, "partial"),
        ({"options": PARTIAL, "table_type": "COPY_ON_WRITE"}, "MERGE_ON_READ"),
        ({"options": PARTIAL, "ordering": []}, "ordering"),
        (
            {"options": {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}, "ordering": []},
            "ordering",
        ),
    ],
)
def test_wrong_definition_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidInput, match=named):
        create(tmp_path / "t", **changes)

    assert not (tmp_path / "t").exists()


def test_nothing_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        open_table(tmp_path)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hoodie.table.metadata.partitions": "files"}, "metadata table"),
        ({"hoodie.table.cdc.enabled": "true"}, "CDC"),
        ({"hoodie.table.version": "8"}, "version 8"),
        ({"hoodie.table.recordkey.fields": "id,place"}, "SIMPLE"),
        ({"hoodie.table.recordkey.fields": ""}, "no record key"),
        ({"hoodie.table.keygenerator.type": "TIMESTAMP"}, "TIMESTAMP"),
        ({"hoodie.table.keygenerator.type": "CUSTOM"}, "types of the partition fields"),
        ({"hoodie.table.keygenerator.type": "NON_PARTITION"}, "contradicts"),
        ({"hoodie.populate.meta.fields": "false"}, "without meta columns"),
        ({"hoodie.table.timeline.timezone": "LOCAL"}, "time zone"),
        ({"hoodie.bucket.index.num.buckets": ""}, "num.buckets"),
    ],
)
def test_table_with_what_we_do_not_maintain_is_read_only_with_the_reason(
    tmp_path: Path, changes: dict[str, str], reason: str
) -> None:
    create(tmp_path / "t")
    storage = LocalStorage(tmp_path / "t")
    store_properties(storage, {**load_properties(storage), **changes})

    table = open_table(tmp_path / "t")

    assert table.read().num_rows == 0
    with pytest.raises(UnsupportedTable, match=reason):
        table.write(READINGS.empty_table())


@pytest.mark.parametrize(
    "changes",
    [
        {"hoodie.table.version": "7"},
        {"hoodie.record.merge.mode": "CUSTOM"},
        {"hoodie.table.partial.update.mode": "FILL_UNAVAILABLE"},
    ],
)
def test_table_that_we_would_read_wrongly_is_not_opened(
    tmp_path: Path, changes: dict[str, str]
) -> None:
    create(tmp_path / "t")
    storage = LocalStorage(tmp_path / "t")
    store_properties(storage, {**load_properties(storage), **changes})

    with pytest.raises(UnsupportedTable):
        open_table(tmp_path / "t")


# ---- options


def test_options_have_hudis_defaults() -> None:
    options = write_options({})

    assert (options.heartbeat_interval_ms, options.heartbeat_misses) == (60_000, 2)
    assert (options.mode.value, options.marker_kind.value) == (
        "SINGLE_WRITER",
        "timeline_server_based",
    )
    assert options.resolves_schema_conflicts


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.write.markers.type", "DIRECT"),
        ("hoodie.write.concurrency.mode", "optimistic_concurrency_control"),
        ("hoodie.write.concurrency.schema.conflict.resolution.enable", "FALSE"),
    ],
)
def test_values_are_taken_in_any_case(key: str, value: str) -> None:
    write_options({key: value})


def test_table_without_rows_is_removed_and_another_one_is_kept(tmp_path: Path) -> None:
    empty, written = create(tmp_path / "empty"), create(tmp_path / "written")
    rows = pa.Table.from_pylist([{"id": "1", "place": "Oslo", "ts": 1}], READINGS)
    written.write(rows, options=ALONE)

    removed = [remove_unwritten(table.table, write_options({})) for table in (empty, written)]

    assert removed == [True, False]
    assert list((tmp_path / "empty").iterdir()) == []
    with pytest.raises(TableNotFound):
        empty.write(rows, options=ALONE)
    assert open_table(tmp_path / "written").read().num_rows == 1


def test_table_is_removed_only_under_its_lock(tmp_path: Path) -> None:
    table = create(tmp_path / "t").table
    options = write_options(IMPATIENT)

    with table_lock(table, options).hold(), pytest.raises(LockTimeout):
        remove_unwritten(table, options)

    assert open_table(tmp_path / "t").read().num_rows == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.write.markers.type", "sideways"),
        ("hoodie.write.concurrency.mode", "HOPEFUL"),
        ("hoodie.client.heartbeat.interval_in_ms", "0"),
        ("hoodie.client.heartbeat.interval_in_ms", "soon"),
        ("hoodie.client.heartbeat.tolerable.misses", "-1"),
        ("hoodie.write.concurrency.schema.conflict.resolution.enable", "perhaps"),
        ("hoodie.write.lock.storage.renew.interval.secs", "60"),
        ("hoodie.write.concurency.mode", "SINGLE_WRITER"),
    ],
)
def test_wrong_option_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=key.replace(".", r"\.")):
        write_options({key: value})


def test_option_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is text"):
        write_options({"hoodie.client.heartbeat.tolerable.misses": 2})  # type: ignore[dict-item]


def test_misspelt_table_option_names_the_right_one() -> None:
    with pytest.raises(InvalidInput, match=r"hoodie\.bucket\.index\.num\.buckets"):
        table_options({"hoodie.bucket.index.num.bucket": "4"})


def test_config_of_an_older_spelling_is_understood() -> None:
    config = config_from_properties(
        {
            "hoodie.table.name": "t",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": "6",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.precombine.field": "ts",
        }
    )

    assert config.ordering_field == "ts"
    assert config.timeline_layout == 1
