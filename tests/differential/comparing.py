"""Everything that can be read of a story's table, compared with its model."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.differential.known import excuse
from tests.differential.model import Entry, State
from tests.differential.shape import NUMBER
from tests.support.referee import referee_table
from workers.errors import SnapshotExpired
from workers.lakehouse import LakehouseTable

if TYPE_CHECKING:
    from tests.differential.story import Story

REFEREE_SHARE = 0.15
MOMENTS, WINDOWS = 3, 3
"""How many times and windows of a table are read; each commit's changes always."""
_SERVICES = ("compact", "cluster")


class Comparison:
    def __init__(self, story: Story) -> None:
        self._story = story
        # Apart from the story's: a read more or less makes no other story.
        self._draw = random.Random(f"reads of {story.number}")

    def now(self) -> None:
        """The newest snapshot."""
        state, table = self._story.state, self._story.table()
        assert_same(table.read(), state, state.listed(), "snapshot")
        if self._draw.random() < REFEREE_SHARE:
            self._compare_referee(table, state)

    def at_the_end(self) -> None:
        """Also earlier times, windows and changes."""
        entries, table = self._story.entries, self._story.table()
        self._compare_referee(table, self._story.state)
        self._compare_conditions(table, self._story.state)
        for entry in self._draw.sample(entries, min(MOMENTS, len(entries))):
            with self._may_expire(entry):
                rows = table.read(as_of=entry.ends_at)
                assert_same(rows, entry.state, entry.state.listed(), f"as of {entry.ends_at}")
        pairs = [(at, at + 1) for at in range(len(entries) - 1)]
        for first, last in self._draw.sample(pairs, min(WINDOWS, len(pairs))):
            self._compare_window(table, entries[first : last + 1])
        if pairs:
            first, last = sorted(self._draw.sample(range(len(entries)), 2))
            self._compare_window(table, entries[first : last + 1])
            self._compare_changes(table, entries)

    def _compare_referee(self, table: LakehouseTable, state: State) -> None:
        """hudi-rs reads the same rows."""
        reason = excuse(self._story, table)
        self._story.counts[f"hudi-rs: {reason or 'compared'}"] += 1
        if reason:
            return
        rows, schema = referee_table(self._story.location), pa.schema(state.columns)
        theirs = (
            rows.select(schema.names).cast(schema) if rows.num_columns else schema.empty_table()
        )
        assert_same(theirs, state, state.listed(), "hudi-rs")

    def _compare_conditions(self, table: LakehouseTable, state: State) -> None:
        """Rows of one value of a partition or key column, and of some numbers."""
        shape, rows = self._story.shape, [row.values for row in state.rows.values()]
        for name in (*shape.partition_names, *shape.key_names[:1]):
            if rows:
                value = self._draw.choice(sorted(rows, key=repr)).get(name)
                sign = "is" if value is None else "="
                kept = [state.spelled(row) for row in rows if row.get(name) == value]
                matching = table.read(where=[(name, sign, value)])
                assert_same(matching, state, kept, f"where {name} {sign} {value}")
        least = self._draw.randrange(100)
        numbers = [row for row in rows if row.get(NUMBER) is not None]
        kept = [state.spelled(row) for row in numbers if row[NUMBER] >= least]
        matching = table.read(where=f"{NUMBER} >= {least}")
        assert_same(matching, state, kept, f"where {NUMBER} >= {least}")

    def _compare_window(self, table: LakehouseTable, entries: list[Entry]) -> None:
        before, after = entries[0], entries[-1]
        model = self._story.model
        with self._may_expire(before, after):
            rows = table.read(since=before.ends_at, until=after.ends_at)
            keys = model.written(before.state, after.state, entries[1].number)
            what = f"since {before.ends_at} until {after.ends_at}"
            assert_same(rows, after.state, after.state.listed(keys), what)

    def _compare_changes(self, table: LakehouseTable, entries: list[Entry]) -> None:
        """All at once, or from one entry to the next where the oldest are cleaned away."""
        kept = [at for at, one in enumerate(entries) if not one.may_be_expired]
        first = kept[0] if kept else len(entries)
        for before, after in pairwise(entries[: first + 1]):
            with self._may_expire(before, after):
                self._compare_commits(table, [before, after])
        if len(entries) - first > 1:
            self._compare_commits(table, entries[first:])

    def _compare_commits(self, table: LakehouseTable, entries: list[Entry]) -> None:
        state = entries[-1].state
        rows = table.read(query="cdc", since=entries[0].ends_at, until=entries[-1].ends_at)
        got = rows.to_pylist()
        order = list(dict.fromkeys(row["ts"] for row in got))
        assert order == sorted(order), ("the order of the commits", order)
        expected: list[str] = []
        for before, after in pairwise(entries):
            if after.kind in _SERVICES:
                continue
            # A change of a column that was dropped since is none under the columns of the end.
            then = replace(after.state, columns=state.columns)
            for change in self._story.model.changes(before.state, then, after.number):
                expected += self._spelled(after.completed_at, change, state.spelled)
        mine: list[str] = []
        ops: dict[tuple[Any, ...], str] = {}
        for row in got:
            change = (row["op"], row["before"], row["after"])
            mine += self._spelled(row["ts"], change, lambda image: tuple(image.values()))
            image = row["after"] or row["before"]
            key = (row["ts"], *(image[name] for name in self._story.shape.key_names))
            ops[key] = ops.get(key, "") + row["op"]
        assert not [key for key, each in ops.items() if each in ("di", "id")], "a move in two parts"
        _assert_equal(sorted(mine), sorted(expected), "changes")

    def _spelled(
        self, at: str, change: tuple[str, Any, Any], spell: Callable[[Any], tuple[Any, ...]]
    ) -> list[str]:
        """The change as texts: none of an update whose images are equal. Where a key may stand in
        several partitions, an update between two of them is a delete and an insert here: nothing
        says which of its rows went where.
        """
        op, old, new = change
        parts = [change]
        if op == "u":
            part = self._story.model.partition_of
            if repr(spell(old)) == repr(spell(new)):
                parts = []
            elif not self._story.shape.is_global and part(old) != part(new):
                parts = [("d", old, None), ("i", None, new)]
        return [
            repr((at, one, *(None if image is None else spell(image) for image in images)))
            for one, *images in parts
        ]

    @contextmanager
    def _may_expire(self, *entries: Entry) -> Iterator[None]:
        try:
            yield
        except SnapshotExpired:
            assert any(one.may_be_expired for one in entries), "expired, though it is retained"
            self._story.counts["read expired"] += 1


def assert_same(rows: pa.Table, state: State, expected: list[tuple[Any, ...]], what: str) -> None:
    """The same columns, types and rows, whatever the order of the rows."""
    columns = tuple((one.name, one.type) for one in rows.schema)
    assert columns == state.columns, f"{what}:\n table {columns}\n model {state.columns}"
    got = [tuple(row.values()) for row in rows.to_pylist()]
    _assert_equal(sorted(map(repr, got)), sorted(map(repr, expected)), what)


def _assert_equal(table: list[str], model: list[str], what: str) -> None:
    only_table = [one for one in table if one not in model]
    only_model = [one for one in model if one not in table]
    assert table == model, (
        f"{what}: {len(table)} rows, {len(model)} in the model"
        f"\n only table {only_table}\n only model {only_model}"
    )
