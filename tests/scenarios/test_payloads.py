"""Hudi's payload classes as names for our merges, and partial updates by commit time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pyarrow as pa
import pytest

from tests.scenarios.services import run
from tests.support.scenario_table import Row, ScenarioTable, ScenarioTables, schema_of
from workers.errors import InvalidInput, UnsupportedTable
from workers.files.properties import load_properties
from workers.options.table_options import config_from_properties

KEY = "hoodie.datasource.write.payload.class"
OLD_KEY = "hoodie.compaction.payload.class"
MODEL = "org.apache.hudi.common.model."
SCHEMA = schema_of(id=pa.string(), ts=pa.int64(), a=pa.int32(), b=pa.string())
PARTIAL = {KEY: "OverwriteNonDefaultsWithLatestAvroPayload"}


@pytest.mark.parametrize(
    ("payload", "mode", "partial"),
    [
        ("DefaultHoodieRecordPayload", "EVENT_TIME_ORDERING", None),
        ("EventTimeAvroPayload", "EVENT_TIME_ORDERING", None),
        ("OverwriteWithLatestAvroPayload", "COMMIT_TIME_ORDERING", None),
        ("OverwriteNonDefaultsWithLatestAvroPayload", "COMMIT_TIME_ORDERING", "IGNORE_DEFAULTS"),
        ("PartialUpdateAvroPayload", "EVENT_TIME_ORDERING", "IGNORE_DEFAULTS"),
    ],
)
@pytest.mark.parametrize("key", [KEY, OLD_KEY])
@pytest.mark.parametrize("package", ["", MODEL], ids=["bare", "full"])
def test_payload_is_written_as_the_settings_that_hudi_writes(
    tables: ScenarioTables, payload: str, mode: str, partial: str | None, key: str, package: str
) -> None:
    table = tables(
        table_type="MERGE_ON_READ",
        schema=SCHEMA,
        ordering=["ts"],
        options={key: package + payload},
    )

    properties = load_properties(table.storage)
    assert properties["hoodie.record.merge.mode"] == mode
    assert properties.get("hoodie.table.partial.update.mode") == partial
    assert properties["hoodie.table.legacy.payload.class"] == MODEL + payload
    assert key not in properties


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({KEY: "AWSDmsAvroPayload"}, "deletes from the column Op"),
        ({KEY: MODEL + "debezium.MySqlDebeziumAvroPayload"}, "two fields"),
        ({KEY: "PostgresDebeziumAvroPayload"}, "FILL_UNAVAILABLE"),
        ({KEY: "com.example.Mine"}, "register_merger"),
        ({KEY: "PartialUpdateAvroPayload", OLD_KEY: "EventTimeAvroPayload"}, "twice"),
        (
            {KEY: "PartialUpdateAvroPayload", "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"},
            "contradicts the payload class.*EVENT_TIME_ORDERING",
        ),
        (
            {KEY: "EventTimeAvroPayload", "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
            "contradicts the payload class.*whole rows",
        ),
    ],
)
def test_payload_that_is_not_taken_over_says_why(
    tables: ScenarioTables, options: dict[str, str], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        tables(table_type="MERGE_ON_READ", schema=SCHEMA, ordering=["ts"], options=options)


def test_old_table_of_a_payload_that_merges_columns_is_not_read_wrongly(
    tables: ScenarioTables,
) -> None:
    properties = dict(load_properties(tables(schema=SCHEMA).storage))
    del properties["hoodie.record.merge.mode"]
    properties |= {
        "hoodie.table.version": "6",
        "hoodie.timeline.layout.version": "1",
        OLD_KEY: MODEL + "PartialUpdateAvroPayload",
    }

    with pytest.raises(UnsupportedTable, match="PartialUpdateAvroPayload"):
        config_from_properties(properties)
    plain = properties | {OLD_KEY: MODEL + "OverwriteWithLatestAvroPayload"}
    assert config_from_properties(plain).version == 6


COMMITS: tuple[tuple[Row, ...], ...] = (
    ({"id": "k", "ts": 9, "a": 1, "b": "one"}, {"id": "l", "ts": 9, "a": 1, "b": None}),
    ({"id": "k", "ts": 1, "a": None, "b": "two"},),
    ({"id": "k", "ts": 5, "a": 3}, {"id": "m", "ts": 5, "a": 3}, {"id": "m", "ts": 4, "a": None}),
)
MERGED = [
    {"id": "k", "ts": 5, "a": 3, "b": "two"},
    {"id": "l", "ts": 9, "a": 1, "b": None},
    {"id": "m", "ts": 4, "a": 3, "b": None},
]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("ordering", [["ts"], []], ids=["ordered", "unordered"])
@pytest.mark.parametrize("compacted_after", [(), (0,), (1,), (0, 1, 2)], ids=str)
def test_later_values_that_are_not_null_stand_by_commit_time(
    tables: ScenarioTables,
    table_type: str,
    ordering: Sequence[str],
    compacted_after: Sequence[int],
) -> None:
    table = tables(table_type=table_type, schema=SCHEMA, ordering=ordering, options=PARTIAL)
    for number, rows in enumerate(COMMITS):
        table.writer("w").upsert_and_commit(*rows)
        if number in compacted_after:
            compact(table)

    assert table.rows() == MERGED


def test_delete_begins_a_row_anew(tables: ScenarioTables) -> None:
    for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        table = tables(table_type=table_type, schema=SCHEMA, options=PARTIAL)
        table.writer("w").upsert_and_commit({"id": "k", "a": 1, "b": "one"})
        table.writer("w").upsert({"id": "k"}, operation="delete").wins()
        table.writer("w").upsert_and_commit({"id": "k", "b": "new"})

        assert table.rows("id", "a", "b") == [{"id": "k", "a": None, "b": "new"}]
        compact(table)  # Before, hudi-rs brings values back that were deleted.
        assert table.rows("id", "a", "b") == [{"id": "k", "a": None, "b": "new"}]


def test_streams_by_commit_time_follow_the_order_of_their_commits(tables: ScenarioTables) -> None:
    said: list[Row] = [{"id": "k", "a": 1}, {"id": "k", "a": 2}, {"id": "k", "b": "x"}]
    for order in itertools.permutations(said):
        table = tables(table_type="MERGE_ON_READ", schema=SCHEMA, options=PARTIAL)
        writers = [table.writer(f"w{n}", mode="non-blocking", stream=f"s{n}") for n in range(3)]
        for writer, row in zip(writers, order, strict=True):
            writer.upsert(row)
        for writer in reversed(writers):
            writer.wins()

        first_a = next(row["a"] for row in order if "a" in row)
        assert table.rows("a", "b") == [{"a": first_a, "b": "x"}]
        compact(table)  # Before, hudi-rs takes logs in the order in which they were requested.
        assert table.rows("a", "b") == [{"a": first_a, "b": "x"}]


def compact(table: ScenarioTable) -> None:
    if table.table.config.is_merge_on_read:
        run(table, "compaction")
