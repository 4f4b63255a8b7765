"""Non-blocking writers of one table that pause at random: they begin in one order and commit in
another.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pyarrow as pa

from tests.support.referee import referee_rows
from tests.support.scenario_table import Row, ScenarioTable, ScenarioWriter, schema_of
from workers.concurrency.outcome import Committed

SCHEMA = schema_of(id=pa.int64(), ts=pa.int32(), city=pa.string(), note=pa.string())
"""With ordering values of 32 bits, the only ones that Apache Hudi compares with null."""
WIDER = SCHEMA.append(pa.field("weight", pa.int64()))
"""With a column that the table does not have at first."""
KEYS = range(8)
_OPEN_MAX = 4
_FIRST_TS = 3
_AGES = (None, -1, 0, 2, 3, 4)
"""Few, so that ties are many; some below the base file's, some that other engines order otherwise.
"""


def row(key: int, ts: int | None, city: str) -> Row:
    return {"id": key, "ts": ts, "city": city, "note": city}


def fill(table: ScenarioTable) -> None:
    table.writer("first").upsert_and_commit(*(row(key, _FIRST_TS, "first") for key in KEYS))


def deleting(writer: ScenarioWriter, *keys: int) -> ScenarioWriter:
    named = pa.table({"id": pa.array(keys, pa.int64())})
    writer.begin(named.schema, "delete")
    writer.write_batch(named)
    return writer


def commits_of_paused_writers(
    table: ScenarioTable, chance: random.Random, *, commits: int
) -> Iterator[Committed]:
    """One after the other, each told when it is done."""
    paused: list[ScenarioWriter] = []
    begun = done = 0
    while done < commits:
        if len(paused) < _OPEN_MAX and (not paused or chance.random() < 0.6):
            paused.append(_begun(table, chance, f"writer{begun}"))
            begun += 1
            continue
        writer = paused.pop(chance.randrange(len(paused)))
        outcome = writer.wins()
        done += 1
        yield outcome


def keys_that_differ(ours: Sequence[Row], theirs: Sequence[Row]) -> list[int]:
    """Keys whose row is another one, or there for only one of two readers."""
    mine, others = ({found["id"]: found for found in rows} for rows in (ours, theirs))
    return sorted(key for key in {*mine, *others} if mine.get(key) != others.get(key))


def keys_read_otherwise(table: ScenarioTable) -> list[int]:
    """By hudi-rs."""
    return keys_that_differ(table.rows(), referee_rows(table.location, table.schema_columns()))


def _begun(table: ScenarioTable, chance: random.Random, name: str) -> ScenarioWriter:
    writer = table.writer(name, mode="non-blocking")
    keys = chance.sample(KEYS, chance.randint(1, 3))
    if chance.random() < 0.3:
        return deleting(writer, *keys)
    rows = [row(key, chance.choice(_AGES), name) for key in keys]
    if chance.random() < 0.7:
        return writer.upsert(*rows)
    return writer.upsert(*({**one, "weight": one["id"] + 1} for one in rows), schema=WIDER)
