"""What markers cost the storage, counted: calls and bytes, whatever the machine does meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.workers.markers.harness import INSTANT, new_table
from tests.workers.markers.troubled import run, stored
from workers.clock import SystemClock
from workers.durability import Durability
from workers.markers.batcher import BatchSettings, MarkerDirectory
from workers.storage.base import FileInfo
from workers.storage.local import LocalStorage


class CountedStorage(LocalStorage):
    """Every call of a marker server, with the bytes that it moves; writes may take a while."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.calls: Counter[str] = Counter()
        self.bytes = 0
        self.write_s = 0.0

    @property
    def writes(self) -> int:
        return self.calls["append"] + self.calls["put_if_absent"] + self.calls["put"]

    def append(self, path: str, content: bytes) -> None:
        self._wrote("append", content)
        super().append(path, content)

    def put(self, path: str, content: bytes, durability: Durability = Durability.DURABLE) -> None:
        self._wrote("put", content)
        super().put(path, content, durability)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        self._wrote("put_if_absent", content)
        return super().put_if_absent(path, content)

    def read(self, path: str) -> bytes:
        content = super().read(path)
        self.calls["read"] += 1
        self.bytes += len(content)
        return content

    def info(self, path: str) -> FileInfo | None:
        self.calls["info"] += 1
        return super().info(path)

    def list_files(self, directory: str) -> Sequence[FileInfo]:
        self.calls["list_files"] += 1
        return super().list_files(directory)

    def _wrote(self, call: str, content: bytes) -> None:
        self.calls[call] += 1
        self.bytes += len(content)
        SystemClock().sleep(self.write_s)


@pytest.fixture
def counted(tmp_path: Path) -> CountedStorage:
    return CountedStorage(Path(new_table(tmp_path).location))


def names_of(task: int, count: int) -> list[str]:
    return [
        f"p={task % 7}/{task:03d}{n:05d}-0000-0000-0000-000000000000-0_{task}-1-2_{INSTANT}"
        ".parquet.marker.CREATE"
        for n in range(count)
    ]


def test_ten_thousand_markers_of_sixteen_tasks_cost_a_handful_of_writes(
    counted: CountedStorage,
) -> None:
    counted.write_s = 0.05

    async def story(directory: MarkerDirectory) -> None:
        tasks = (directory.create(names_of(task, 625), f"t{task}") for task in range(16))
        await asyncio.gather(*tasks)

    run(counted, story)

    assert len(stored(counted)) == 10_000
    assert counted.writes <= 25


def test_tasks_that_come_one_after_the_other_cost_a_write_for_names_and_one_for_requests(
    counted: CountedStorage,
) -> None:
    async def story(directory: MarkerDirectory) -> None:
        for task in range(16):
            await directory.create(names_of(task, 625), f"t{task}")

    run(counted, story)

    assert counted.calls["put_if_absent"] == 1  # MARKERS.type
    assert counted.calls["append"] == 2 * 16


def test_a_batch_behind_a_hundred_thousand_markers_costs_what_an_early_one_did(
    counted: CountedStorage,
) -> None:
    costs: list[tuple[dict[str, int], int]] = []

    async def story(directory: MarkerDirectory) -> None:
        for task in range(100, 300):
            counted.calls.clear()
            counted.bytes = 0
            await directory.create(names_of(task, 500), f"t{task}")
            costs.append((dict(counted.calls), counted.bytes))

    run(counted, story, BatchSettings(num_threads=20))

    # After every file has been begun. The number of the batch may have a digit more.
    assert all(calls == costs[20][0] for calls, _ in costs[20:])
    assert all(abs(moved - costs[20][1]) <= 1 for _, moved in costs[20:])
