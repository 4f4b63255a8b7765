"""Columns dropped under open writers: a drop is on record in the schema, so that it is told from a
restore and its name from a new one (requirements 2.3, E-21).
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.scenarios.test_alter import alter, filled
from tests.support.scenario_table import ScenarioTables, schema_of
from workers.errors import InvalidInput
from workers.schema.alter import AddColumn, DropColumn

STRATEGY = "hoodie.write.concurrency.schema.conflict.resolution.strategy"


@pytest.mark.parametrize("mode", ["optimistic", "non-blocking"])
def test_writer_open_across_a_dropped_column_commits_without_it_and_is_warned(
    tables: ScenarioTables, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """E-21 of strategy `simple`: the drop is on record, so it was no restore (E-20)."""
    table = filled(tables)
    slow = table.writer("slow", mode=mode).upsert({"id": 3, "city": "Bern", "size": 4})

    alter(table, DropColumn("size"))
    slow.wins()

    assert "dropped size meanwhile" in caplog.text
    assert [row["city"] for row in table.rows()] == ["Oslo", "Lund", "Bern"]
    assert table.schema_columns() == ["id", "city"]
    with pytest.raises(InvalidInput, match="was dropped"):  # Its file holds the old column.
        alter(table, AddColumn("size", pa.string()))


@pytest.mark.parametrize("mode", ["optimistic", "non-blocking"])
def test_writer_whose_values_a_drop_would_lose_is_refused_by_evolvability(
    tables: ScenarioTables, mode: str
) -> None:
    """E-21 of strategy `evolvability`: a conflict with values, none without."""
    table = filled(tables)
    careful = {STRATEGY: "evolvability"}
    valued = table.writer("valued", mode=mode, options=careful)
    valued.upsert({"id": 3, "city": "Bern", "size": 4})
    empty = table.writer("empty", mode=mode, options=careful)
    empty.upsert({"id": 30, "city": "Kyiv", "size": None})

    alter(table, DropColumn("size"))
    conflict = valued.loses()
    empty.wins()

    assert conflict.schemas is not None
    assert [path for path, _ in conflict.schemas.clashes] == ["size"]
    assert "brings values for it" in conflict.message
    assert [row["city"] for row in table.rows()] == ["Oslo", "Lund", "Kyiv"]


def test_memory_of_a_dropped_column_survives_a_writer_that_never_knew_it(
    tables: ScenarioTables,
) -> None:
    """Added and dropped while the writer was open: its schema equals the table's, its memory of
    dropped columns does not.
    """
    table = filled(tables)
    slow = table.writer("slow").upsert({"id": 30, "city": "Bern", "size": 4})
    brief = table.writer("brief").upsert({"id": 9, "note": "x"}, schema=schema_of(note=pa.string()))
    brief.wins()
    alter(table, DropColumn("note"))

    slow.wins()

    with pytest.raises(InvalidInput, match="was dropped"):
        table.writer("later").upsert({"id": 5, "note": 1}, schema=schema_of(note=pa.int64()))


def test_dropped_name_is_not_given_away_by_a_writer_that_began_before_the_drop(
    tables: ScenarioTables,
) -> None:
    table = filled(tables)
    slow = table.writer("slow").upsert({"id": 30, "note": 7}, schema=schema_of(note=pa.int64()))
    brief = table.writer("brief").upsert({"id": 9, "note": "x"}, schema=schema_of(note=pa.string()))
    brief.wins()
    alter(table, DropColumn("note"))

    conflict = slow.loses()

    assert "note: was dropped" in conflict.message
    assert len(table.rows()) == 3
