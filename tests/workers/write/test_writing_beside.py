"""File groups of one write beside each other: the table is that of a single thread, byte for byte,
and a group that fails leaves neither a file nor a thread behind.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest

from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import Files, MemoryStorage
from workers.concurrency.outcome import Committed
from workers.durability import Durability
from workers.errors import InstantRolledBack, StorageFailed
from workers.files.names import parse_name_instant
from workers.lakehouse import LakehouseTable, create_table
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.storage.local import LocalStorage
from workers.table.table import Table

ROWS = 240
TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "part": pa.string(),
    "ts": pa.int64(),
    "n": pa.float64(),
    "c": pa.string(),
}
SCHEMA = pa.schema(TYPES)
DIRECT = {"hoodie.write.markers.type": "direct"}
WAIT_MAX_S = 60
Step = Callable[[LakehouseTable, dict[str, str], str], object]
"""(table, write options, threads)"""


def batch(first: int, rows: int = ROWS, ts: int = 1) -> pa.Table:
    ids = [(7 * number) % rows + first for number in range(rows)]
    return pa.table(
        {
            "id": [f"key_{one:05d}" for one in ids],
            "part": ["abcd"[one % 4] for one in ids],
            "ts": [ts] * rows,
            "n": [one / 7 for one in ids],
            "c": [f"text {one % 9}" for one in ids],
        },
        schema=SCHEMA,
    )


class NamedStorage(MemoryStorage):
    """Knows which threads wrote data files; the first ones wait until as many are there as may be.

    Without the wait, a quick thread would take the group of one that has not begun yet.
    """

    def __init__(self, clock: StillClock, threads: int) -> None:
        super().__init__(clock)
        self.writers: set[str] = set()
        self.all_there = threading.Barrier(threads)

    @contextmanager
    def create_data(
        self, path: str, durability: Durability = Durability.DURABLE
    ) -> Iterator[IO[bytes]]:
        if len(self.writers) < self.all_there.parties:
            self.writers.add(threading.current_thread().name)
            self.all_there.wait(WAIT_MAX_S)
        self.writers.add(threading.current_thread().name)
        with super().create_data(path, durability) as stream:
            yield stream


STEPS: dict[str, Step] = {
    "bulk_insert": lambda table, options, _: table.write(
        batch(0), operation="bulk_insert", options=options
    ),
    "upsert": lambda table, options, _: table.write(batch(ROWS // 2, ts=2), options=options),
    "delete": lambda table, options, _: table.delete(
        batch(10, 60).select(["id", "part"]), options=options
    ),
    "compaction": lambda table, _, threads: table.compact(
        parameters={"sluice.compaction.threads": threads}
    ),
    "clustering": lambda table, _, threads: table.cluster(
        ["n"], parameters={"sluice.clustering.threads": threads}
    ),
    "overwrite": lambda table, options, _: table.write(
        batch(90, 50, ts=3), operation="insert_overwrite", options=options
    ),
}


def files_after(steps: list[str], kind: str, threads: int, index: str) -> tuple[Files, set[str]]:
    """All files of a table after these steps, at times that stand still, and who wrote data."""
    clock = StillClock()
    storage = NamedStorage(clock, threads)
    table_options = {"hoodie.index.type": index}
    if index == "BUCKET":
        table_options["hoodie.bucket.index.num.buckets"] = "2"
    table = create_table(
        storage.location, name="beside", schema=SCHEMA, record_key=["id"], partition_by=["part"],
        ordering=["ts"], table_type=kind, options=table_options,
        ports=still_ports(clock, prefix="one"), storage=storage,
    )  # fmt: skip
    for step in steps:
        STEPS[step](table, DIRECT | {"sluice.write.threads": str(threads)}, str(threads))
        clock.sleep(1)
    return storage.files, storage.writers


@pytest.mark.slow
@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("index", ["BUCKET", "GLOBAL_SIMPLE"])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_table_is_the_same_byte_for_byte_whatever_the_number_of_threads(
    kind: str, index: str
) -> None:
    steps = ["bulk_insert", "upsert", "delete", "compaction", "clustering", "overwrite", "upsert"]
    if kind == "COPY_ON_WRITE":
        steps.remove("compaction")

    alone, by_whom = files_after(steps, kind, 1, index)
    beside, by_several = files_after(steps, kind, 4, index)

    assert by_whom == {threading.current_thread().name}
    assert len(by_several) >= 4
    assert sorted(beside) == sorted(alone)
    assert [path for path in alone if alone[path] != beside[path]] == []


class BreakingStorage(LocalStorage):
    """Fails in the midst of one data file once another one is under way, which then takes long."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.breaks = False
        self.begun: list[str] = []
        self._another = threading.Event()
        self._broken = threading.Event()

    @contextmanager
    def create_data(
        self, path: str, durability: Durability = Durability.DURABLE
    ) -> Iterator[IO[bytes]]:
        if not self.breaks or path.startswith(".hoodie"):
            with super().create_data(path, durability) as stream:
                yield stream
            return
        self.begun.append(path)
        with super().create_data(path, durability) as stream:
            yield stream
            if path == self.begun[0]:
                assert self._another.wait(WAIT_MAX_S)
                self._broken.set()
                raise StorageFailed("the disk is full", path=path)
            self._another.set()
            assert self._broken.wait(WAIT_MAX_S)
            time.sleep(0.2)  # The other one fails first.


class MeetingStorage(LocalStorage):
    """Two data files end at the same time, after something that happened meanwhile."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.meanwhile: Callable[[], None]
        self.ended: list[str] = []
        self._both = threading.Barrier(2, self._meet)

    def _meet(self) -> None:
        self.meanwhile()

    @contextmanager
    def create_data(
        self, path: str, durability: Durability = Durability.DURABLE
    ) -> Iterator[IO[bytes]]:
        with super().create_data(path, durability) as stream:
            yield stream
            if not path.startswith(".hoodie"):
                self._both.wait(WAIT_MAX_S)
                self.ended.append(path)


def a_table(root: Path) -> tuple[LakehouseTable, BreakingStorage]:
    storage = BreakingStorage(root)
    table = create_table(
        storage.location, name="beside", schema=SCHEMA, record_key=["id"], partition_by=["part"],
        ordering=["ts"], options={"hoodie.bucket.index.num.buckets": "2"}, storage=storage,
    )  # fmt: skip
    table.write(batch(0), options=DIRECT)
    return table, storage


def data_files(table: LakehouseTable) -> list[str]:
    files = table.table.storage.list_tree("")
    return [
        one.path for one in files if parse_name_instant(one.name) and not one.path.startswith(".")
    ]


def test_a_group_that_fails_stops_the_others_and_leaves_no_file_and_no_thread(
    tmp_path: Path,
) -> None:
    table, storage = a_table(tmp_path / "t")
    before, files = table.read().sort_by("id"), data_files(table)
    storage.breaks = True

    with pytest.raises(StorageFailed, match="the disk is full"):
        table.write(batch(100, ts=2), options=DIRECT | {"sluice.write.threads": "2"})

    storage.breaks = False
    assert len(storage.begun) == 2  # Of eight.
    assert data_files(table) == files
    assert storage.list_tree(".hoodie/.temp") == []
    assert [one.name for one in threading.enumerate() if "sluice-work" in one.name] == []
    assert list(table.table.timeline().pending()) == []
    assert table.read().sort_by("id") == before
    assert isinstance(table.write(batch(100, ts=2), options=DIRECT), Committed)


def test_a_writer_that_is_rolled_back_while_it_writes_begins_no_further_file(
    tmp_path: Path,
) -> None:
    table, _ = a_table(tmp_path / "t")
    files = data_files(table)
    storage = MeetingStorage(tmp_path / "t")
    writer = LakehouseTable(Table(storage, table.table.config, table.table.ports))

    def roll_back() -> None:
        (mine,) = table.table.timeline().pending()
        request = RollbackRequest(mine.requested_at, by="admin", reason="test", is_forced=True)
        rollback(table.table, request, write_options({}))

    storage.meanwhile = roll_back
    with pytest.raises(InstantRolledBack):
        writer.write(batch(100, ts=2), options=DIRECT | {"sluice.write.threads": "2"})

    assert len(storage.ended) == 2  # Of eight.
    assert data_files(table) == files
    assert list(table.table.timeline().pending()) == []
