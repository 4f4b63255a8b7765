"""A consumer of changes and windows, and what snapshots said at each time that it read between."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tests.support.scenario_table import Row, ScenarioTable
from workers.lakehouse import open_table
from workers.read.request import EARLIEST

Rows = dict[str, Row]


class Pages:
    """The rows of a table by key, at each completion time of its timeline, without nulls: a window
    has the columns of its end, and some came later than a page.
    """

    def __init__(self, table: ScenarioTable) -> None:
        self.table = table
        self.by_time: dict[str, Rows] = {EARLIEST: {}}

    def note(self) -> None:
        """Read the times that are new."""
        for instant in self.table.table.timeline().list_completed_writes():
            if instant.completed_at not in self.by_time:
                rows = self._read(as_of=instant.completed_at)
                page = {row["id"]: row for row in rows}
                assert len(page) == len(rows), "a key stands twice"
                self.by_time[str(instant.completed_at)] = page

    @property
    def times(self) -> list[str]:
        return sorted(self.by_time)

    def check(self, since: str, until: str) -> None:
        """Compare the window and its changes with the pages: a consumer that applies the changes
        by key goes from the page at `since` to that at `until`, commit by commit, and every change
        changes something.
        """
        window = {"since": since, "until": until}
        before, after = self.by_time[since], self.by_time[until]
        changed = [key for key in sorted(after) if before.get(key) != after[key]]
        rows = sorted(self._read(**window), key=lambda row: str(row["id"]))
        assert rows == [after[key] for key in changed], window
        events = self._read(query="cdc", **window)
        assert [one["ts"] for one in events] == sorted(one["ts"] for one in events)
        kept = dict(before)
        for earlier, at in pairwise(one for one in self.times if since <= one <= until):
            of_commit = [one for one in events if one["ts"] == at]
            for event in of_commit:
                apply(kept, event)
            named = [key_of(one) for one in of_commit]
            assert len(set(named)) == len(named), of_commit
            assert kept == self.by_time[at], (earlier, at, of_commit)
        assert kept == after
        assert {one["ts"] for one in events} <= {*self.times}

    def _read(self, **request: Any) -> list[Row]:
        rows: list[Row] = open_table(self.table.location).read(**request).to_pylist()
        if "query" not in request:
            return [_cells(row) for row in rows]
        images = ("before", "after")
        return [event | {name: _cells(event[name]) for name in images} for event in rows]


def _cells(row: Row | None) -> Any:
    return row and {name: value for name, value in row.items() if value is not None}


def key_of(event: Row) -> str:
    return str((event["after"] or event["before"])["id"])


def apply(kept: Rows, event: Row) -> None:
    """Do to the rows what a change says, and check that it goes with them."""
    key = key_of(event)
    assert event["before"] == kept.get(key), event
    assert event["before"] != event["after"], event
    op = "d" if event["after"] is None else "i" if event["before"] is None else "u"
    assert event["op"] == op, event
    if event["after"] is None:
        del kept[key]
    else:
        kept[key] = event["after"]
