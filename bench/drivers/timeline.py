"""One reader of a large timeline, or of a table of many partitions, in a process of its own."""

from __future__ import annotations

from pathlib import Path

from bench.drivers.serving import Job, serve
from bench.support.counted_storage import CountedStorage
from workers.lakehouse import LakehouseTable, open_table
from workers.read.snapshot import plan_snapshot


class Reader:
    def __init__(self) -> None:
        self._table: LakehouseTable | None = None

    def open(self, folder: str) -> int:
        """From nothing known: how many instants there are, archived and active."""
        self._table = open_table(folder)
        return self.again()

    def again(self) -> int:
        assert self._table is not None, "not open"
        return len(self._table.timeline(archived=True))

    def plan(self, folder: str) -> int:
        """How many file slices a snapshot of the table has."""
        return len(plan_snapshot(open_table(folder).table).slices)

    def requests(self, folder: str) -> dict[str, int]:
        """Of such a plan, by kind."""
        storage = CountedStorage(Path(folder))
        table = open_table(folder, storage=storage).table
        storage.calls.clear()
        plan_snapshot(table)
        return dict(sorted(storage.calls.items()))


def jobs() -> dict[str, Job]:
    reader = Reader()
    return {
        "open": reader.open,
        "again": reader.again,
        "plan": reader.plan,
        "requests": reader.requests,
    }


if __name__ == "__main__":
    serve(jobs)
