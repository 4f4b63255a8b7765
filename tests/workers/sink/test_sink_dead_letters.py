"""Records that the table cannot take: kept beside it, counted, or what the sink stops at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.workers.sink.sinks import (
    AT_MS,
    ENDS,
    IDS,
    TOPIC,
    batch,
    config_of,
    coordinator,
    keyed_table,
    letters_of,
    participant,
    rows_of,
    write,
)
from workers.errors import BadRecords, BadRows
from workers.sink.batch import BadRecord
from workers.sink.dead_letters import list_dead_letter_files, read_dead_letters
from workers.sink.sink_commits import ID_KEY
from workers.table.table import Table
from workers.timeline.metadata import read_commit_metadata


@pytest.fixture
def keyed(tmp_path: Path) -> Table:
    return keyed_table(tmp_path / "t", IDS)


KEYED = config_of(mode="upsert")


def row(key: int, city: str | None = None, ts: int | None = None, **more: Any) -> dict[str, Any]:
    return {"id": key, "city": city, "ts": ts, **more}


def test_bad_records_are_kept_with_where_they_came_from_and_why(table: Table) -> None:
    config = config_of()
    bad = [BadRecord(4, b"k", b"{", "no JSON", AT_MS), BadRecord(1, None, None, "no value")]

    write(table, config, batch([{"id": 1}], bad=bad))

    first, second = letters_of(table, config)
    assert (first["_kafka_offset"], first["_sluice_error"]) == (1, "no value")
    assert (second["_kafka_topic"], second["_kafka_partition"]) == (TOPIC, 0)
    assert (second["key"], second["value"], second["_sluice_error"]) == (b"k", b"{", "no JSON")
    assert second["_kafka_timestamp"].timestamp() * 1000 == AT_MS
    newest = table.timeline().list_completed_writes()[-1]
    extra = read_commit_metadata(table.storage.read(table.layout.path(newest))).extra_metadata
    assert extra["hoodie.sink.dlq.count"] == "2"


def test_more_bad_records_than_a_batch_may_have_do_not_stop_a_stream(tmp_path: Path) -> None:
    table = keyed_table(tmp_path / "t", IDS)
    rows = [row(n if n % 2 else None, "x") for n in range(30_000)]  # type: ignore[arg-type]
    bad = [BadRecord(100_000 + n, None, b"?", "garbage") for n in range(12_000)]

    write(table, KEYED, batch(rows, schema=IDS, bad=bad), end=200_000)

    assert len(rows_of(table, "id")) == 15_000
    names = list_dead_letter_files(table, sink_key=ID_KEY, sink_id=TOPIC)
    letters = read_dead_letters(f"{tmp_path}/t-dead-letters", names, maximum=100_000)
    assert letters.num_rows == 27_000
    assert read_dead_letters(f"{tmp_path}/t-dead-letters", names, maximum=5).num_rows == 5


def test_letters_of_a_transaction_that_was_taken_back_are_gone(
    table: Table, tmp_path: Path
) -> None:
    config = config_of()
    ledger = coordinator(table, config)
    begun = ledger.begin(ENDS)
    assert begun is not None
    participant(begun, table, config).written(batch([], bad=[BadRecord(0, None, b"?", "bad")]))
    home = tmp_path / "t-dead-letters"
    assert len(list(home.glob("*.parquet"))) == 1

    ledger.abort(begun, "for a test")

    assert list(home.glob("*.parquet")) == []


def test_a_sink_that_stops_at_bad_records_says_which(table: Table, tmp_path: Path) -> None:
    config = config_of(on_bad_record="fail")
    begun = coordinator(table, config).begin(ENDS)
    assert begun is not None
    member = participant(begun, table, config)

    with pytest.raises(BadRecords, match=r"partition=0 offset=7 cause=no JSON records=2"):
        member.written(
            batch([], bad=[BadRecord(9, None, b"", "x"), BadRecord(7, None, b"", "no JSON")])
        )

    assert not (tmp_path / "t-dead-letters").exists()


def test_a_sink_that_stops_at_bad_records_stops_at_rows_that_the_table_refuses(
    keyed: Table,
) -> None:
    config = config_of(mode="upsert", on_bad_record="fail")
    begun = coordinator(keyed, config).begin(ENDS)
    assert begun is not None

    with pytest.raises(BadRows, match="record key is null"):
        participant(begun, keyed, config).written(batch([row(None, "x")], schema=IDS))  # type: ignore[arg-type]
