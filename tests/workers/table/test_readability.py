"""Tables of other engines that are not read, each refused by the name of what is in the way."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from workers.errors import InvalidInput, UnsupportedTable
from workers.files.properties import load_properties, store_properties
from workers.lakehouse import create_table, open_table
from workers.options.table_keys import MergeMode
from workers.options.table_options import config_from_properties
from workers.schema.table_schema import TableSchema
from workers.storage.local import LocalStorage
from workers.timeline.layout import TimelineLayout
from workers.timeline.metadata import read_commit_metadata

_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64()}
SCHEMA = pa.schema(_TYPES)
EVENT, COMMIT = MergeMode.EVENT_TIME_ORDERING, MergeMode.COMMIT_TIME_ORDERING
_PAYLOADS = "org.apache.hudi.common.model."
_EVENT_ID = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
_COMMIT_ID = "ce9acb64-bde0-424c-9b91-f6ebba25356d"


@pytest.fixture
def location(tmp_path: Path) -> Path:
    create_table(tmp_path / "t", name="t", schema=SCHEMA, record_key=["id"], ordering=["ts"]).write(
        pa.table({"id": ["a"], "ts": [1]}), options={"hoodie.write.markers.type": "direct"}
    )
    return tmp_path / "t"


def change(location: Path, changes: dict[str, str]) -> None:
    storage = LocalStorage(location)
    store_properties(storage, {**load_properties(storage), **changes})


@pytest.mark.parametrize("buckets", ["many", "-1", "0", "1=e"])
def test_a_number_of_buckets_that_is_none_is_refused_by_its_key(
    location: Path, buckets: str
) -> None:
    change(location, {"hoodie.bucket.index.num.buckets": buckets})

    with pytest.raises(InvalidInput, match=r"hoodie\.bucket\.index\.num\.buckets"):
        open_table(location)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hoodie.table.version": "5"}, "version=5"),
        ({"hoodie.table.version": "7"}, "version=7"),
        ({"hoodie.table.version": "10"}, "version=10"),
        ({"hoodie.timeline.layout.version": "1"}, "layout=1"),
        ({"hoodie.timeline.path": "elsewhere"}, "elsewhere"),
        ({"hoodie.timeline.history.path": "elsewhere"}, "elsewhere"),
        ({"hoodie.archivelog.folder": "../other"}, "other"),
        ({"hoodie.table.base.file.format": "LANCE"}, "LANCE"),
        ({"hoodie.table.base.file.format": "HFILE"}, "HFILE"),
        ({"hoodie.table.base.file.format": "ORC"}, "ORC"),
        ({"hoodie.table.multiple.base.file.formats.enable": "true"}, "several formats"),
        ({"hoodie.table.format": "iceberg"}, "iceberg"),
        ({"hoodie.datasource.write.drop.partition.columns": "true"}, "partition columns"),
        ({"hoodie.bootstrap.base.path": "/lake/source"}, "bootstrapped.*/lake/source"),
        ({"hoodie.record.merge.mode": "CUSTOM"}, "mergers of other engines"),
        ({"hoodie.record.merge.mode": "HOPEFUL"}, "HOPEFUL"),
        (
            {
                "hoodie.record.merge.mode": "CUSTOM",
                "hoodie.record.merge.strategy.id": "12345678-aaaa",
                "hoodie.table.legacy.payload.class": "com.shop.Payload",
            },
            "12345678-aaaa.*com.shop.Payload",
        ),
        ({"hoodie.record.merge.strategy.id": _COMMIT_ID}, _COMMIT_ID),
        ({"hoodie.table.partial.update.mode": "FILL_UNAVAILABLE"}, "FILL_UNAVAILABLE"),
        (
            {"hoodie.record.merge.property.hoodie.payload.delete.field": "Op"},
            "hoodie.payload.delete.field=Op",
        ),
    ],
)
def test_what_is_not_read_is_refused_by_name_when_the_table_is_opened(
    location: Path, changes: dict[str, str], named: str
) -> None:
    change(location, changes)

    with pytest.raises(UnsupportedTable, match=named):
        open_table(location)


@pytest.mark.parametrize("kind", ["orc", "hfile", "lance"])
def test_base_file_of_a_format_that_is_not_read_is_refused_where_it_lies(
    location: Path, kind: str
) -> None:
    [base] = location.glob("*.parquet")
    base.rename(base.with_suffix(f".{kind}"))

    with pytest.raises(UnsupportedTable, match=f"format {kind}.*{base.stem}"):
        open_table(location).read()


@pytest.mark.parametrize("logical", ["variant", "blob", "vector(3, FLOAT)"])
def test_column_of_a_type_that_is_not_read_is_refused(logical: str) -> None:
    special = {
        "type": "record",
        "name": "payload",
        "logicalType": logical,
        "fields": [{"name": "value", "type": "bytes"}],
    }
    inner = {"type": "array", "items": ["null", special]}
    avro = {
        "type": "record",
        "name": "t_record",
        "fields": [{"name": "id", "type": "string"}, {"name": "listed", "type": inner}],
    }

    with pytest.raises(UnsupportedTable, match=logical[:4].upper()):
        TableSchema.from_avro_json(json.dumps(avro))


@pytest.mark.parametrize(
    ("merge_properties", "mode"),
    [
        ({}, EVENT),
        ({"hoodie.table.precombine.field": ""}, COMMIT),
        ({"hoodie.compaction.payload.class": _PAYLOADS + "DefaultHoodieRecordPayload"}, EVENT),
        ({"hoodie.compaction.payload.class": _PAYLOADS + "EventTimeAvroPayload"}, EVENT),
        ({"hoodie.compaction.payload.class": _PAYLOADS + "OverwriteWithLatestAvroPayload"}, COMMIT),
        ({"hoodie.record.merge.strategy.id": _COMMIT_ID}, COMMIT),
        ({"hoodie.compaction.record.merger.strategy": _COMMIT_ID}, COMMIT),
        (
            {
                "hoodie.compaction.payload.class": _PAYLOADS + "OverwriteWithLatestAvroPayload",
                "hoodie.compaction.record.merger.strategy": _EVENT_ID,
            },
            COMMIT,
        ),
    ],
)
def test_merge_mode_of_version_6_is_what_its_payload_or_strategy_implies(
    merge_properties: dict[str, str], mode: MergeMode
) -> None:
    properties = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "6",
        "hoodie.table.precombine.field": "ts",
        **merge_properties,
    }

    assert config_from_properties(properties).merge_mode is mode


@pytest.mark.parametrize(
    "merge_properties",
    [
        {"hoodie.compaction.payload.class": _PAYLOADS + "PartialUpdateAvroPayload"},
        {"hoodie.compaction.payload.class": "com.shop.Payload"},
        {"hoodie.record.merge.strategy.id": "12345678-aaaa"},
    ],
)
def test_version_6_with_a_merge_of_its_own_is_refused(merge_properties: dict[str, str]) -> None:
    properties = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "6",
        **merge_properties,
    }

    with pytest.raises(UnsupportedTable, match=next(iter(merge_properties.values()))):
        config_from_properties(properties)


@pytest.mark.parametrize(
    ("generator_properties", "kind"),
    [
        ({"hoodie.table.keygenerator.type": "COMPLEX_AVRO"}, "COMPLEX_AVRO"),
        (
            {"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator"},
            "SIMPLE",
        ),
        (
            {"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexAvroKeyGenerator"},
            "COMPLEX",
        ),
        ({"hoodie.table.keygenerator.class": "com.shop.Keys"}, "Keys"),
        ({}, ""),
    ],
)
def test_key_generator_is_known_by_type_or_by_class(
    generator_properties: dict[str, str], kind: str
) -> None:
    properties = {
        "hoodie.table.name": "t",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "6",
        **generator_properties,
    }

    assert config_from_properties(properties).key_generator == kind


def test_schema_by_column_ids_is_refused(location: Path) -> None:
    """As Hudi writes it with schema on read: what a renamed column was called is told by its id."""
    storage = LocalStorage(location)
    [*_, newest] = open_table(location).table.timeline().list_completed_writes()
    path = TimelineLayout().path(newest)
    metadata = read_commit_metadata(storage.read(path))
    storage.put(path, metadata.with_extra(latest_schema="{}").encode(newest.action))

    with pytest.raises(UnsupportedTable, match=newest.requested_at):
        open_table(location).read()
