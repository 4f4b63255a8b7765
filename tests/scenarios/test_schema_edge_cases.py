"""Edge cases of concurrent schemas that need a timeline (requirements 2.3, E-04 to E-18), under
both strategies. Those that schemas alone decide are in `tests/workers/schema/test_edge_cases.py`.
"""

from __future__ import annotations

import json

import pytest

from tests.scenarios.edge_cases import (
    INT,
    ONE,
    S1,
    S2,
    S3,
    STRATEGIES,
    TWO,
    Cases,
    next_commit,
    verdict,
    writer,
)
from tests.support.foreign_commits import foreign_commit, foreign_pending
from tests.support.scenario_table import ScenarioTables, schema_of
from tests.support.watched_storage import At, ForgetfulStorage
from workers.errors import MalformedTable
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.timeline import transitions
from workers.timeline.archive import ArchivedInstant
from workers.timeline.archive_writer import append
from workers.timeline.instant import Action, CompletedInstant
from workers.timeline.metadata import SCHEMA_KEY

CASES = Cases()


@CASES.of("E-04")
def pending_instants_supply_no_schema(tables: ScenarioTables, strategy: str) -> None:
    table = tables(schema=None)
    pending = writer(table, strategy, "pending").upsert(TWO, schema=S2)

    committed = writer(table, strategy).upsert(ONE, schema=S1).wins()

    assert verdict(table, committed) == ("1", S1.names)
    pending.abort()


@CASES.of("E-05")
def schema_in_an_inflight_file_is_ignored(tables: ScenarioTables, strategy: str) -> None:
    table = tables(schema=None)
    foreign_pending(table.table, {SCHEMA_KEY: json.dumps({"type": "record", "fields": "broken"})})

    committed = writer(table, strategy).upsert(ONE, schema=S1).wins()

    assert verdict(table, committed) == ("1", S1.names)


@CASES.of("E-06")
def compaction_beside_a_writer_changes_no_schema(tables: ScenarioTables, strategy: str) -> None:
    table = tables(schema=S1, table_type="MERGE_ON_READ")
    table.writer("first").upsert_and_commit(ONE)
    table.writer("first").upsert_and_commit({**ONE, "f1": "again"})
    open_ = writer(table, strategy).upsert(TWO, schema=S2)

    open_table(table.location, ports=table.ports()).compact()

    assert verdict(table, open_.wins()) == ("2", S2.names)
    next_commit(table)


@CASES.of("E-07")
def clustering_that_repeats_an_old_schema_takes_nothing_back(
    tables: ScenarioTables, strategy: str
) -> None:
    table = tables(schema=S1)
    old = table.metadata(table.instants()[0].requested_at).extra_metadata[SCHEMA_KEY]
    table.writer("first").upsert_and_commit(TWO, schema=S2)
    open_ = writer(table, strategy).upsert({**ONE, "f2": 1}, schema=S2)

    foreign_commit(table.table, {SCHEMA_KEY: old}, "CLUSTER", Action.REPLACECOMMIT)

    assert table.schema_columns() == S2.names
    assert verdict(table, open_.wins()) == ("2", S2.names)
    next_commit(table)


@CASES.of("E-08")
def clustering_planned_before_an_evolution_does_not_take_it_back(
    tables: ScenarioTables, strategy: str
) -> None:
    table = tables(schema=S1)
    table.writer("first").upsert_and_commit(ONE)
    open_table(table.location, ports=table.ports()).cluster(["f1"], schedule=True)
    writer(table, strategy).upsert(TWO, schema=S2).wins()

    open_table(table.location, ports=table.ports()).cluster(["f1"])

    assert table.schema_columns() == S2.names
    assert table.rows() == [{**ONE, "f2": None}, TWO]


@CASES.of("E-09")
def insert_overwrite_sets_a_schema(tables: ScenarioTables, strategy: str) -> None:
    table = tables(schema=S1, partition_by=["f1"])
    open_ = writer(table, strategy).upsert(ONE)
    rival = table.writer("rival").upsert(TWO, schema=S2, operation="insert_overwrite")
    rival.wins()

    assert verdict(table, open_.wins()) == ("6", S2.names)


@CASES.of("E-10")
def replacement_without_a_schema_is_passed_over(tables: ScenarioTables, strategy: str) -> None:
    table = tables(schema=S1)
    table.writer("first").upsert_and_commit(TWO, schema=S2)
    open_ = writer(table, strategy).upsert(ONE)

    foreign_commit(table.table, {}, "DELETE_PARTITION", Action.REPLACECOMMIT)

    assert verdict(table, open_.wins()) == ("2", S2.names)
    assert table.schema_columns() == S2.names
    next_commit(table)


@CASES.of("E-11")
@CASES.of("E-13")
def commit_that_began_and_ended_while_we_wrote_is_seen(
    tables: ScenarioTables, strategy: str
) -> None:
    table = tables(schema=S1)
    open_ = writer(table, strategy).upsert(ONE)
    table.writer("rival").upsert_and_commit(TWO, schema=S2)

    assert verdict(table, open_.wins()) == ("6", S2.names)


@CASES.of("E-12")
def commit_that_began_before_us_and_ended_after_is_concurrent(
    tables: ScenarioTables, strategy: str
) -> None:
    table = tables(schema=S1)
    rival = table.writer("rival").upsert(TWO, schema=S2)
    open_ = writer(table, strategy).upsert(ONE)
    rival.wins()

    assert verdict(table, open_.wins()) == ("6", S2.names)


@CASES.of("E-14")
def of_several_rivals_only_what_they_left_counts(tables: ScenarioTables, strategy: str) -> None:
    table = tables(schema=S1)
    open_ = writer(table, strategy).upsert(ONE)
    table.writer("rival").upsert_and_commit(TWO, schema=S2)
    table.writer("rival").upsert_and_commit({"id": 3, "f4": 4}, schema=schema_of(f4=INT))

    assert verdict(table, open_.wins()) == ("6", [*S2.names, "f4"])


@CASES.of("E-15")
def schema_of_archived_commits_is_found(tables: ScenarioTables, strategy: str) -> None:
    table = tables(schema=S1)
    table.writer("first").upsert_and_commit(TWO, schema=S2)
    open_ = writer(table, strategy).upsert(ONE)
    done = [one for one in table.instants() if isinstance(one, CompletedInstant)]
    content = [table.storage.read(table.table.layout.path(one)) for one in done]
    archived = [ArchivedInstant(one, body) for one, body in zip(done, content, strict=True)]
    append(table.storage, archived, lambda: None)
    transitions.remove_archived(table.storage, done)

    assert verdict(table, open_.wins()) == ("2", S2.names)


@CASES.of("E-16")
def commit_that_cannot_be_read_ends_the_write_and_is_named(
    tables: ScenarioTables, strategy: str
) -> None:
    table = tables(schema=S1)
    open_ = writer(table, strategy).upsert(ONE)
    broken = foreign_commit(table.table, {}, "UPSERT", Action.COMMIT)
    path = table.table.layout.path(broken)
    whole = table.storage.read(path)
    table.storage.put(path, b"not avro")

    with pytest.raises(MalformedTable) as error:
        open_.commit()

    assert broken.requested_at in str(error.value)
    table.storage.put(path, whole)  # For the judge.
    assert table.rows() == []
    assert table.orphan_files() == []
    next_commit(table)


@CASES.of("E-16")
def commit_that_an_archiver_takes_away_while_it_is_read_is_looked_for_again(
    tables: ScenarioTables, strategy: str
) -> None:
    table = tables(schema=S1)
    first = foreign_commit(table.table, {}, "UPSERT", Action.COMMIT)
    path = table.table.layout.path(first)

    def archive() -> None:
        append(table.storage, [ArchivedInstant(first, table.storage.read(path))], lambda: None)
        transitions.remove_archived(table.storage, [first])

    watch = ForgetfulStorage(table.location)
    open_ = writer(table, strategy, storage=watch).upsert(ONE)
    at_commit = At("read", path, archive)
    watch.watch(before=at_commit)

    assert verdict(table, open_.wins()) == ("2", S1.names)
    assert at_commit.hits == 1


@CASES.of("E-17")
def commit_without_data_sets_a_schema(tables: ScenarioTables, strategy: str) -> None:
    table = tables(schema=S1)
    open_ = writer(table, strategy).upsert(ONE)
    rival = table.writer("rival").begin(S2)
    assert rival.wins().rows == 0

    assert verdict(table, open_.wins()) == ("6", S2.names)


@CASES.of("E-18")
def evolution_that_was_rolled_back_is_no_rival(tables: ScenarioTables, strategy: str) -> None:
    table = tables(schema=S1)
    open_ = writer(table, strategy).upsert({"id": 1, "f3": True}, schema=S3)
    undone = table.writer("rival").upsert_and_commit(TWO, schema=S2)
    request = RollbackRequest(undone.instant, by="admin", reason="test")
    rollback(table.table, request, write_options({}))

    assert verdict(table, open_.wins()) == ("2", S3.names)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", CASES.names)
def test_edge_case(tables: ScenarioTables, name: str, strategy: str) -> None:
    CASES.tests[name](tables, strategy)
