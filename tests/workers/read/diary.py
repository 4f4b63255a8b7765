"""What plain snapshots said after each commit, to compare later reads of those times with."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa

from tests.support.scenario_table import Row, ScenarioTable
from workers.lakehouse import open_table
from workers.read.request import EARLIEST

Rows = dict[str, Row]


class Diary:
    """What a snapshot said after each commit, by its completion time."""

    def __init__(self, table: ScenarioTable) -> None:
        self.table = table
        self.pages: dict[str, Rows] = {EARLIEST: {}}

    def note(self) -> None:
        completed = self.table.table.timeline().list_completed_writes()
        self.pages[completed[-1].completed_at or ""] = {row["id"]: row for row in self.table.rows()}

    @property
    def times(self) -> list[str]:
        return sorted(self.pages)

    def written(self, since: str, until: str) -> list[Row]:
        """Rows that stand at `until` and did not at `since`."""
        older = self.pages[since]
        rows = self.pages[until]
        return [rows[key] for key in sorted(rows) if older.get(key) != rows[key]]

    def changes(self, since: str, until: str) -> list[tuple[str, str, Row | None, Row | None]]:
        changed_rows = []
        for before, after in pairwise([one for one in self.times if since <= one <= until]):
            old, new = self.pages[before], self.pages[after]
            for key in sorted(old.keys() | new.keys()):
                if old.get(key) != new.get(key):
                    op = "i" if key not in old else "u" if key in new else "d"
                    changed_rows.append((op, after, old.get(key), new.get(key)))
        return changed_rows


def read(table: ScenarioTable, **request: Any) -> list[Row]:
    rows: pa.Table = open_table(table.location).read(**request)
    return sorted(rows.to_pylist(), key=lambda row: str(row["id"]))


def changes(table: ScenarioTable, **request: Any) -> list[tuple[Any, ...]]:
    rows = open_table(table.location).read(query="cdc", **request).to_pylist()
    changed_rows = [(row["op"], row["ts"], row["before"], row["after"]) for row in rows]
    return sorted(changed_rows, key=lambda row: (row[1], str((row[2] or row[3])["id"])))
