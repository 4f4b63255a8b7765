"""What a participant writes in keyed mode: versions, tombstones, the op column."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.referee import assert_referee_agrees
from tests.support.scenario_table import schema_of
from tests.workers.sink.sinks import (
    AT_MS,
    IDS,
    Facts,
    batch,
    config_of,
    context_of,
    coordinator,
    keyed_table,
    letters_of,
    participant,
    report_of,
    rows_of,
    write,
    writer_of,
)
from workers.errors import InvalidInput
from workers.lakehouse import open_table
from workers.schema.table_schema import TableSchema
from workers.sink.batch import Tombstone
from workers.sink.context import payload_schema
from workers.sink.coordinator_events import Committed
from workers.table.table import Table


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[Table]:
    made = keyed_table(tmp_path / "t", IDS)
    yield made
    assert_referee_agrees(tmp_path / "t")


@pytest.fixture
def ordered(tmp_path: Path) -> Table:
    return keyed_table(tmp_path / "t", IDS, ordering=["ts"])


KEYED = config_of(mode="upsert")
OP = config_of(mode="upsert", op_column="op")
WITH_OP = IDS.append(pa.field("op", pa.string()))


def row(key: int, city: str | None = None, ts: int | None = None, **more: Any) -> dict[str, Any]:
    return {"id": key, "city": city, "ts": ts, **more}


def test_the_later_record_of_a_key_wins_in_one_flush_and_over_flushes(keyed: Table) -> None:
    small = replace(KEYED, buffer_bytes_max=2)

    write(keyed, KEYED, batch([row(1, "a"), row(1, "b"), row(2, "c")], schema=IDS))
    write(keyed, small, *(batch([row(2, f"{n}")], 100 + n, schema=IDS) for n in range(12)))

    assert rows_of(keyed, "id", "city") == [(1, "b"), (2, "11")]


def test_in_a_table_with_an_ordering_the_greater_value_wins(ordered: Table) -> None:
    write(ordered, KEYED, batch([row(1, "new", 9), row(1, "old", 3)], schema=IDS))
    write(ordered, KEYED, batch([row(1, "older", 1)], 100, schema=IDS))

    assert rows_of(ordered, "id", "city") == [(1, "new")]
    assert_referee_agrees(ordered.storage.location)


def test_a_tombstone_deletes_its_row_and_a_later_record_brings_it_back(keyed: Table) -> None:
    stones = [Tombstone(103, b"1"), Tombstone(104, b'{"id": 2}'), Tombstone(105, b"77")]

    write(keyed, KEYED, batch([row(1, "a"), row(2, "b"), row(3, "c")], schema=IDS))
    write(
        keyed,
        KEYED,
        batch([row(1, "again")], offsets=[109], schema=IDS, tombstones=stones),
    )

    assert rows_of(keyed, "id", "city") == [(1, "again"), (3, "c")]


def test_a_tombstone_after_a_record_of_the_same_flush_deletes_it(keyed: Table) -> None:
    write(
        keyed,
        KEYED,
        batch([row(1, "a"), row(2, "b")], schema=IDS, tombstones=[Tombstone(5, b"1")]),
    )

    assert rows_of(keyed, "id") == [(2,)]


def test_only_tombstones_are_a_transaction_too(keyed: Table) -> None:
    write(keyed, KEYED, batch([row(1, "a"), row(2, "b")], schema=IDS))
    write(keyed, KEYED, batch([], schema=IDS, tombstones=[Tombstone(105, b"1")]))

    assert rows_of(keyed, "id") == [(2,)]


def test_a_tombstone_beats_every_ordering_value_and_a_later_record_begins_afresh(
    ordered: Table,
) -> None:
    write(ordered, KEYED, batch([row(1, "high", 9), row(2, "high", 9)], schema=IDS))
    write(
        ordered,
        KEYED,
        batch(
            [row(2, "low", 1)],
            offsets=[112],
            schema=IDS,
            tombstones=[Tombstone(110, b"1"), Tombstone(111, b"2")],
        ),
    )

    assert rows_of(ordered, "id", "city") == [(2, "low")]


@pytest.mark.parametrize("said", ["d", "D", "delete", "DELETE"])
def test_the_op_column_deletes_and_need_not_be_a_column(keyed: Table, said: str) -> None:
    assert payload_schema(OP, IDS).names == [*IDS.names, "op"]

    write(keyed, OP, batch([row(n, "x", op="c") for n in (1, 2, 3)], schema=WITH_OP))
    write(keyed, OP, batch([row(1, op=said), row(2, "y", op=None)], 110, schema=WITH_OP))

    assert rows_of(keyed, "id", "city") == [(2, "y"), (3, "x")]
    assert "op" not in open_table(keyed.storage.location).read().column_names


def test_an_op_delete_is_as_old_as_its_ordering_value(ordered: Table) -> None:
    write(ordered, OP, batch([row(1, "x", 5, op="c"), row(2, "x", 5, op="c")], schema=WITH_OP))
    write(
        ordered, OP, batch([row(1, None, 3, op="d"), row(2, None, 8, op="d")], 110, schema=WITH_OP)
    )

    assert rows_of(ordered, "id") == [(1,)]
    assert_referee_agrees(ordered.storage.location)


def test_deletes_need_no_values_of_columns_that_every_row_has(tmp_path: Path) -> None:
    avro = TableSchema.from_arrow(schema_of(id=pa.int64()), table_name="orders").to_avro()
    avro["fields"].append({"name": "city", "type": "string"})
    table = keyed_table(tmp_path / "t", TableSchema.from_avro(avro))
    loose = schema_of(id=pa.int64(), city=pa.string(), op=pa.string())
    rows = [{"id": n, "city": "x", "op": "c"} for n in range(4)]

    write(table, OP, batch(rows, schema=loose))
    write(
        table,
        OP,
        batch(
            [{"id": 1, "op": "d"}, {"id": 9, "city": "y", "op": "u"}, {"id": 8, "op": "u"}],
            110,
            schema=loose,
            tombstones=[Tombstone(120, b"2")],
        ),
    )

    assert rows_of(table, "id") == [(0,), (3,), (9,)]
    [letter] = letters_of(table, OP)
    assert letter["_kafka_offset"] == 112
    assert "required column" in letter["_sluice_error"]
    assert_referee_agrees(tmp_path / "t")


def test_a_column_of_the_table_for_the_delete_mark_is_filled(tmp_path: Path) -> None:
    marked = IDS.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    table = keyed_table(tmp_path / "t", marked)
    with_op = marked.append(pa.field("op", pa.string()))

    write(table, OP, batch([row(n, "x", op="c") for n in range(4)], schema=with_op))
    write(
        table,
        OP,
        batch(
            [row(1, op="d"), row(3, "z", op="u", _hoodie_is_deleted=False)],
            110,
            schema=with_op,
            tombstones=[Tombstone(120, b"2")],
        ),
    )

    assert rows_of(table, "id", "city") == [(0, "x"), (3, "z")]
    assert_referee_agrees(tmp_path / "t")


def test_a_tombstones_key_may_have_several_fields_and_name_the_partition(tmp_path: Path) -> None:
    schema = schema_of(a=pa.string(), b=pa.date32(), city=pa.string())
    table = keyed_table(tmp_path / "t", schema, record_key=["a", "b"], partition_by=["city"])
    day = dt.date(2026, 1, 2)
    rows = [{"a": name, "b": day, "city": "Oslo"} for name in "xyz"]

    write(table, KEYED, batch(rows, schema=schema))
    write(
        table,
        KEYED,
        batch(
            [],
            schema=schema,
            tombstones=[
                Tombstone(103, b'{"a": "x", "b": "2026-01-02", "city": "Oslo", "more": 1}'),
                Tombstone(104, b'{"a": "y", "b": "2026-01-02"}'),
            ],
        ),
    )

    assert rows_of(table, "a") == [("y",), ("z",)]
    [letter] = letters_of(table, KEYED)
    assert "field=city" in letter["_sluice_error"]
    assert_referee_agrees(tmp_path / "t")


KEYLESS = [
    (None, "no key"),
    (b"\xff", "not text"),
    (b"{", "not a JSON object"),
    (b'{"di": 1}', "field=id"),
    (b'{"id": 1.5}', "field=id"),
    (b"one", "column=id"),
    (b'{"id": [1]}', "field=id"),
]


@pytest.mark.parametrize(("key", "cause"), KEYLESS)
def test_a_tombstone_that_names_no_row_is_a_dead_letter(
    keyed: Table, key: bytes | None, cause: str
) -> None:
    stones = [Tombstone(3, b"1"), Tombstone(4, key, AT_MS), Tombstone(5, b"2")]

    write(keyed, KEYED, batch([row(n, "x") for n in (1, 2, 3)], schema=IDS, tombstones=stones))

    assert rows_of(keyed, "id") == [(3,)]
    [letter] = letters_of(keyed, KEYED)
    assert (letter["_kafka_offset"], letter["key"], letter["value"]) == (4, key, None)
    assert cause in letter["_sluice_error"]


# One key in several partitions ---------------------------------------------------------------


def test_of_one_key_in_several_partitions_the_higher_one_wins_within_a_commit(
    keyed: Table,
) -> None:
    """However often each of them flushed, and whoever was there first."""
    small = replace(KEYED, buffer_bytes_max=2)
    partitions = {10: 1, 2: 12, 0: 3}
    ledger = coordinator(keyed, KEYED)
    begun = ledger.begin(Facts(dict.fromkeys(range(11), (0, 100))))
    assert begun is not None

    reports = [report_of(begun, one, 0) for one in range(11) if one not in partitions]
    for partition, flushes in partitions.items():
        rows = [batch([row(1, f"{partition}/{n}")], n, schema=IDS) for n in range(flushes)]
        written = participant(begun, keyed, small, partition).written(*rows)
        reports.append(report_of(begun, partition, flushes, written))
    assert isinstance(ledger.commit(begun, reports), Committed)

    assert rows_of(keyed, "id", "city") == [(1, "10/0")]
    open_table(keyed.storage.location).compact()
    assert rows_of(keyed, "id", "city") == [(1, "10/0")]


def test_of_equal_ordering_values_in_several_partitions_the_higher_partition_wins(
    ordered: Table,
) -> None:
    ledger = coordinator(ordered, KEYED)
    begun = ledger.begin(Facts({0: (0, 9), 1: (0, 9)}))
    assert begun is not None
    given = {0: [row(1, "low", 7), row(2, "newer", 8)], 1: [row(1, "high", 7), row(2, "old", 3)]}

    reports = []
    for partition, rows in given.items():
        written = participant(begun, ordered, KEYED, partition).written(batch(rows, schema=IDS))
        reports.append(report_of(begun, partition, 2, written))
    assert isinstance(ledger.commit(begun, reports), Committed)

    assert rows_of(ordered, "id", "city") == [(1, "high"), (2, "newer")]
    assert_referee_agrees(ordered.storage.location)


def test_more_files_than_versions_are_refused(keyed: Table) -> None:
    ledger = coordinator(keyed, KEYED)
    begun = ledger.begin(Facts({0: (0, 9)}))
    assert begun is not None
    context = context_of(keyed, KEYED, begun.instant, begun.schema, begun.read_at)
    writer = writer_of(keyed, KEYED, context, partition=1 << 17)
    writer.add(batch([row(1)], schema=IDS))

    with pytest.raises(InvalidInput, match="more log files than Hudi can number"):
        writer.close()
    ledger.abort(begun, "test")
