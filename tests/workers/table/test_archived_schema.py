"""The schema once every commit that carries one is archived (case E-15)."""

from __future__ import annotations

import pytest

from tests.support.fixtures import pytest_runtest_makereport, tables, tables_root
from tests.support.scenario_table import CITIES, ScenarioTable, ScenarioTables
from workers.table.schema_history import find_schema_at, load_schema
from workers.timeline import transitions
from workers.timeline.archive import ArchivedInstant
from workers.timeline.archive_writer import append
from workers.timeline.metadata import commit_metadata

__all__ = ["pytest_runtest_makereport", "tables", "tables_root"]


@pytest.fixture
def archived(tables: ScenarioTables) -> ScenarioTable:
    """Two commits, the second with a new column; both are archived, nothing is active."""
    table = tables()
    table.writer("w").upsert_and_commit({"id": 1, "city": "Oslo"})
    table.writer("w").upsert_and_commit({"id": 1, "city": "Rome", "note": "new"})
    storage, layout = table.storage, table.table.layout
    done = [
        ArchivedInstant(one, storage.read(layout.path(one)))
        for one in table.table.timeline().iterate_completed()
    ]
    append(storage, done, lambda: None)
    transitions.remove_archived(storage, table.instants())
    table.excuse_referee("a timeline without any commit is no table to hudi-rs")
    return table


def test_schema_comes_from_the_newest_archived_commit(archived: ScenarioTable) -> None:
    table = archived.table
    schema = load_schema(table, table.timeline())

    assert schema is not None
    assert schema.field_names == ("id", "city", "note")


def test_schema_of_the_past_comes_from_the_history_too(archived: ScenarioTable) -> None:
    table = archived.table
    old = archived.lakehouse.timeline(archived=True)[1]

    version = find_schema_at(table, table.timeline(), as_of=old.completed_at)

    assert version is not None
    assert version.schema.field_names == tuple(CITIES.names)
    assert version.instant == old.requested_at


def test_schema_comes_from_a_footer_when_the_history_carries_none(
    tables: ScenarioTables,
) -> None:
    table = tables(schema=None)
    table.writer("w").upsert_and_commit({"id": 1, "city": "Oslo"})
    [instant] = table.table.timeline().iterate_completed()
    bare = commit_metadata([], extra={}, operation_type="UPSERT").encode(instant.action)
    append(table.storage, [ArchivedInstant(instant, bare)], lambda: None)
    transitions.remove_archived(table.storage, [instant])
    table.excuse_referee("a timeline without any commit is no table to hudi-rs")

    schema = load_schema(table.table, table.table.timeline())

    assert schema is not None
    assert schema.field_names == ("id", "city")


def test_schema_comes_from_a_log_or_from_the_creation_when_nothing_else_is_left(
    tables: ScenarioTables,
) -> None:
    """A table without a schema would take any first batch."""
    logged = tables(table_type="MERGE_ON_READ")
    logged.writer("w", mode="non-blocking").upsert_and_commit({"id": 1, "city": "Oslo", "new": 1})
    created = tables()
    for table in (logged, created):
        instants = list(table.table.timeline().iterate_completed())
        bare = [
            commit_metadata([], extra={}, operation_type="UPSERT").encode(one.action)
            for one in instants
        ]
        done = [ArchivedInstant(one, body) for one, body in zip(instants, bare, strict=True)]
        append(table.storage, done, lambda: None)
        transitions.remove_archived(table.storage, instants)
        table.excuse_referee("a timeline without any commit is no table to hudi-rs")

    schemas = [find_schema_at(one.table, one.table.timeline()) for one in (logged, created)]

    assert [one and one.schema.field_names for one in schemas] == [
        ("id", "city", "new"),
        ("id", "city"),
    ]
