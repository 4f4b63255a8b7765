"""Writers of partial rows who pause at random: rows that say some columns, older ones among them,
deletes with rows behind them in one batch, and a column that the table does not have at first.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tests.support.overtaking import deleting
from tests.support.scenario_table import Row, ScenarioTable, ScenarioWriter, schema_of
from workers.concurrency.outcome import Committed

SCHEMA = schema_of(id=pa.int64(), ts=pa.int32(), a=pa.int64(), b=pa.int64(), c=pa.int64())
WIDER = SCHEMA.append(pa.field("d", pa.int64()))
MARK = "_hoodie_is_deleted"
_KEYS = range(6)
_OPEN_MAX = 3
_FIRST_TS = 4


def partial_table(location: Path, *, is_ordered: bool) -> ScenarioTable:
    kind = "PartialUpdateAvroPayload" if is_ordered else "OverwriteNonDefaultsWithLatestAvroPayload"
    table = ScenarioTable(
        location,
        table_type="MERGE_ON_READ",
        schema=SCHEMA,
        ordering=["ts"],
        options={
            "hoodie.bucket.index.num.buckets": "1",
            "hoodie.datasource.write.payload.class": kind,
        },
    )
    first = (said(key, _FIRST_TS, a=key, b=key, c=key) for key in _KEYS)
    table.writer("first").upsert_and_commit(*first)
    return table


def said(key: int, ts: int, **cells: int) -> Row:
    return {"id": key, "ts": ts, "a": None, "b": None, "c": None, **cells}


def marked(
    writer: ScenarioWriter, *rows: tuple[Row, bool], schema: pa.Schema = SCHEMA
) -> ScenarioWriter:
    """One batch that says of each row whether it deletes its key."""
    known = schema.append(pa.field(MARK, pa.bool_()))
    batch = [{**row, MARK: is_deleted} for row, is_deleted in rows]
    return writer.upsert(*batch, schema=known)


def commits_of_partial_writers(
    table: ScenarioTable, chance: random.Random, *, commits: int
) -> Iterator[Committed]:
    """Of half of the tables nothing is deleted."""
    deleting_share = chance.choice((0.0, 0.2))
    paused: list[ScenarioWriter] = []
    begun = done = 0
    while done < commits:
        if len(paused) < _OPEN_MAX and (not paused or chance.random() < 0.6):
            schema = WIDER if begun > commits // 3 and chance.random() < 0.4 else SCHEMA
            writer = table.writer(f"writer{begun}", mode="non-blocking")
            paused.append(_begun(writer, chance, schema, deleting_share))
            begun += 1
            continue
        outcome = paused.pop(chance.randrange(len(paused))).wins()
        done += 1
        yield outcome


def _begun(
    writer: ScenarioWriter, chance: random.Random, schema: pa.Schema, deleting_share: float
) -> ScenarioWriter:
    keys = chance.sample(_KEYS, 2)
    if chance.random() < deleting_share:
        return deleting(writer, *keys)
    columns = [name for name in schema.names if name not in ("id", "ts")]
    rows = []
    for key in (*keys, *chance.choices(keys, k=2)):
        cells = {column: chance.randrange(100) for column in chance.sample(columns, 2)}
        rows.append((said(key, chance.randrange(2, 8), **cells), chance.random() < deleting_share))
    return marked(writer, *rows, schema=schema)
