"""Readers come at any moment: they see a commit whole or not at all, and never need a writer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables
from tests.support.watched_storage import Died, WatchedStorage
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback

OPTIONS = write_options({})
KINDS = [
    ("COPY_ON_WRITE", "single"),
    ("MERGE_ON_READ", "single"),
    ("MERGE_ON_READ", "non-blocking"),
]


def a_table(tables: ScenarioTables, table_type: str) -> ScenarioTable:
    return tables(table_type=table_type, schema=READINGS, ordering=["ts"], partition_by=["place"])


def generation(number: int) -> list[Row]:
    """Twelve rows in two partitions and many file groups that all say the same."""
    return [
        {"id": f"k{n}", "place": f"p{n % 2}", "ts": number, "value": number, "note": None}
        for n in range(12)
    ]


def values(rows: pa.Table) -> set[int]:
    return {int(row["value"]) for row in rows.to_pylist()}


@pytest.mark.slow
@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(("table_type", "mode"), KINDS)
def test_readers_beside_a_writer_see_every_commit_whole(
    tables: ScenarioTables, table_type: str, mode: str
) -> None:
    table = a_table(tables, table_type)
    table.writer("w", mode=mode).upsert_and_commit(*generation(0))
    is_over = threading.Event()

    def read() -> list[set[int]]:
        seen = []
        while not is_over.is_set():
            seen.append(values(open_table(table.location).read()))
        return seen

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for number in range(1, 12):
            table.writer("w", mode=mode).upsert_and_commit(*generation(number))
        is_over.set()

    for reader in readers:
        assert all(len(seen) == 1 for seen in reader.result())
        newest = [max(seen) for seen in reader.result()]
        assert newest == sorted(newest)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("table_type", "mode"), KINDS)
@pytest.mark.parametrize("moment", ["listing", "opening"])
def test_reader_who_looked_before_a_rollback_and_reads_after_it_sees_no_mix(
    tables: ScenarioTables, table_type: str, mode: str, moment: str
) -> None:
    """The rollback has deleted one of the commit's files and died: some are there, some not."""
    table = a_table(tables, table_type)
    table.writer("w", mode=mode).upsert_and_commit(*generation(1))
    wrong = table.writer("w", mode=mode).upsert_and_commit(*generation(2))

    def half_a_rollback() -> None:
        dying = WatchedStorage(table.location, before=dies_at_second_file())
        half = open_table(table.location, storage=dying).table
        with pytest.raises(Died):
            rollback(half, RollbackRequest(wrong.instant, by="admin", reason="x"), OPTIONS)

    interruptions: list[str] = []
    # One partition is listed already, or nothing is opened yet.
    calls, part = (("list_names",), "p1") if moment == "listing" else (("open_data", "read"), "p0")

    def interrupted(call: str, path: str) -> None:
        if call in calls and path.startswith(part) and not interruptions:
            interruptions.append(path)
            half_a_rollback()

    storage = WatchedStorage(table.location, before=interrupted)

    seen = values(open_table(table.location, storage=storage).read())

    assert interruptions
    assert seen in ({1}, {2})
    table.writer("next", mode=mode).upsert_and_commit(*generation(3))


def dies_at_second_file() -> Callable[[str, str], None]:
    deleted = []

    def watch(call: str, path: str) -> None:
        if call == "delete" and path.startswith("p"):
            deleted.append(path)
            if len(deleted) == 2:
                raise Died

    return watch


def test_reader_needs_no_lock_and_writes_nothing(tables: ScenarioTables) -> None:
    table = a_table(tables, "MERGE_ON_READ")
    table.writer("w").upsert_and_commit(*generation(1))
    busy = table.writer("busy").upsert(*generation(2))
    listing = table.listing()

    table.rows()

    assert table.listing() == listing
    busy.wins()
