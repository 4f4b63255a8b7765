"""Edge cases of concurrent schemas as writers and admins meet them (requirements 2.3, E-02, E-03,
E-19 to E-34), under both strategies; E-21 is in `test_dropped_columns.py`.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tests.scenarios.edge_cases import (
    INT,
    ONE,
    S1,
    S2,
    S3,
    STRATEGIES,
    STRATEGY,
    TWO,
    Cases,
    alter,
    verdict,
    writer,
)
from tests.scenarios.test_sleepers import asleep_in, later, sleeper_at
from tests.support.foreign_commits import foreign_commit
from tests.support.scenario_table import ScenarioTables
from tests.support.watched_storage import At, WatchedStorage
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import open_table, write_arrow
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.schema.alter import AddColumn, RenameColumn, WidenColumn
from workers.timeline.instant import Action
from workers.timeline.metadata import SCHEMA_KEY
from workers.write.request import WriteRequest

CASES = Cases()


@CASES.of("E-02")
def delete_beside_an_evolution_commits_with_the_tables_schema(
    tables: ScenarioTables, strategy: str
) -> None:
    for kind in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        table = tables(schema=S1, table_type=kind)
        table.writer("first").upsert_and_commit(ONE)
        deleting = writer(table, strategy).upsert({"id": 1}, operation="delete")
        table.writer("rival").upsert_and_commit(TWO, schema=S2)

        assert verdict(table, deleting.wins()) == ("0d", S2.names)
        assert table.rows() == [TWO]


@CASES.of("E-03")
def batch_without_columns_is_refused_at_write(tables: ScenarioTables, strategy: str) -> None:
    table = tables(schema=None)
    before = table.listing()

    with pytest.raises(InvalidInput, match="lacks key"):
        writer(table, strategy).begin(pa.schema([]))

    assert table.listing() == before


@CASES.of("E-19")
def column_added_by_an_alter_is_kept(tables: ScenarioTables, strategy: str) -> None:
    table = tables(schema=S1)
    open_ = writer(table, strategy).upsert(ONE)
    alter(table, AddColumn("f2", INT))

    assert verdict(table, open_.wins()) == ("6", S2.names)
    assert table.rows() == [{**ONE, "f2": None}]


@CASES.of("E-20")
def evolution_that_was_taken_back_under_its_writer_is_a_conflict(
    tables: ScenarioTables, strategy: str
) -> None:
    table = tables(schema=S1)
    evolved = table.writer("evolver").upsert_and_commit(TWO, schema=S2)
    open_ = writer(table, strategy).upsert({"id": 1, "f2": 1}, schema=S2)
    request = RollbackRequest(evolved.instant, by="admin", reason="test")
    rollback(table.table, request, write_options({}))

    assert open_.loses().kind == "schema"
    assert table.rows() == []


@CASES.of("E-22")
def rename_under_a_writer_is_a_conflict(tables: ScenarioTables, strategy: str) -> None:
    table = tables(schema=S1)
    open_ = writer(table, strategy).upsert(ONE)
    alter(table, RenameColumn("f1", "g1"))

    assert open_.loses().kind == "schema"
    assert table.schema_columns() == ["id", "g1"]


@CASES.of("E-23")
def widened_column_promotes_what_a_writer_brings(tables: ScenarioTables, strategy: str) -> None:
    table = tables(schema=S2)
    open_ = writer(table, strategy).upsert(TWO)
    alter(table, WidenColumn("f2", pa.int64()))

    assert verdict(table, open_.wins())[0] == "6"
    schema = open_table(table.location).schema()
    assert schema is not None
    assert schema.field("f2").type == pa.int64()
    assert table.rows() == [TWO]


@CASES.of("E-31")
def other_type_of_the_key_is_a_conflict(tables: ScenarioTables, strategy: str) -> None:
    table = tables(schema=S1)
    open_ = writer(table, strategy).upsert(ONE)
    text = table.metadata(table.instants()[0].requested_at).extra_metadata[SCHEMA_KEY]
    avro = json.loads(text)
    avro["fields"][0]["type"] = ["null", "string"]
    foreign_commit(table.table, {SCHEMA_KEY: json.dumps(avro)}, "ALTER_SCHEMA", Action.COMMIT)

    conflict = open_.loses()

    assert "id: is a key, partition or ordering column: long? here, string? there" in (
        conflict.message
    )


@CASES.of("E-32")
def writer_from_before_the_first_commit_meets_that_commits_schema(
    tables: ScenarioTables, strategy: str
) -> None:
    for schema, row in ((S1, ONE), (S3, {"id": 1, "f3": True})):
        table = tables(schema=None)
        first = table.writer("first").upsert({"id": 2, "f1": "two"}, schema=S1)
        open_ = writer(table, strategy).upsert(row, schema=schema)
        first.wins()

        if schema is S1:
            assert verdict(table, open_.wins()) == ("3", S1.names)
        elif strategy == "simple":
            assert open_.loses().case == "4"
        else:
            assert verdict(table, open_.wins()) == ("4", S3.names)


@CASES.of("E-33")
def lock_that_is_lost_before_completion_ends_the_write(
    tables: ScenarioTables, strategy: str
) -> None:
    table = tables(schema=S1)
    sleeper, sleep = sleeper_at(table, "put_if_absent", ".sluice/decision")
    sleeper.options = write_options({STRATEGY: strategy, "hoodie.write.markers.type": "direct"})
    sleeper.upsert(TWO, schema=S2)

    with asleep_in(sleeper, sleep, sleeper.is_told_rolled_back):
        later(table, "next").upsert_and_commit(ONE)

    assert table.schema_columns() == S1.names
    assert table.rows() == [ONE]


@CASES.of("E-34")
def retry_derives_its_schema_anew_from_what_the_rival_left(
    tables: ScenarioTables, strategy: str
) -> None:
    table = tables(schema=S1)
    rival = table.writer("rival").upsert(TWO, schema=S2)

    def interfere() -> None:
        rival.wins()

    storage = WatchedStorage(table.location, before=At("create_data", ".parquet", interfere))
    own = open_table(table.location, ports=table.ports(), storage=storage).table
    options = {
        STRATEGY: strategy,
        "hoodie.write.markers.type": "direct",
        "hoodie.write.num.retries.on.conflict.failures": "1",
    }
    batch = table.batch([{"id": 1, "f3": True}], S3)

    outcome = write_arrow(own, batch, WriteRequest(), options)

    assert isinstance(outcome, Committed)
    assert (
        verdict(table, outcome)
        == {
            "simple": ("2", [*S2.names, "f3"]),
            "evolvability": ("7", [*S2.names, "f3"]),
        }[strategy]
    )
    assert table.rows("id", "f2", "f3") == [
        {"id": 1, "f2": None, "f3": True},
        {"id": 2, "f2": 2, "f3": None},
    ]


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", CASES.names)
def test_edge_case(tables: ScenarioTables, name: str, strategy: str) -> None:
    CASES.tests[name](tables, strategy)
