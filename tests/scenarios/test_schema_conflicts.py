"""RFC-82 on real tables: a rival changes the schema between a writer's start and its commit."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tests.support.scenario_table import (
    Row,
    ScenarioTable,
    ScenarioTables,
    ScenarioWriter,
    schema_of,
)
from workers.clock import InstantTime
from workers.files.base_file import read_avro_schema
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.schema.table_schema import TableSchema
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision
from workers.timeline.metadata import SCHEMA_KEY

ID, NAME = pa.int64(), pa.string()
SCHEMAS = {
    "S1": schema_of(id=ID, f1=NAME),
    "S2": schema_of(id=ID, f1=NAME, f2=pa.int32()),
    "S3": schema_of(id=ID, f1=NAME, f3=pa.bool_()),
}
ROWS: dict[str, Row] = {
    "S1": {"f1": "one"},
    "S2": {"f1": "two", "f2": 2},
    "S3": {"f1": "three", "f3": True},
}

# at start, at validation, writer -> schema in the commit metadata. `-` is a table without schema.
SCENARIOS = """
1  -   -   S1 -> S1
2  -   S1  S1 -> S1
3  -   S2  S3 -> conflict
4  S1  S1  S1 -> S1
5  S1  S1  S2 -> S2
6  S1  S2  S1 -> S2
7  S1  S2  S2 -> S2
8  S1  S2  S3 -> conflict
"""
KINDS = [
    ("COPY_ON_WRITE", "optimistic"),
    ("MERGE_ON_READ", "optimistic"),
    ("MERGE_ON_READ", "non-blocking"),
]


def scenarios() -> list[tuple[str, ...]]:
    lines = [line.replace("->", "").split() for line in SCENARIOS.strip().splitlines()]
    return [tuple(line) for line in lines]


def a_table(tables: ScenarioTables, kind: tuple[str, str], at_start: str) -> ScenarioTable:
    return tables(table_type=kind[0], schema=SCHEMAS.get(at_start))


def row(key: int, schema: str) -> Row:
    """Key 1 and key 2 live in different file groups, so that only schemas can conflict."""
    return {"id": key, **ROWS[schema]}


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
@pytest.mark.parametrize(
    ("number", "at_start", "at_validation", "writer_schema", "result"), scenarios()
)
def test_eight_scenarios_of_the_rfc(
    tables: ScenarioTables,
    kind: tuple[str, str],
    number: str,
    at_start: str,
    at_validation: str,
    writer_schema: str,
    result: str,
) -> None:
    table = a_table(tables, kind, at_start)
    writer, rival = (table.writer(name, mode=kind[1]) for name in ("writer", "rival"))
    writer.upsert(row(1, writer_schema), schema=SCHEMAS[writer_schema])
    if at_validation != at_start:
        rival.upsert_and_commit(row(2, at_validation), schema=SCHEMAS[at_validation])

    if result == "conflict":
        loses_for_its_schema(table, writer, rival)
    else:
        committed = writer.wins()
        assert schema_in_metadata(table, committed.instant) == SCHEMAS[result]
        rivals_row = [] if at_validation == at_start else [row(2, at_validation)]
        expected = [row(1, writer_schema), *rivals_row]
        filled = [{name: one.get(name) for name in SCHEMAS[result].names} for one in expected]
        assert table.rows() == filled


def loses_for_its_schema(
    table: ScenarioTable, writer: ScenarioWriter, rival: ScenarioWriter
) -> None:
    before = table.rows()
    conflict = writer.loses()
    assert conflict.kind == "schema"
    assert (conflict.rival, conflict.rival_writer) == (rival.last_instant, "rival")
    assert table.rows() == before
    assert table.orphan_files() == []
    assert table.leftovers() == []


def schema_in_metadata(table: ScenarioTable, instant: InstantTime) -> pa.Schema:
    text = table.metadata(instant).extra_metadata[SCHEMA_KEY]
    return TableSchema.from_avro_json(text).arrow


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_the_error_of_scenario_8_shows_all_three_schemas(
    tables: ScenarioTables, kind: tuple[str, str]
) -> None:
    table = a_table(tables, kind, "S1")
    writer, rival = (table.writer(name, mode=kind[1]) for name in ("writer", "rival"))
    writer.upsert(row(1, "S3"), schema=SCHEMAS["S3"])
    rival.upsert_and_commit(row(2, "S2"), schema=SCHEMAS["S2"])

    conflict = writer.loses()

    assert conflict.schemas is not None
    shown = [conflict.schemas.at_start, conflict.schemas.at_validation, conflict.schemas.writer]
    arrow = [TableSchema.from_avro_json(text).arrow for text in shown if text is not None]
    assert arrow == [SCHEMAS["S1"], SCHEMAS["S2"], SCHEMAS["S3"]]
    assert "f2" in conflict.message
    assert "f3" in conflict.message
    kept = decisions.read(table.storage, writer.last_instant)
    assert isinstance(kept, RollbackDecision)
    assert kept.conflict is not None
    assert kept.conflict["schemas"]["at_validation"] == conflict.schemas.at_validation


def test_a_schema_conflict_is_told_before_a_file_conflict(tables: ScenarioTables) -> None:
    table = tables(schema=SCHEMAS["S1"])
    writer, rival = table.writer("writer"), table.writer("rival")
    writer.upsert(row(1, "S3"), schema=SCHEMAS["S3"])
    rival.upsert_and_commit(row(1, "S2"), schema=SCHEMAS["S2"])

    assert writer.loses().kind == "schema"


def test_with_resolution_switched_off_the_last_schema_wins(tables: ScenarioTables) -> None:
    table = tables(schema=SCHEMAS["S1"])
    off = {"hoodie.write.concurrency.schema.conflict.resolution.enable": "false"}
    writer, rival = table.writer("writer", options=off), table.writer("rival")
    writer.upsert(row(1, "S3"), schema=SCHEMAS["S3"])
    rival.upsert_and_commit(row(2, "S2"), schema=SCHEMAS["S2"])

    committed = writer.wins()

    assert schema_in_metadata(table, committed.instant) == SCHEMAS["S3"]


def test_pending_writers_never_supply_a_schema(tables: ScenarioTables) -> None:
    table = tables(schema=None)
    pending, writer = table.writer("pending"), table.writer("writer")
    pending.upsert(row(2, "S2"), schema=SCHEMAS["S2"])

    committed = writer.upsert(row(1, "S3"), schema=SCHEMAS["S3"]).wins()

    assert schema_in_metadata(table, committed.instant) == SCHEMAS["S3"]
    assert pending.loses().kind == "schema"


def test_several_rivals_count_by_the_schema_they_left(tables: ScenarioTables) -> None:
    """S1 -> S2 -> S2 with f4: only the last one decides."""
    table = tables(schema=SCHEMAS["S1"])
    writer = table.writer("writer").upsert(row(1, "S1"), schema=SCHEMAS["S1"])
    table.writer("rival").upsert_and_commit(row(2, "S2"), schema=SCHEMAS["S2"])
    wider = schema_of(id=ID, f1=NAME, f2=pa.int32(), f4=pa.int64())
    table.writer("other").upsert_and_commit({"id": 3, "f1": "x", "f2": 1, "f4": 4}, schema=wider)

    committed = writer.wins()

    assert schema_in_metadata(table, committed.instant) == wider


def test_evolution_that_was_rolled_back_before_validation_is_no_rival(
    tables: ScenarioTables,
) -> None:
    table = tables(schema=SCHEMAS["S1"])
    writer, rival = table.writer("writer"), table.writer("rival")
    writer.upsert(row(1, "S3"), schema=SCHEMAS["S3"])
    undone = rival.upsert_and_commit(row(2, "S2"), schema=SCHEMAS["S2"])
    request = RollbackRequest(undone.instant, by="admin", reason="test")
    rollback(table.table, request, write_options({}))

    committed = writer.wins()

    assert schema_in_metadata(table, committed.instant) == SCHEMAS["S3"]


def test_rollback_of_the_evolution_a_writer_started_from_is_a_conflict_or_keeps_its_column(
    tables: ScenarioTables,
) -> None:
    """T0 = S2, T1 = S1, W = S2: a naive row 6 would drop the writer's column (case E-20)."""
    table = tables(schema=SCHEMAS["S1"])
    evolved = table.writer("evolver").upsert_and_commit(row(2, "S2"), schema=SCHEMAS["S2"])
    writer = table.writer("writer").upsert(row(1, "S2"), schema=SCHEMAS["S2"])
    request = RollbackRequest(evolved.instant, by="admin", reason="test")
    rollback(table.table, request, write_options({}))

    conflict = writer.loses()

    assert conflict.kind == "schema"
    assert table.rows() == []


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_new_column_is_seen_when_a_rival_without_it_began_later_and_ended_earlier(
    tables: ScenarioTables, kind: tuple[str, str]
) -> None:
    """The schema goes by completion. hudi-rs goes by request: it sees the column with the next
    commit.
    """
    table = a_table(tables, kind, "S1")
    writer, rival = (table.writer(name, mode=kind[1]) for name in ("writer", "rival"))
    writer.upsert(row(1, "S2"), schema=SCHEMAS["S2"])
    rival.upsert_and_commit(row(2, "S1"), schema=SCHEMAS["S1"])

    writer.wins()

    assert table.rows() == [row(1, "S2"), row(2, "S1") | {"f2": None}]
    table.writer("next", mode=kind[1]).upsert_and_commit(row(3, "S1"))
    table.assert_referee_agrees()


def test_all_files_of_a_write_have_its_own_schema_when_the_table_evolves_beside_it(
    tables: ScenarioTables,
) -> None:
    """A second task starts after a rival changed the schema and still writes with the schema that
    the transaction began with.
    """
    table = tables(schema=SCHEMAS["S1"])
    writer, rival = table.writer("writer"), table.writer("rival")
    writer.upsert(row(1, "S1"))
    rival.upsert_and_commit(row(2, "S2"), schema=SCHEMAS["S2"])
    writer.write(row(4, "S1"), task=1)

    committed = writer.wins()

    paths = [stat.path for stat in table.metadata(committed.instant).stats]
    footers = [read_avro_schema(table.storage, path) for path in paths]
    assert len(paths) == 2
    assert [TableSchema.from_avro_json(footer or "").arrow for footer in footers] == [
        SCHEMAS["S1"]
    ] * 2
    assert [row["f2"] for row in table.rows("id", "f2")] == [None, 2, None]


def test_narrow_batch_does_not_narrow_the_table(tables: ScenarioTables) -> None:
    table = tables(schema=SCHEMAS["S2"])

    committed = table.writer("narrow").upsert_and_commit({"id": 1, "f1": "x"})

    assert schema_in_metadata(table, committed.instant) == SCHEMAS["S2"]


def test_twenty_writers_of_one_schema_never_see_a_schema_error(tables: ScenarioTables) -> None:
    table = tables(schema=None)
    writers = [table.writer(f"w{n}") for n in range(20)]
    for number, writer in enumerate(writers):
        writer.upsert({"id": number, "f1": "x"}, schema=SCHEMAS["S1"])

    kinds = {getattr(getattr(one.commit(), "conflict", None), "kind", None) for one in writers}

    assert "schema" not in kinds


def test_resolution_leaves_its_case_in_the_metadata(tables: ScenarioTables) -> None:
    table = tables(schema=SCHEMAS["S1"])
    writer, rival = table.writer("writer"), table.writer("rival")
    writer.upsert(row(1, "S1"), schema=SCHEMAS["S1"])
    rival.upsert_and_commit(row(2, "S2"), schema=SCHEMAS["S2"])

    committed = writer.wins()

    text = table.metadata(committed.instant).extra_metadata["hoodie.schema.resolution"]
    record = json.loads(text)
    assert (record["mode"], record["case"], record["scenario"]) == ("simple", "6", 6)
    assert record["start_instant"] == table.instants()[0].requested_at
    assert record["validation_instant"] == rival.last_instant
    assert record["schema_fingerprint"] != record["writer_fingerprint"]
    assert record["fields"] == [
        {"path": "f2", "kind": "added", "by": "rival", "before": None, "after": "int?"}
    ]
