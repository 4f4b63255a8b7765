"""Another engine changes a table that is open here: Hudi's defaults switch its metadata table on.

Whoever writes on without knowing leaves files that the metadata table does not list, and Hudi then
reads stale rows, loses whole file groups and makes a key twice. So every path looks again when it
begins, and under the lock before it publishes; and once more afterwards, for Hudi needs no lock of
ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.support.foreign_properties import METADATA_OFF, METADATA_ON, change_as_hudi
from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from tests.support.watched_storage import At, Died, WatchedStorage, fails
from workers.concurrency.outcome import Committed
from workers.errors import TableChanged, UnsupportedTable
from workers.files.properties import load_properties
from workers.lakehouse import LakehouseTable, open_table
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, resume, rollback
from workers.schema.alter import AddColumn
from workers.table import external_changes
from workers.table_layout import PROPERTIES, PROPERTIES_BACKUP, TIMELINE

SWITCHED = "active metadata table.*hoodie.metadata.enable=false"
OPTIONS = {"hoodie.write.markers.type": "direct"}
ROW = {"id": "a", "place": "Oslo", "ts": 1, "value": 1, "note": "first"}
BATCH = pa.Table.from_pylist([ROW | {"ts": 2}], schema=READINGS)


@pytest.fixture
def lake(tables: ScenarioTables) -> ScenarioTable:
    """Merge-on-read with three commits."""
    table = tables(
        schema=READINGS, table_type="MERGE_ON_READ", partition_by=["place"], ordering=["ts"]
    )
    for ts in (1, 1, 1):
        table.writer("ours").upsert_and_commit(ROW | {"ts": ts})
    return table


def instant(table: LakehouseTable, number: int) -> str:
    return table.table.timeline().list_completed_writes()[number].requested_at


PATHS: dict[str, Callable[[LakehouseTable], Any]] = {
    "write": lambda table: table.write(BATCH, options=OPTIONS),
    "delete": lambda table: table.delete(BATCH, options=OPTIONS),
    "delete by predicate": lambda table: table.delete(predicate="id = 'a'", options=OPTIONS),
    "delete partition": lambda table: table.delete_partition(["Oslo"], options=OPTIONS),
    "alter": lambda table: table.alter(AddColumn("more", pa.string()), options=OPTIONS),
    "compact": lambda table: table.compact(),
    "schedule": lambda table: table.compact(schedule=True),
    "cluster": lambda table: table.cluster(["id"]),
    "clean": lambda table: table.clean(),
    "archive": lambda table: table.archive(),
    "savepoint": lambda table: table.savepoint(),
    "restore": lambda table: table.restore(instant(table, 1)),
    "rollback": lambda table: table.rollback(instant(table, -1), dry_run=False),
}


@pytest.mark.parametrize("path", PATHS)
def test_open_handle_is_refused_once_the_metadata_table_is_on(
    path: str, lake: ScenarioTable
) -> None:
    table = open_table(lake.location)
    before = lake.rows()
    change_as_hudi(lake.location, METADATA_ON)
    listing = lake.listing()

    with pytest.raises(UnsupportedTable, match=SWITCHED):
        PATHS[path](table)

    assert lake.listing() == listing
    change_as_hudi(lake.location, METADATA_OFF)
    assert lake.rows() == before
    assert isinstance(table.write(BATCH, options=OPTIONS), Committed)


def test_savepoint_is_not_deleted_once_the_metadata_table_is_on(lake: ScenarioTable) -> None:
    table = open_table(lake.location)
    held = table.savepoint().instant
    assert held is not None
    change_as_hudi(lake.location, METADATA_ON)

    with pytest.raises(UnsupportedTable, match=SWITCHED):
        table.delete_savepoint(held)

    change_as_hudi(lake.location, METADATA_OFF)


def test_write_that_began_before_is_refused_when_it_commits_and_leaves_nothing(
    lake: ScenarioTable,
) -> None:
    before = lake.rows()
    writer = lake.writer("ours").upsert(ROW | {"ts": 5})
    change_as_hudi(lake.location, METADATA_ON)

    with pytest.raises(UnsupportedTable, match=SWITCHED):
        writer.commit()

    change_as_hudi(lake.location, METADATA_OFF)
    assert lake.rows() == before
    assert lake.leftovers() == []
    assert lake.orphan_files() == []
    assert lake.timeline()[-1] == ("rollback", "completed")


@pytest.mark.parametrize("being_built", [True, False])
def test_metadata_table_that_is_being_built_counts(being_built: bool, lake: ScenarioTable) -> None:
    table = open_table(lake.location)
    key = "hoodie.table.metadata.partitions" + (".inflight" if being_built else "")
    change_as_hudi(lake.location, {key: "files"})

    with pytest.raises(UnsupportedTable, match=SWITCHED):
        table.write(BATCH, options=OPTIONS)

    change_as_hudi(lake.location, {key: ""})


@pytest.mark.parametrize("service", ["compact", "cluster", "clean"])
def test_service_that_began_before_does_not_publish(service: str, tables: ScenarioTables) -> None:
    """It had its plan; Hudi's write comes while the files are written."""
    table = tables(
        schema=READINGS,
        table_type="MERGE_ON_READ" if service == "compact" else "COPY_ON_WRITE",
        partition_by=["place"],
        ordering=["ts"],
    )
    for ts in (1, 2, 3):
        table.writer("ours").upsert_and_commit(ROW | {"ts": ts})
    before = table.rows()
    started = {"compact": ".compaction.inflight", "cluster": ".clustering.inflight"}
    watched = WatchedStorage(
        table.location,
        before=At(
            "put_if_absent",
            started.get(service, ".clean.inflight"),
            lambda: change_as_hudi(table.location, METADATA_ON),
        ),
    )
    opened = open_table(table.location, storage=watched)
    run: dict[str, Callable[[], object]] = {
        "compact": opened.compact,
        "cluster": lambda: opened.cluster(["id"]),
        "clean": lambda: opened.clean({"hoodie.clean.commits.retained": "1"}),
    }

    with pytest.raises(UnsupportedTable, match=SWITCHED):
        run[service]()

    assert list(table.table.timeline().pending()), "the plan waits for a person"
    change_as_hudi(table.location, METADATA_OFF)
    assert table.rows() == before
    run[service]()
    assert table.timeline()[-1][1] == "completed"
    assert table.rows() == before


def test_switch_between_the_last_look_and_the_commit_is_told_and_kept(
    lake: ScenarioTable,
) -> None:
    """Hudi without a lock provider: nothing of ours keeps it from doing so."""
    watched = WatchedStorage(
        lake.location,
        before=At(
            "put_if_absent",
            ".sluice/decision/",
            lambda: change_as_hudi(lake.location, METADATA_ON),
        ),
    )
    writer = lake.writer("ours", storage=watched).upsert(ROW | {"ts": 5})

    outcome = writer.wins()

    [warning] = outcome.warnings
    assert outcome.instant in warning
    assert "active metadata table" in warning
    [kept] = external_changes.load_external_changes(lake.storage)
    assert kept.instant == outcome.instant
    assert "hoodie.metadata.enable=false" in kept.change
    change_as_hudi(lake.location, METADATA_OFF)
    assert lake.rows("ts") == [{"ts": 5}]


def test_compaction_that_was_overtaken_says_so(lake: ScenarioTable) -> None:
    watched = WatchedStorage(
        lake.location,
        before=At(
            "put_if_absent",
            ".sluice/decision/",
            lambda: change_as_hudi(lake.location, METADATA_ON),
        ),
    )

    outcome = open_table(lake.location, storage=watched).compact()

    assert "active metadata table" in outcome.warnings[0]
    change_as_hudi(lake.location, METADATA_OFF)


def switching_on_at(table: ScenarioTable, call: str, path: str) -> LakehouseTable:
    """A handle beside which the metadata table is switched on at that call, once."""
    switch = At(call, path, lambda: change_as_hudi(table.location, METADATA_ON))
    return open_table(table.location, storage=WatchedStorage(table.location, before=switch))


def test_rollback_of_a_commit_that_was_overtaken_says_so_and_keeps_it(
    lake: ScenarioTable,
) -> None:
    """The metadata table that was made meanwhile lists the files that went."""
    gone = instant(lake.lakehouse, -1)

    ended: Any = switching_on_at(lake, "put_if_absent", ".undo/").rollback(gone, dry_run=False)

    [warning] = ended.warnings
    assert f"may still count the files of {gone}" in warning
    assert "active metadata table" in warning
    [kept] = external_changes.load_external_changes(lake.storage)
    assert kept.instant == ended.rollback_instant
    change_as_hudi(lake.location, METADATA_OFF)
    assert instant(lake.lakehouse, -1) < gone


def test_rollback_of_a_commit_that_another_resumes_tells_of_it_too(
    lake: ScenarioTable,
) -> None:
    dying = At("put_if_absent", ".rollback.inflight", fails(Died()))
    opened = open_table(lake.location, storage=WatchedStorage(lake.location, before=dying))
    with pytest.raises(Died):
        opened.rollback(instant(opened, -1), dry_run=False)
    [pending] = lake.table.timeline().pending()
    change_as_hudi(lake.location, METADATA_ON)

    resume(lake.table, pending.requested_at, write_options({}))

    [kept] = external_changes.load_external_changes(lake.storage)
    assert kept.instant == pending.requested_at
    change_as_hudi(lake.location, METADATA_OFF)


def test_restore_that_is_overtaken_is_not_finished_and_its_rollback_is_told(
    lake: ScenarioTable,
) -> None:
    target = instant(lake.lakehouse, 0)

    with pytest.raises(UnsupportedTable, match=SWITCHED):
        switching_on_at(lake, "put_if_absent", ".undo/").restore(target)

    [kept] = external_changes.load_external_changes(lake.storage)
    rolled_back = [
        one for one in lake.table.timeline().iterate_completed() if one.action == "rollback"
    ]
    assert kept.instant == rolled_back[-1].requested_at
    change_as_hudi(lake.location, METADATA_OFF)
    lake.lakehouse.restore(target)


def test_commit_stands_when_the_look_afterwards_fails(lake: ScenarioTable) -> None:
    watched = WatchedStorage(lake.location)
    writer = lake.writer("ours", storage=watched).upsert(ROW | {"ts": 5})

    def unreadable(_: str, path: str) -> None:
        if (
            path in (PROPERTIES.path, PROPERTIES_BACKUP.path)
            and lake.timeline()[-1][1] == "completed"
        ):
            raise PermissionError(path)

    watched.watch(before=unreadable)
    outcome = writer.wins()

    assert "could not be looked at again" in outcome.warnings[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"hoodie.bucket.index.num.buckets": "16"},
        {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"},
        {"hoodie.datasource.write.hive_style_partitioning": "true"},
        {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
    ],
)
def test_whoever_places_or_merges_rows_by_other_rules_opens_the_table_again(
    changes: dict[str, str], lake: ScenarioTable
) -> None:
    [key] = changes
    before = load_properties(lake.storage).get(key, "")
    writer = lake.writer("ours").upsert(ROW | {"ts": 5})
    change_as_hudi(lake.location, changes)

    with pytest.raises(TableChanged, match=f"open it again.*{key}"):
        writer.commit()
    with pytest.raises(TableChanged, match=f"open it again.*{key}"):
        writer.begin(READINGS)

    change_as_hudi(lake.location, {key: before})
    assert lake.rows("ts") == [{"ts": 1}]


@pytest.mark.parametrize(
    ("call", "part", "error"),
    [
        ("put_if_absent", "table_lock", UnsupportedTable),
        ("list_files", TIMELINE.path, TableChanged),
    ],
    ids=["before the lock", "under the lock"],
)
def test_group_is_not_declared_beside_a_switch(
    call: str, part: str, error: type[Exception], tables: ScenarioTables
) -> None:
    groups = json.dumps([{"name": "a", "ordering": ["ts"], "columns": ["value"]}])
    table = tables(
        schema=READINGS,
        table_type="MERGE_ON_READ",
        options={"hoodie.multistream.groups": groups, "hoodie.bucket.index.num.buckets": "1"},
    )
    declared = load_properties(table.storage)["hoodie.multistream.groups"]
    switch = At(call, part, lambda: change_as_hudi(table.location, METADATA_ON))
    opened = open_table(table.location, storage=WatchedStorage(table.location, before=switch))
    group = {"name": "b", "ordering": ["tb"], "columns": ["more"]}
    types = {"tb": pa.int64(), "more": pa.int64()}

    with pytest.raises(error):
        opened.add_group(group, types, options=OPTIONS)

    properties = load_properties(table.storage)
    assert properties.items() >= METADATA_ON.items()
    assert properties["hoodie.multistream.groups"] == declared
    assert "more" not in open_table(table.location).read().column_names
    change_as_hudi(table.location, METADATA_OFF)
    open_table(table.location).add_group(group, types, options=OPTIONS)
    assert "more" in open_table(table.location).read().column_names


def test_properties_that_say_nothing_of_the_rows_disturb_nobody(lake: ScenarioTable) -> None:
    writer = lake.writer("ours").upsert(ROW | {"ts": 5})
    change_as_hudi(lake.location, {"hoodie.table.some.note": "by somebody: else"})

    assert writer.wins().warnings == ()


def test_dead_writers_instant_is_rolled_back_beside_a_metadata_table(
    lake: ScenarioTable,
) -> None:
    """What was never committed no metadata table lists; a commit may be in it."""
    writer = lake.writer("ours").upsert(ROW | {"ts": 5})
    table = open_table(lake.location).table
    change_as_hudi(lake.location, METADATA_ON)

    request = RollbackRequest(writer.last_instant, by="t", reason="t", is_forced=True)
    rollback(table, request, write_options({}))

    assert lake.orphan_files() == []
    change_as_hudi(lake.location, METADATA_OFF)
    writer.falls_silent()


def test_look_that_meets_hudi_between_both_files_finds_the_properties(
    lake: ScenarioTable,
) -> None:
    """Hudi takes the file away before it writes it anew, and the backup away afterwards."""
    file, backup = lake.location / PROPERTIES.path, lake.location / PROPERTIES_BACKUP.path
    content = file.read_bytes()
    file.rename(backup)

    def end_of_the_update(call: str, path: str) -> None:
        if call == "read" and path == PROPERTIES_BACKUP.path and backup.exists():
            file.write_bytes(content)
            backup.unlink()

    watched = WatchedStorage(lake.location, before=end_of_the_update)

    assert load_properties(watched)["hoodie.table.name"] == "scenario"
