"""A rollback lists the partitions that the writer's markers name, and all where these are lost."""

from __future__ import annotations

import pytest

from tests.support.scenario_table import ScenarioTable, ScenarioTables
from tests.support.watched_storage import WatchedStorage
from workers.markers.marker import markers_directory
from workers.markers.store import delete_markers, markers_file, write_type
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback

CITIES = [f"city{number}" for number in range(30)]
WRITTEN = CITIES[7:9]


@pytest.fixture
def table(tables: ScenarioTables) -> ScenarioTable:
    table = tables(partition_by=["city"])
    rows = [{"id": number, "city": city} for number, city in enumerate(CITIES)]
    table.writer("first").upsert_and_commit(*rows)
    return table


def a_dead_writer(table: ScenarioTable) -> str:
    writer = table.writer("dead").upsert(*({"id": 99, "city": city} for city in WRITTEN))
    writer.dies()
    return writer.last_instant


def listed_by_rollback(table: ScenarioTable, target: str, by_markers: str = "true") -> set[str]:
    """Its partitions; what it finds is gone then."""
    listed: set[str] = set()
    storage = WatchedStorage(
        table.location,
        before=lambda call, path: listed.add(path) if call == "list_files" else None,
    )
    undoer = table.writer("undoer", storage=storage)
    request = RollbackRequest(target, by="test", reason="dead", is_only_pending=True)

    rollback(undoer.table, request, write_options({"hoodie.rollback.using.markers": by_markers}))

    assert table.orphan_files() == []
    return {path for path in listed if path and not path.startswith(".hoodie")}


def test_rollback_lists_what_the_markers_name(table: ScenarioTable) -> None:
    assert listed_by_rollback(table, a_dead_writer(table)) == set(WRITTEN)


def test_rollback_lists_everything_when_it_is_told_to(table: ScenarioTable) -> None:
    target = a_dead_writer(table)

    assert listed_by_rollback(table, target, by_markers="false") == set(CITIES)


def test_rollback_lists_everything_when_the_markers_are_gone(table: ScenarioTable) -> None:
    target = a_dead_writer(table)
    delete_markers(table.table.storage, target)

    assert listed_by_rollback(table, target) == set(CITIES)


@pytest.mark.parametrize("lost", ["first file", "type"])
def test_rollback_lists_everything_when_some_markers_are_lost(
    table: ScenarioTable, lost: str
) -> None:
    target = a_dead_writer(table)
    storage, directory = table.table.storage, markers_directory(target)
    names = [file.path.removeprefix(f"{directory}/") for file in storage.list_tree(directory)]
    storage.delete_tree(directory)
    if lost == "first file":
        write_type(storage, target)
    index = 1 if lost == "first file" else 0
    storage.put(markers_file(target, index), f"{names[0]}\n".encode())

    assert listed_by_rollback(table, target) == set(CITIES)
