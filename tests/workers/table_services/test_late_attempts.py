"""A file of another attempt at a task, beside the one that its instant committed: the attempt was
frozen before the file was there, and killed before it could take it back. Nobody counts it, also
once the commit is archived, and repair takes it away (TL14).
"""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest

from tests.support.scenario_table import Row, ScenarioTable, ScenarioTables, schema_of
from tests.support.table_services import plan, run

ONE_BUCKET = {"hoodie.bucket.index.num.buckets": "1"}
SUMS = {"name": "spent", "ordering": ["ts"], "columns": ["sum"], "aggregates": {"sum": "sum"}}
SPENT = schema_of(id=pa.string(), place=pa.string(), ts=pa.int64(), sum=pa.int64())
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
LIMITS = {"min_commits": "2", "max_commits": "3", "sluice.archive.uncompacted.logs": "true"}


@pytest.fixture
def spent(tables: ScenarioTables, kind: str) -> ScenarioTable:
    """What was spent by key, added up."""
    return tables(
        table_type=kind,
        schema=SPENT,
        partition_by=["place"],
        options=ONE_BUCKET | {"hoodie.multistream.groups": json.dumps([SUMS])},
    )


def row(place: str, ts: int) -> Row:
    return {"id": f"{place}-1", "place": place, "ts": ts, "sum": 5}


def write(table: ScenarioTable, place: str, ts: int = 1) -> str:
    mode = "non-blocking" if table.table.config.is_merge_on_read else "optimistic"
    writer = table.writer("w", mode=mode).upsert(row(place, ts))
    writer.wins()
    return writer.written[0].stat.path


def leave_beside(table: ScenarioTable, path: str, attempt: int = 9) -> str:
    """The file of another attempt, which did what the first did; of a base file half of it."""
    committed = table.location / path
    name = re.sub(r"_(\d+)-\d+-\d+(?=_|$)", rf"_\1-8-{attempt}", committed.name)
    assert name != committed.name
    content = committed.read_bytes()
    half = content[: len(content) // 2]
    committed.with_name(name).write_bytes(content if ".log." in name else half)
    return committed.with_name(name).relative_to(table.location).as_posix()


def repaired(table: ScenarioTable) -> list[str]:
    shown = plan(table.table, "repair")
    run(table.table, "repair", expected_plan_hash=shown.plan_hash)
    return sorted(item.what for item in shown.items)


@pytest.mark.parametrize("kind", KINDS)
def test_file_of_a_late_attempt_does_not_count_and_goes(spent: ScenarioTable) -> None:
    path = write(spent, "oslo")
    late = sorted(leave_beside(spent, path, attempt) for attempt in (7, 9))

    assert spent.rows("id", "sum") == [{"id": "oslo-1", "sum": 5}]
    write(spent, "oslo", ts=2)
    assert spent.rows("id", "sum") == [{"id": "oslo-1", "sum": 10}]
    assert repaired(spent) == late
    assert not any((spent.location / one).exists() for one in late)


@pytest.mark.parametrize("kind", ["MERGE_ON_READ"])
def test_compaction_does_not_add_what_a_late_attempt_logged(spent: ScenarioTable) -> None:
    late = leave_beside(spent, write(spent, "oslo"))

    assert run(spent.table, "compaction").figures["log_files"] == 1
    assert spent.rows("id", "sum") == [{"id": "oslo-1", "sum": 5}]
    assert repaired(spent) == [late]


@pytest.mark.parametrize("kind", KINDS)
def test_nor_does_it_count_once_the_commit_is_archived(spent: ScenarioTable) -> None:
    path = write(spent, "oslo")
    for number in range(5):
        write(spent, "rome", ts=number)
    run(spent.table, "archive", **LIMITS)
    assert "oslo" not in str(spent.instants())
    late = leave_beside(spent, path)

    assert spent.rows("id", "sum")[0] == {"id": "oslo-1", "sum": 5}
    assert repaired(spent) == [late]


@pytest.mark.parametrize("kind", ["MERGE_ON_READ"])
def test_two_attempts_that_are_committed_count_both(spent: ScenarioTable) -> None:
    """As of a sink whose topics have partitions of one number."""
    writer = spent.writer("w", mode="non-blocking").begin(SPENT)
    for attempt in (1, 2):
        writer.write(row("oslo", attempt), attempt=attempt)
    writer.wins()
    assert len(spent.data_files()) == 2

    assert spent.rows("id", "sum") == [{"id": "oslo-1", "sum": 10}]
