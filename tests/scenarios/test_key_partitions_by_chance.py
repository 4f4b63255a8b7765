"""Streams that pick the partitions of their keys at random and complete in another order than they
begin, beside deletes and compactions: after each the table is what an oracle says, with one row per
key, and who loses or is refused is whom the oracle names.
"""

from __future__ import annotations

import os
import random

import pyarrow as pa
import pytest

from tests.scenarios.services import run
from tests.support.key_partitions_model import Begun, KeyPartitionsModel
from tests.support.keyed_streams import MARK, click, made, mode_of, named, shown
from tests.support.scenario_table import Row, ScenarioTable, ScenarioTables, ScenarioWriter
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import InvalidInput

SEED = int(os.environ["SLUICE_TEST_SEED"])
COVERING_SEED = 1
"""With it all that may become of a write comes about; of some seeds nearly all is refused."""
DAYS = ("mon", "tue", "wed")
HOME = {"a": "mon", "b": "tue", "c": "mon"}
"""Where each key comes most often: were it anywhere, nearly all would be refused."""
KEYS = tuple(HOME)
OPEN_MAX = 3
STEPS = 60
RULES = {"brought_apart", "deleted_unseen"}


class Chance:
    """Draws batches: of one stream or of both, with ties, late rows, marks and rows without age."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._clock = 0

    def rows(self) -> list[Row]:
        draw, self._clock = self.random, self._clock + 1
        keys = draw.sample(KEYS, draw.randint(1, len(KEYS)))
        rows = [self._row(key, self._day(key)) for key in keys]
        if draw.random() < 0.2:
            rows.append(self._row(rows[0]["id"], draw.choice([rows[0]["day"], *DAYS])))
        is_deleting = draw.random() < 0.25
        if is_deleting:
            rows = [{**row, MARK: draw.random() < 0.7} for row in rows]
        return [row for row in rows if not row.get(MARK) or self._has_age(row)]

    def keys(self) -> list[Row]:
        draw = self.random
        return [
            {"id": key, "day": self._day(key)}
            for key in draw.sample(KEYS, draw.randint(1, len(KEYS)))
        ]

    def _row(self, key: str, day: str) -> Row:
        draw, cell = self.random, self.random.randrange(1000)
        if draw.random() < 0.3:
            return shown(key, day, self._age(), cell) | click(key, day, self._age(), cell)
        return (shown if draw.random() < 0.5 else click)(key, day, self._age(), cell)

    def _day(self, key: str) -> str:
        return HOME[key] if self.random.random() < 0.6 else self.random.choice(DAYS)

    def _age(self) -> int | None:
        if self.random.random() < 0.1:
            return None
        return max(1, self._clock - self.random.randrange(8))

    @staticmethod
    def _has_age(row: Row) -> bool:
        return row.get("shown_at") is not None or row.get("clicked_at") is not None


class Run:
    def __init__(self, table: ScenarioTable, seed: int, *, moves: bool) -> None:
        self.table = table
        self.chance = Chance(seed)
        self.model = KeyPartitionsModel(moves=moves)
        self.open: list[tuple[ScenarioWriter, Begun]] = []
        self.open_max = OPEN_MAX if table.table.config.is_merge_on_read else 1
        self.seen = {"commits": 0, "conflicts": 0, "is refused": 0}

    def step(self, number: int) -> None:
        draw = self.chance.random
        if draw.random() < 0.08 and self.table.table.config.is_merge_on_read:
            run(self.table, "compaction")
        elif len(self.open) < self.open_max and (not self.open or draw.random() < 0.55):
            self._begin(f"writer{number}")
        else:
            self.complete(*self.open.pop(draw.randrange(len(self.open))))
        assert self.table.rows() == self.model.rows()

    def _begin(self, name: str) -> None:
        is_delete = self.chance.random.random() < 0.2
        rows = self.chance.keys() if is_delete else self.chance.rows()
        if not rows:
            return
        begun = self.model.begin(rows, is_delete=is_delete)
        writer = self.table.writer(name, mode=mode_of(self.table))
        if begun.is_refused:
            with pytest.raises(InvalidInput, match="a key"):
                _write(writer, self.table, rows, is_delete=is_delete)
            writer.abort()
            self.seen["is refused"] += 1
            return
        _write(writer, self.table, rows, is_delete=is_delete)
        self.open.append((writer, begun))

    def complete(self, writer: ScenarioWriter, begun: Begun) -> None:
        outcome, expected = writer.commit(), self.model.complete(begun)
        self.seen[expected] += 1
        assert isinstance(outcome, Committed | Conflicted), outcome
        if isinstance(outcome, Conflicted):
            assert outcome.conflict.rule in RULES, outcome
        assert isinstance(outcome, Committed) == (expected == "commits"), (begun, outcome)


def _write(
    writer: ScenarioWriter, table: ScenarioTable, rows: list[Row], *, is_delete: bool
) -> None:
    if not is_delete:
        writer.upsert(*rows)
        return
    keys: pa.Table = named(*((row["id"], row["day"]) for row in rows))
    writer.begin(keys.schema, "delete")
    writer.write_batch(keys)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("update", ["reject", "move"])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("seed", [COVERING_SEED, SEED], ids=["covering", "of-the-run"])
def test_whatever_streams_do_at_once_a_key_has_one_row_with_all_that_was_said_of_it(
    tables: ScenarioTables, table_type: str, update: str, seed: int
) -> None:
    table = made(tables, table_type, update)
    going = Run(table, seed, moves=update == "move")

    for step in range(STEPS):
        going.step(step)
    for writer, begun in going.open:
        going.complete(writer, begun)

    assert table.rows() == going.model.rows()
    if seed == COVERING_SEED:
        assert going.seen["commits"] > 10, going.seen
        assert going.seen["is refused"] > 0, going.seen
        # Copy-on-write tables have one writer at a time here.
        assert (going.seen["conflicts"] > 0) == (table_type == "MERGE_ON_READ"), going.seen
    assert table.leftovers() == []
