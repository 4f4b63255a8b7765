"""Past moments after a clean, and files that go while a reader reads: the whole answer or a reason
(TL5, A14, G1, B16)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables
from tests.support.watched_storage import WatchedStorage
from workers.errors import SnapshotExpired
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.read.request import EARLIEST
from workers.table_services import registry
from workers.table_services.service import ServiceRequest

KEEP_ONE = {
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
    "sluice.reader.retention.minutes": "0",
}


def reading(key: str, ts: int) -> Row:
    return {"id": key, "place": "p", "ts": ts, "value": ts, "note": ""}


def rows(table: ScenarioTable, **request: Any) -> list[Row]:
    rows_read = open_table(table.location).read(**request)
    return sorted(rows_read.to_pylist(), key=lambda row: str(row["id"]))


def cleaned(tables: ScenarioTables) -> tuple[ScenarioTable, list[str]]:
    """Three commits into one file group, of which a clean left the newest file."""
    table = tables(
        schema=READINGS, ordering=["ts"], options={"hoodie.bucket.index.num.buckets": "1"}
    )
    times = [
        table.writer("w").upsert_and_commit(reading(f"k{ts}", ts)).completed_at for ts in range(3)
    ]
    clean(table)
    return table, times


def clean(table: ScenarioTable) -> None:
    request = ServiceRequest(by="test", parameters=KEEP_ONE)
    registry.get_service("clean").run(table.table, request, write_options({}))
    assert len(table.data_files()) == 1


def test_moment_that_was_cleaned_away_is_expired_and_later_ones_are_read(
    tables: ScenarioTables,
) -> None:
    table, times = cleaned(tables)

    for gone in times[:2]:
        with pytest.raises(SnapshotExpired, match="cleaned past this time"):
            rows(table, as_of=gone)
    assert [row["id"] for row in rows(table, as_of=times[2])] == ["k0", "k1", "k2"]
    assert rows(table, as_of=EARLIEST) == []


def test_window_from_before_a_clean_is_whole_and_its_changes_are_expired(
    tables: ScenarioTables,
) -> None:
    table, times = cleaned(tables)

    assert [row["id"] for row in rows(table, since=EARLIEST)] == ["k0", "k1", "k2"]
    assert [row["id"] for row in rows(table, since=times[0])] == ["k1", "k2"]
    with pytest.raises(SnapshotExpired):
        rows(table, since=EARLIEST, until=times[0])
    with pytest.raises(SnapshotExpired):
        open_table(table.location).read(query="cdc", since=EARLIEST)


def test_reader_whose_file_goes_looks_again_or_says_so(tables: ScenarioTables) -> None:
    table = tables(
        schema=READINGS, ordering=["ts"], options={"hoodie.bucket.index.num.buckets": "1"}
    )
    first = table.writer("w").upsert_and_commit(reading("a", 1))
    cleans: list[str] = []

    def overtake(call: str, path: str) -> None:
        if call == "open_data" and not cleans:
            cleans.append(path)
            table.writer("w").upsert_and_commit(reading("a", 2))
            clean(table)

    storage = WatchedStorage(table.location, before=overtake)
    [row] = open_table(table.location, storage=storage).read().to_pylist()
    assert (row["ts"], len(cleans)) == (2, 1)
    cleans.clear()

    with pytest.raises(SnapshotExpired):
        open_table(table.location, storage=storage).read(as_of=first.completed_at)


def test_file_that_nobody_cleaned_is_never_passed_over(tables: ScenarioTables) -> None:
    table = tables(schema=READINGS, ordering=["ts"])
    table.writer("w").upsert_and_commit(reading("a", 1))
    [path] = table.data_files()
    content = table.storage.read(path)

    def vanish(call: str, path: str) -> None:
        if call == "open_data":
            Path(table.location / path).unlink(missing_ok=True)

    storage = WatchedStorage(table.location, before=vanish)

    with pytest.raises(SnapshotExpired, match="is gone"):
        open_table(table.location, storage=storage).read()
    table.storage.put(path, content)
