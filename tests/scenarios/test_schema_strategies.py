"""Strategies by name: those that are built in, those that a user registers, and unknown ones."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.support.scenario_table import ScenarioTable, ScenarioTables, ScenarioWriter, schema_of
from workers import register_schema_strategy
from workers.errors import InvalidInput
from workers.lakehouse import open_table
from workers.schema import strategies
from workers.schema.alter import AddColumn
from workers.schema.built_in_strategies import evolvability
from workers.schema.verdict import SchemaConflict, SchemaQuestion, SchemaVerdict

STRATEGY = "hoodie.write.concurrency.schema.conflict.resolution.strategy"
modes = pytest.mark.parametrize("mode", ["single", "optimistic", "non-blocking"])


def only_rivals_with_a_note(question: SchemaQuestion) -> SchemaVerdict | SchemaConflict:
    if "note" not in question.at_validation.field_names:
        return question.reject("the other writer left no note")
    return evolvability(question)


def forgets_the_table(question: SchemaQuestion) -> SchemaVerdict | SchemaConflict:
    return question.accept(question.writer)


@pytest.fixture(autouse=True)
def nobody_stays_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "_registered", {})


@pytest.fixture
def table(tables: ScenarioTables) -> ScenarioTable:
    return tables(schema=schema_of(id=pa.int64()), table_type="MERGE_ON_READ")


def with_strategy(table: ScenarioTable, name: str, mode: str) -> ScenarioWriter:
    return table.writer("writer", mode=mode, options={STRATEGY: name})


def rival_adds(table: ScenarioTable, column: str) -> None:
    rival = table.writer("rival")
    rival.upsert_and_commit({"id": 2, column: "x"}, schema=schema_of(**{column: pa.string()}))


@modes
def test_unknown_strategy_is_refused_before_anything_is_written(
    table: ScenarioTable, mode: str
) -> None:
    register_schema_strategy("noted", only_rivals_with_a_note)
    before = table.listing()

    with pytest.raises(InvalidInput) as refused:
        with_strategy(table, "evolvabilty", mode).upsert({"id": 1})
    with pytest.raises(InvalidInput):
        open_table(table.location).alter(
            AddColumn("x", pa.string()), options={STRATEGY: "evolvabilty"}
        )

    assert "evolvabilty" in str(refused.value)
    assert "['evolvability', 'noted', 'simple']" in str(refused.value)
    assert table.listing() == before


@modes
def test_registered_strategy_decides_under_the_lock(table: ScenarioTable, mode: str) -> None:
    register_schema_strategy("noted", only_rivals_with_a_note)
    first = with_strategy(table, "noted", mode)
    first.upsert({"id": 1, "x": 1}, schema=schema_of(x=pa.int32()))
    rival_adds(table, "y")

    conflict = first.loses()
    second = with_strategy(table, "noted", mode)
    second.upsert({"id": 1, "x": 1}, schema=schema_of(x=pa.int32()))
    rival_adds(table, "note")
    second.wins()
    # hudi-rs goes by the commit that was requested last.
    table.writer("next").upsert_and_commit({"id": 4})

    assert conflict.schemas is not None
    assert (conflict.schemas.strategy, conflict.schemas.reason) == (
        "noted",
        "the other writer left no note",
    )
    assert table.schema_columns() == ["id", "y", "note", "x"]


@modes
def test_answer_under_which_files_do_not_read_is_refused_and_nothing_is_left(
    table: ScenarioTable, mode: str
) -> None:
    register_schema_strategy("forgetful", forgets_the_table)
    writer = with_strategy(table, "forgetful", mode)
    writer.upsert({"id": 1, "x": 1}, schema=schema_of(x=pa.int32()))
    rival_adds(table, "y")

    with pytest.raises(InvalidInput, match=r"files do not read.*table"):
        writer.commit()

    assert table.schema_columns() == ["id", "y"]
    assert table.leftovers() == []
    assert table.orphan_files() == []


def test_names_are_given_once() -> None:
    register_schema_strategy("noted", only_rivals_with_a_note)
    register_schema_strategy("noted", only_rivals_with_a_note)

    for name in ("noted", "simple", "evolvability"):
        with pytest.raises(InvalidInput, match="has this name already"):
            register_schema_strategy(name, forgets_the_table)
    with pytest.raises(InvalidInput, match="has a name"):
        register_schema_strategy("", forgets_the_table)
