"""Two writers and one rollback at random, over tables, indexes, modes and kinds of writes: a commit
is rolled back while a writer runs that began after it, beside a second writer. No key stands twice,
and the rows are those of the committed writes in some order without the one that was rolled back.
Two statements that read what the other one changes may meet in no file group, and leave rows that
no order leaves; then the rows are those that they leave beside each other in a table which never
had the commit.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.scenarios.test_deletes_beside_inserts import Beside
from tests.support.sampling import story_seed
from tests.support.scenario_table import MODES, READINGS, Row, ScenarioTable, ScenarioTables
from workers.clock import InstantTime
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable
from workers.sql.run import run_sql

CASES = 60
PLACES = ("oslo", "rome")
KEYS = tuple("abcdef")
INDEXES = ("BUCKET", "SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM")
POLICY = "hoodie.datasource.insert.dup.policy"
UNORDERED = {"hoodie.write.markers.type": "direct", "hoodie.parquet.small.file.limit": "0"}
_MERGE = "MERGE INTO t USING s ON t.id = s.id AND t.place = s.place WHEN MATCHED"
_BOTH = "UPDATE SET value = t.value + s.value WHEN NOT MATCHED THEN INSERT *"
Run = Callable[[LakehouseTable, Mapping[str, str]], Any]


@dataclass(frozen=True)
class Write:
    """One write that can be run on any copy of the table."""

    text: str
    run: Run

    def __repr__(self) -> str:
        return self.text


class Chance:
    """Draws a table and the writes of one story."""

    def __init__(self, number: int) -> None:
        self._draw = random.Random(story_seed(number))
        draw = self._draw
        self.table_type = draw.choice(["COPY_ON_WRITE", "MERGE_ON_READ"])
        self.index = draw.choice(INDEXES)
        self.ordering = draw.choice([(), ("ts",)])
        self.small_files = draw.choice(["0", "104857600"])
        can_be_free = self.index == "BUCKET" and self.table_type == "MERGE_ON_READ"
        self.modes = ["single", "optimistic", *(["non-blocking"] if can_be_free else [])]
        self.retries = draw.choice(["0", "2"])
        self.has_second = draw.random() < 0.6
        self.second_is_first = draw.random() < 0.3

    def options(self, writer: str) -> dict[str, str]:
        return {
            "hoodie.write.markers.type": "direct",
            "hoodie.write.concurrency.mode": MODES[self._draw.choice(self.modes)],
            "hoodie.write.num.retries.on.conflict.failures": self.retries,
            "hoodie.parquet.small.file.limit": self.small_files,
            "sluice.writer.name": writer,
        }

    def made(self, tables: ScenarioTables) -> ScenarioTable:
        buckets = {"hoodie.bucket.index.num.buckets": "2"} if self.index == "BUCKET" else {}
        return tables(
            table_type=self.table_type,
            schema=READINGS,
            ordering=self.ordering,
            partition_by=["place"],
            options={"hoodie.index.type": self.index} | buckets,
        )

    def rows(self, most: int) -> list[Row]:
        draw = self._draw
        named = draw.sample(KEYS, draw.randint(1, most))
        return [
            {
                "id": key,
                "place": PLACES[0] if draw.random() < 0.7 else PLACES[1],
                "ts": draw.randrange(5),
                "value": draw.randrange(100),
                "note": str(draw.randrange(1000)),
            }
            for key in named
        ]

    def setup(self) -> list[Row]:
        """Rows in each partition, so that none of them is made by what is rolled back."""
        return [
            *self.rows(5),
            *({"id": one, "place": one, "ts": 1, "value": 60, "note": ""} for one in PLACES),
        ]

    def write(self) -> Write:
        kinds = (self._upsert, self._upsert, self._insert, self._delete, self._predicate)
        more = (self._sql, self._sql, self._overwrite, self._delete_partition)
        return self._draw.choice(kinds + more)()

    def _upsert(self) -> Write:
        return self._batch("upsert", {})

    def _insert(self) -> Write:
        return self._batch("insert", {POLICY: self._draw.choice(["none", "drop", "fail"])})

    def _overwrite(self) -> Write:
        return self._batch("insert_overwrite", {})

    def _batch(self, operation: str, more: Mapping[str, str]) -> Write:
        rows = pa.Table.from_pylist(self.rows(3), READINGS)
        return Write(
            f"{operation} {more} {rows.to_pylist()}",
            lambda table, options: table.write(
                rows, operation=operation, options={**options, **more}
            ),
        )

    def _delete(self) -> Write:
        keys = pa.Table.from_pylist(self.rows(3), READINGS).select(["id", "place"])
        return Write(
            f"delete {keys.to_pylist()}", lambda table, options: table.delete(keys, options=options)
        )

    def _predicate(self) -> Write:
        predicate = self._condition()
        return Write(
            f"delete where {predicate}",
            lambda table, options: table.delete(predicate=predicate, options=options),
        )

    def _delete_partition(self) -> Write:
        place = self._draw.choice(PLACES)
        return Write(
            f"delete_partition {place}",
            lambda table, options: table.delete_partition([place], options=options),
        )

    def _sql(self) -> Write:
        condition = self._condition()
        source = pa.Table.from_pylist(self.rows(2), READINGS)
        statement = self._draw.choice(
            [
                f"DELETE FROM t WHERE {condition}",
                f"UPDATE t SET value = value + 7 WHERE {condition}",
                f"{_MERGE} AND t.{condition} THEN {_BOTH}",
                f"{_MERGE} AND t.{condition} THEN DELETE",
            ]
        )
        return Write(
            f"{statement} {source.to_pylist()}",
            lambda table, options: run_sql(
                statement, tables={"t": table, "s": source}, options=options
            ),
        )

    def _condition(self) -> str:
        return f"value {self._draw.choice('<>')} {self._draw.choice([30, 50, 70])}"


def roll_back(table: ScenarioTable, instant: InstantTime) -> None:
    table.lakehouse.rollback(instant, dry_run=False, reason="it was wrong")


def rows_in_order(start: ScenarioTable, place: Path, writes: tuple[Write, ...]) -> list[Row] | None:
    """Rows after these writes, one after the other; None where one of them is refused."""
    table = start.copied(place)
    try:
        for write in writes:
            assert isinstance(write.run(table.lakehouse, UNORDERED), Committed)
    except InvalidInput:
        return None
    return table.rows()


def rows_side_by_side(
    start: ScenarioTable,
    place: Path,
    chance: Chance,
    monkeypatch: pytest.MonkeyPatch,
    fast: Write,
    slow: Write,
) -> list[Row] | None:
    """Rows after `fast` ran beside `slow`; None where one of them lost or was refused."""
    table = start.copied(place)
    ended: list[Any] = []
    beside = Beside(monkeypatch)
    beside(lambda: ended.append(fast.run(table.lakehouse, chance.options("fast"))))
    try:
        ended.append(slow.run(table.lakehouse, chance.options("slow")))
    except InvalidInput:
        return None
    return table.rows() if all(isinstance(one, Committed) for one in ended) else None


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("number", range(CASES))
def test_the_rows_are_those_of_some_order_without_what_was_rolled_back(
    tables: ScenarioTables, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    chance = Chance(number)
    table = chance.made(tables)
    table.lakehouse.write(table.batch(chance.setup()), options=UNORDERED)
    start = table.copied(tmp_path / "start")
    undone, slow, fast = chance.write(), chance.write(), chance.write()
    story = (chance.table_type, chance.index, chance.ordering, undone, slow, fast)
    committed: list[Write] = []
    try:
        outcome = undone.run(table.lakehouse, UNORDERED)
    except InvalidInput:
        return  # The draw refuses itself: nothing is there to roll back.

    def beside() -> None:
        if chance.second_is_first and run(fast, "fast"):
            roll_back(table, table.instants()[-1].requested_at)  # What is newer goes first.
            committed.clear()
        roll_back(table, outcome.instant)
        if chance.has_second:
            run(fast, "fast")

    def run(write: Write, writer: str) -> bool:
        try:
            ended = write.run(table.lakehouse, chance.options(writer))
        except InvalidInput:
            return False
        assert isinstance(ended, Committed | Conflicted), (ended, story)
        if isinstance(ended, Committed):
            committed.append(write)
        return isinstance(ended, Committed)

    Beside(monkeypatch)(beside)
    run(slow, "slow")

    # Where the slow writer was refused early, nothing was rolled back.
    is_undone = all(one.requested_at != outcome.instant for one in table.instants())
    before = () if is_undone else (undone,)
    expected = [
        rows_in_order(start, tmp_path / f"order{at}", (*before, *order))
        for at, order in enumerate(itertools.permutations(committed))
    ]
    if committed == [fast, slow]:
        expected.append(
            rows_side_by_side(start, tmp_path / "beside", chance, monkeypatch, fast, slow)
        )
    rows = table.rows()
    is_global = chance.index.startswith("GLOBAL")
    keys = [(one["id"], "" if is_global else one["place"]) for one in rows]
    assert len(set(keys)) == len(keys), (rows, story)
    assert rows in expected, (rows, expected, story, committed)
