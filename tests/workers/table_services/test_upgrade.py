"""Upgrading tables of version 6 and 8: what changes, what does not, and what is in the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiReadOptions

from bench.support.golden import ARCHIVES, MISSING, golden_archive, unpacked
from tests.support.old_tables import files_of, with_oldest_archived
from tests.support.referee import assert_referee_agrees, referee_table
from workers.errors import InvalidInput, PlanChanged, ServiceRefused, TableChanged
from workers.files.avro_container import decode_record
from workers.files.log_block import BlockType, HeaderKey, encode_block
from workers.files.properties import load_properties, store_properties
from workers.lakehouse import LakehouseTable, open_table
from workers.options.write_options import write_options
from workers.recovery.plan import plan_rollback
from workers.storage.local import LocalStorage
from workers.table_services.registry import get_service
from workers.table_services.service import ServicePlan, ServiceRequest
from workers.table_services.upgrade.service import Upgrade
from workers.timeline.instant import Action
from workers.timeline.metadata import read_commit_metadata
from workers.timeline.savepoint_metadata import SavepointMetadata

pytestmark = pytest.mark.skipif(not ARCHIVES, reason=MISSING)

WITH_METADATA = "mor-avro-v8_trips"
OLD = [one for one in ARCHIVES if "-v6_" in one.name or "-v8_" in one.name]
V6_MOR = "mor-avro-v6_trips"


def old(name: str, tmp_path: Path) -> Path:
    location = unpacked(golden_archive(name), tmp_path)
    if name in WITH_METADATA:
        change(location, {"hoodie.table.metadata.partitions": ""})
    return location


def change(location: Path, changes: dict[str, str]) -> None:
    storage = LocalStorage(location)
    store_properties(storage, {**load_properties(storage), **changes})


def planned(location: Path, **parameters: str) -> ServicePlan:
    return Upgrade().plan(open_table(location).table, parameters)


def rows(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


def everything(table: LakehouseTable) -> dict[str, Any]:
    """What can be read of it. Times of completion are what version 6 does not tell."""
    writes = table.table.timeline().list_completed_writes()
    windows = [rows(table.read(since=one.completed_at)) for one in writes]
    schemas = [table.schema(as_of=one.completed_at) for one in writes]
    return {
        "now": rows(table.read()),
        "optimized": rows(table.read(query="read_optimized")),
        "moments": [rows(table.read(as_of=one.completed_at)) for one in writes],
        "windows": [rows(table.read(since="earliest")), *windows],
        "changes": rows(table.read(query="cdc", since="earliest").drop_columns("ts")),
        "schemas": [*schemas, table.schema()],
        "timeline": [
            (one.requested_at, one.action, one.state) for one in table.timeline(archived=True)
        ],
        "stats": [
            read_commit_metadata(table.table.storage.read(table.table.layout.path(one)))
            for one in writes
        ],
        "groups": table_groups(table),
    }


def table_groups(table: LakehouseTable) -> list[tuple[Any, ...]]:
    return [(one.partition, one.file_id, one.files) for one in table.file_groups()]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("archive", OLD, ids=lambda path: path.stem)
def test_everything_that_is_read_stays(archive: Path, tmp_path: Path) -> None:
    location = unpacked(archive, tmp_path)
    if WITH_METADATA in archive.name:
        change(location, {"hoodie.table.metadata.partitions": ""})
    before = everything(open_table(location))
    data = data_files(location)

    table = open_table(location)
    table.upgrade()

    assert table.table.config.version == 9
    assert everything(table) == before
    assert data_files(location) == data
    assert_referee_agrees(location, is_ours=False)
    for write, then in zip(
        table.table.timeline().list_completed_writes(), before["moments"], strict=True
    ):
        as_of = HudiReadOptions().with_as_of_timestamp(write.completed_at or "")
        assert referee_table(location, read_options=as_of).num_rows == len(then)


def data_files(location: Path) -> dict[str, int]:
    paths = (path for path in location.rglob("*") if path.is_file() and ".hoodie/" not in str(path))
    return {str(path.relative_to(location)): path.stat().st_mtime_ns for path in paths}


def test_active_timeline_moves_and_the_archive_stays(tmp_path: Path) -> None:
    location = tmp_path / "t"
    for path, (content, _) in with_oldest_archived(files_of(golden_archive(V6_MOR))).items():
        (location / path).parent.mkdir(parents=True, exist_ok=True)
        (location / path).write_bytes(content)
    before = open_table(location).read()

    table = open_table(location)
    outcome = table.upgrade()

    assert (outcome.figures["instants"], outcome.figures["archived_instants"]) == (1, 1)
    hoodie = location / ".hoodie"
    assert not [path for path in hoodie.iterdir() if path.name[:1].isdigit()]
    assert sorted(path.name for path in (hoodie / "timeline").iterdir()) == [
        "20250618054714114.deltacommit.inflight",
        "20250618054714114.deltacommit.requested",
        "20250618054714114_20250618054714115.deltacommit",
        "history",
    ]
    assert (hoodie / "archived").is_dir()
    [archived] = table.table.list_archived_instants(with_content=True)
    assert archived.instant.completed_at == "20250618054711155"
    assert len(read_commit_metadata(archived.metadata or b"").stats) == 3
    assert rows(table.read()) == rows(before)
    assert_referee_agrees(location, is_ours=False)


def test_commit_keeps_every_figure_that_it_told(tmp_path: Path) -> None:
    location = old(V6_MOR, tmp_path)
    [path] = (location / ".hoodie").glob("20250618054714114.deltacommit")
    [old_stat] = json.loads(path.read_bytes())["partitionToWriteStats"]["city=san_francisco"]

    open_table(location).upgrade()

    [path] = (location / ".hoodie/timeline").glob("20250618054714114_*.deltacommit")
    [new_stat] = decode_record(path.read_bytes())["partitionToWriteStats"]["city=san_francisco"]
    del old_stat["recordsStats"]  # Of log files alone, and not in Avro: Hudi drops it as well.
    assert {name: new_stat[name] for name in old_stat} == old_stat


PAYLOADS = "org.apache.hudi.common.model."


@pytest.mark.parametrize(
    ("name", "expected", "gone"),
    [
        (
            V6_MOR,
            {
                "hoodie.table.version": "9",
                "hoodie.timeline.layout.version": "2",
                "hoodie.timeline.path": "timeline",
                "hoodie.table.initial.version": "6",
                "hoodie.table.keygenerator.type": "SIMPLE",
                "hoodie.table.ordering.fields": "ts",
                "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
                "hoodie.table.legacy.payload.class": f"{PAYLOADS}OverwriteWithLatestAvroPayload",
            },
            {
                "hoodie.table.precombine.field",
                "hoodie.compaction.payload.class",
                "hoodie.compaction.record.merger.strategy",
            },
        ),
        (
            "cow-v8_complex",
            {
                "hoodie.table.version": "9",
                "hoodie.table.initial.version": "8",
                "hoodie.table.ordering.fields": "longField",
                "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
                "hoodie.table.legacy.payload.class": f"{PAYLOADS}DefaultHoodieRecordPayload",
            },
            {
                "hoodie.table.precombine.field",
                "hoodie.compaction.payload.class",
                "hoodie.record.merge.strategy.id",
            },
        ),
    ],
)
def test_properties_are_those_of_version_9(
    name: str, expected: dict[str, str], gone: set[str], tmp_path: Path
) -> None:
    location = old(name, tmp_path)
    before = load_properties(LocalStorage(location))

    open_table(location).upgrade()

    now = load_properties(LocalStorage(location))
    assert {key: now.get(key) for key in expected} == expected
    assert before.keys() - now.keys() == gone
    kept = before.keys() & now.keys() - expected.keys() - {"hoodie.timeline.layout.version"}
    assert {key: now[key] for key in kept} == {key: before[key] for key in kept}


def test_plan_shows_each_thing_and_changes_nothing(tmp_path: Path) -> None:
    location = old(V6_MOR, tmp_path)
    before = sorted(path for path in location.rglob("*"))

    plan = planned(location)

    shown = {(item.effect, item.what) for item in plan.items}
    assert ("write", "hoodie.table.version") in shown
    assert ("remove", "hoodie.table.precombine.field") in shown
    assert (
        "lay",
        ".hoodie/timeline/20250618054711154_20250618054711155.deltacommit",
    ) in shown
    assert ("delete", ".hoodie/20250618054711154.deltacommit") in shown
    assert not plan.blockers
    assert sorted(path for path in location.rglob("*")) == before


def test_doing_it_again_does_nothing(tmp_path: Path) -> None:
    location = old(V6_MOR, tmp_path)
    table = open_table(location)
    table.upgrade()
    before = {path: path.stat().st_mtime_ns for path in (location / ".hoodie").rglob("*.*commit*")}

    assert planned(location).is_done
    table.upgrade()

    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_table_that_was_never_older_is_left_alone(tmp_path: Path) -> None:
    location = unpacked(golden_archive("cow-v9_txns_simple_nometa"), tmp_path)
    stray = location / ".hoodie" / "20240707001301554.commit"
    stray.write_bytes(b"{}")

    assert planned(location).is_done
    open_table(location).upgrade()

    assert stray.exists()


def test_plan_that_was_confirmed_is_the_one_that_runs(tmp_path: Path) -> None:
    location = old(V6_MOR, tmp_path)
    shown = planned(location)
    (location / ".hoodie" / "20250618054711154.deltacommit.requested").unlink()

    request = ServiceRequest("ada", expected_plan_hash=shown.plan_hash)
    with pytest.raises(PlanChanged):
        Upgrade().run(open_table(location).table, request, write_options({}))

    assert open_table(location).table.config.version == 6


def pending(location: Path) -> None:
    (location / ".hoodie" / "20990101000000000.deltacommit.inflight").touch()


def metadata_table(location: Path) -> None:
    change(location, {"hoodie.table.metadata.partitions": "files"})


def foreign_upgrade(location: Path) -> None:
    """As Hudi's own leaves it when it dies: it moves the timeline before the properties."""
    old_file = location / ".hoodie" / "20250618054711154.deltacommit"
    there = location / ".hoodie" / "timeline"
    there.mkdir()
    old_file.rename(there / "20250618054711154_20250618054719999.deltacommit")
    for left in (location / ".hoodie").glob("20250618054711154.*"):
        left.unlink()


def custom_keys(location: Path) -> None:
    change(location, {"hoodie.table.keygenerator.type": "CUSTOM"})


def unfinished_block(location: Path) -> None:
    """Of a writer that died, whom nobody rolled back."""
    [log] = location.glob("city=san_francisco/.*.log.1_*")
    header: dict[int, str] = {
        HeaderKey.INSTANT_TIME: "20250618054799999",
        HeaderKey.SCHEMA: '"string"',
    }
    content = b"\0\0\0\3\0\0\0\0"
    log.with_name(log.name.replace(".log.1_", ".log.2_")).write_bytes(
        encode_block(BlockType.AVRO_DATA, header, content)
    )


def unknown_commit(location: Path) -> None:
    """The archive of the commit that a log is named after was lost."""
    [log] = location.glob("city=san_francisco/.*.log.1_*")
    log.rename(log.with_name(log.name.replace("20250618054711154", "20240618054711154")))


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (pending, "20990101000000000 is inflight"),
        (metadata_table, "metadata table"),
        (foreign_upgrade, "another engine began an upgrade"),
        (custom_keys, "hoodie.datasource.write.partitionpath.field"),
        (unfinished_block, "never completed"),
        (unknown_commit, "neither the timeline nor its archive"),
    ],
)
def test_what_is_in_the_way_is_named_and_nothing_changes(
    spoil: Callable[[Path], None], named: str, tmp_path: Path
) -> None:
    location = old(V6_MOR, tmp_path)
    spoil(location)
    before = names_but_locks(location)

    [blocker] = planned(location).blockers
    with pytest.raises(ServiceRefused):
        open_table(location).upgrade()

    assert named in blocker
    assert names_but_locks(location) == before


def names_but_locks(location: Path) -> list[str]:
    names = (str(path.relative_to(location)) for path in location.rglob("*"))
    return sorted(name for name in names if "lock" not in name)


def test_fields_of_a_custom_key_generator_are_told(tmp_path: Path) -> None:
    location = old(V6_MOR, tmp_path)
    custom_keys(location)
    key = "hoodie.datasource.write.partitionpath.field"

    [blocker] = planned(location, **{key: "rider:SIMPLE"}).blockers
    assert "other fields" in blocker
    open_table(location).upgrade({key: "city:SIMPLE"})

    properties = load_properties(LocalStorage(location))
    assert properties["hoodie.table.partition.fields"] == "city:SIMPLE"
    with pytest.raises(InvalidInput, match="unknown parameter"):
        planned(location, other="x")


def test_timeline_of_a_handle_from_before_says_that_it_moved(tmp_path: Path) -> None:
    location = old(V6_MOR, tmp_path)
    before = open_table(location)
    open_table(location).upgrade()

    with pytest.raises(TableChanged, match="open it again"):
        before.timeline()
    assert before.read().num_rows == 5


def test_write_from_before_is_not_rolled_back(tmp_path: Path) -> None:
    """Its rows stand in log files that are named after their base file, with those of others."""
    location = old(V6_MOR, tmp_path)
    table = open_table(location)
    table.upgrade()
    first, second = (one.requested_at for one in table.table.timeline().list_completed_writes())

    refused = plan_rollback(table.table, second)
    restoring = get_service("restore").plan(table.table, {"instant": first})

    assert any("before the table was upgraded" in one for one in refused.blockers)
    assert any("before the table was upgraded" in one for one in restoring.blockers)


def test_savepoint_comes_behind_its_commit(tmp_path: Path) -> None:
    location = old("cow-v6_simplekeygen", tmp_path)
    saved = location / ".hoodie" / "20240707001302376.savepoint"
    saved.write_bytes(SavepointMetadata("ada", 1, "kept", {}).encode())

    open_table(location).upgrade()

    times = {
        one.action: one.completed_at
        for one in open_table(location).timeline()
        if one.requested_at == "20240707001302376"
    }
    assert times == {Action.COMMIT: "20240707001302377", Action.SAVEPOINT: "20240707001302378"}
