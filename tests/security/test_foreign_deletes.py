"""Threat T3: whoever may write into one table has nothing deleted, changed or read in another.

What lies beside the table is compared byte by byte, and every name that Python removes, renames or
makes there is seen by an audit hook. `test_links.py` holds the same for links.
"""

from __future__ import annotations

import logging

import pytest

from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables, ScenarioWriter
from tests.support.table_services import run
from tests.support.victim import FILE_ID, Victim, finished_somehow, row
from workers.files.avro_container import encode_record
from workers.lakehouse import open_table
from workers.markers.marker import markers_directory
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.rollback import RollbackRequest, rollback
from workers.timeline.avro_schemas import CLEANER_PLAN, ROLLBACK_PLAN
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import WriteStat
from workers.timeline.plan_schemas import COMPACTION_PLAN, REQUESTED_REPLACE
from workers.timeline.savepoint_metadata import RestorePlanFile

OPTIONS = write_options({})
TIMELINE = ".hoodie/timeline"
PLANNED = "20300101000000000"
"""An instant of a plan that nobody made, later than all others."""


@pytest.fixture
def table(tables: ScenarioTables) -> ScenarioTable:
    return tables(schema=READINGS, partition_by=["place"])


@pytest.fixture
def merged(tables: ScenarioTables) -> ScenarioTable:
    return tables(schema=READINGS, ordering=["ts"], table_type="MERGE_ON_READ")


def marker_file(table: ScenarioTable, writer: ScenarioWriter, lines: list[str]) -> None:
    directory = markers_directory(writer.last_instant)
    table.storage.put(f"{directory}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    table.storage.put(f"{directory}/MARKERS0", "".join(f"{line}\n" for line in lines).encode())


@pytest.mark.parametrize("dies", [True, False])
def test_markers_that_point_at_another_table_delete_nothing_there(
    table: ScenarioTable, dies: bool
) -> None:
    victim = Victim(table)
    writer = table.writer("writer").upsert(row(1))
    paths = victim.spellings(writer.last_instant)
    marker_file(table, writer, [f"{path}.marker.{io}" for path in paths for io in ("CREATE",)])

    with victim.untouched():
        if dies:
            writer.dies()
            roll_back_dead_writers(table.table, OPTIONS)
        else:
            writer.wins()

    assert table.orphan_files() == []
    assert table.leftovers() == []


def test_a_rollback_plan_that_names_another_table_deletes_nothing_there_and_says_so(
    table: ScenarioTable, caplog: pytest.LogCaptureFixture
) -> None:
    victim = Victim(table)
    dead = table.writer("dead").upsert(row(7))
    dead.dies()
    planned = f"{TIMELINE}/{PLANNED}.rollback.requested"
    here = str(table.location)
    paths = victim.spellings(dead.last_instant)
    named = [*paths, *(f"{here}/{path}" for path in paths)]
    record = {
        "instantToRollback": {"commitTime": dead.last_instant, "action": "commit"},
        "RollbackRequests": [
            {
                "partitionPath": partition,
                "filesToBeDeleted": named,
            }
            for partition in ("", "p", *victim.partitions())
        ],
    }
    table.storage.put(planned, encode_record(ROLLBACK_PLAN, record))
    table.storage.put(
        f".hoodie/.sluice/decision/{dead.last_instant}",
        b'{"outcome": "rollback", "by": "%s", "nonce": "n", "reason": "r"}' % PLANNED.encode(),
    )

    with victim.untouched(), caplog.at_level(logging.WARNING):
        table.writer("next").upsert_and_commit(row(1))

    assert "plan names files of others, left alone" in caplog.text
    assert table.orphan_files() == []
    assert table.table.timeline().find(dead.last_instant) is None


def test_commit_metadata_that_names_another_table_takes_nothing_from_it(
    table: ScenarioTable,
) -> None:
    """When its commit is taken back, cleaned and archived."""
    table.excuse_referee("its commits name files that are not there")
    victim = Victim(table)
    for number in range(3):
        table.writer("ingest").upsert_and_commit(row(1 + number // 2))
    commit = table.table.timeline().list_completed_writes()[-1]
    metadata = table.metadata(commit.requested_at)
    for partition in ("p", *victim.partitions()):
        metadata.partition_to_write_stats.setdefault(partition, []).extend(
            WriteStat(FILE_ID, path, partition, prev_base_file=path)
            for path in victim.spellings(commit.requested_at)
        )
    table.storage.put(table.table.layout.path(commit), metadata.encode(Action.COMMIT))
    request = RollbackRequest(commit.requested_at, by="eve", reason="a test")

    with victim.untouched():
        finished_somehow(lambda: open_table(table.location).read())
        finished_somehow(lambda: run(table.table, "clean", commits="1"))
        finished_somehow(lambda: run(table.table, "repair"))
        finished_somehow(lambda: run(table.table, "archive", min_commits="2", max_commits="3"))
        rollback(table.table, request, OPTIONS)

    assert table.table.timeline().find(commit.requested_at) is None


def planted(
    table: ScenarioTable, infix: str, content: bytes, action: Action, *, is_begun: bool = False
) -> Instant:
    table.storage.put(f"{TIMELINE}/{PLANNED}.{infix}.requested", content)
    if is_begun:
        table.storage.put(f"{TIMELINE}/{PLANNED}.{infix}.inflight", b"")
    instant = table.table.timeline().find(PLANNED)
    assert instant is not None
    assert instant.action is action
    return instant


def test_a_clean_plan_that_names_another_table_deletes_nothing_there_and_says_so(
    table: ScenarioTable, caplog: pytest.LogCaptureFixture
) -> None:
    victim = Victim(table)
    table.writer("ingest").upsert_and_commit(row(1))
    paths = victim.spellings(PLANNED)
    record = {
        "policy": "KEEP_LATEST_COMMITS",
        "version": 2,
        "filePathsToBeDeletedPerPartition": {
            partition: [{"filePath": path, "isBootstrapBaseFile": False} for path in paths]
            for partition in ("", "p", *victim.partitions())
        },
    }
    planted(table, "clean", encode_record(CLEANER_PLAN, record), Action.CLEAN)

    with victim.untouched(), caplog.at_level(logging.WARNING):
        run(table.table, "clean")

    assert "clean plan names a strange partition, left alone" in caplog.text
    assert list(table.table.timeline().pending()) == []
    assert [line["id"] for line in table.rows()] == ["1"]


@pytest.mark.slow
def test_plans_of_rewrites_that_name_another_table_touch_nothing_there(
    merged: ScenarioTable,
) -> None:
    victim = Victim(merged)
    merged.writer("ingest").upsert_and_commit(row(1))
    merged.writer("ingest").upsert_and_commit(row(1))
    for number, (partition, path) in enumerate(
        (partition, path)
        for partition in ("", *victim.partitions()[:6])
        for path in victim.spellings(PLANNED)[:40:5]
    ):
        planned = {
            "baseInstantTime": PLANNED, "deltaFilePaths": [path], "dataFilePath": path,
            "fileId": FILE_ID, "partitionPath": partition,
        }  # fmt: skip
        compaction = encode_record(COMPACTION_PLAN, {"operations": [planned], "version": 2})
        groups = [{"slices": [planned], "metrics": {}}]
        plan = {"inputGroups": groups, "strategy": {"strategyClassName": "x"}}
        clustering = encode_record(
            REQUESTED_REPLACE, {"operationType": "CLUSTER", "clusteringPlan": plan}
        )
        for infix, action, service, content in (
            ("compaction", Action.COMPACTION, "compaction", compaction),
            ("clustering", Action.CLUSTERING, "clustering", clustering),
        ):
            if number % 2 == (service == "clustering"):
                planted(merged, infix, content, action)
                with victim.untouched():
                    finished_somehow(lambda name=service: run(merged.table, name))  # type: ignore[misc]
                merged.storage.delete(f"{TIMELINE}/{PLANNED}.{infix}.requested")
                merged.storage.delete(f"{TIMELINE}/{PLANNED}.{infix}.inflight")

    assert [line["id"] for line in merged.rows()] == ["1"]


def test_a_restore_plan_whose_target_is_a_path_touches_nothing(table: ScenarioTable) -> None:
    victim = Victim(table)
    table.writer("ingest").upsert_and_commit(row(1))
    for way in (f"../../victim/{victim.file_of(PLANNED)}", str(victim.place), "..", "*"):
        plan = RestorePlanFile(way, ((way, "commit"),)).encode()
        planted(table, "restore", plan, Action.RESTORE)

        with victim.untouched():
            finished_somehow(lambda: run(table.table, "restore", instant=PLANNED))
            finished_somehow(lambda: table.writer("next").upsert_and_commit(row(2)))
        for state in ("requested", "inflight"):
            table.storage.delete(f"{TIMELINE}/{PLANNED}.restore.{state}")

    assert table.orphan_files() == []
