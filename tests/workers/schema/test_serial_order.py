"""Verdicts against serial orders (requirements 2.4): a success must leave what the writers would
have left one after the other; every triple of six schemas and none is tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from tests.support.schema_oracle import Flat, flat, in_both_orders
from tests.workers.schema.test_conflict import F1, POOL, S, optional, schema
from workers.errors import InvalidInput
from workers.schema.conflict import resolve
from workers.schema.equality import equal
from workers.schema.reconcile import reconcile
from workers.schema.table_schema import TableSchema
from workers.schema.verdict import SchemaConflict, SchemaVerdict

STRATEGIES = ["simple", "evolvability"]
F2, F3 = optional("f2", "int"), optional("f3", "boolean")


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "s", "namespace": "n.r", "fields": list(fields)}


POOLS = {
    "of the rfc": POOL,
    "wider": [
        None,
        schema(F1, F2),
        schema(F1, optional("f2", "long")),
        schema(F1, optional("f2", "double")),
        schema(F1, F2, F3),
        schema(F1, optional("f2", "long"), optional("f4", "float")),
        schema(F1, optional("f2", "string")),
    ],
    "nested": [
        None,
        schema(F1, optional("s", struct(optional("a", "int")))),
        schema(F1, optional("s", struct(optional("a", "int"), optional("b", "string")))),
        schema(F1, optional("s", struct(optional("a", "long"), optional("c", "float")))),
        schema(F1, optional("s", struct({"name": "a", "type": "int"}))),
        schema(F1, optional("s", {"type": "array", "items": struct(optional("a", "int"))})),
        schema(F1),
    ],
    "required": [
        None,
        S["S1must"],
        S["S1"],
        S["S2must"],
        schema({"name": "f1", "type": "string"}, F2),
        schema(F1, {"name": "f2", "type": "int", "default": 7}),
        S["S1case"],
    ],
}


def expected(
    start: TableSchema | None, now: TableSchema | None, writer: TableSchema | None
) -> Flat | str:
    """What must come about, by rows 0 to 5 of requirements 2.1 and by replay behind them."""
    if writer is None:
        return flat(now.tree if now else None)
    if now is None or equal(writer, now):
        return flat(writer.tree)
    if start is not None and equal(start, now) and not _differ_by_case(writer, now):
        return flat(writer.tree)
    base = flat(start.tree if start else None)
    merged = in_both_orders(base, flat(writer.tree), flat(now.tree))
    return "conflict" if merged is None else merged


def _differ_by_case(schema: TableSchema, other: TableSchema) -> bool:
    """E-25: a conflict whoever it was that changed."""
    names = {*schema.field_names, *other.field_names}
    return len({name.lower() for name in names}) < len(names)


@pytest.mark.parametrize("pool", list(POOLS))
def test_evolvability_succeeds_on_all_343_triples_exactly_where_both_serial_orders_do(
    pool: str,
) -> None:
    triples = list(itertools.product(POOLS[pool], repeat=3))
    assert len(triples) == 343
    merged = 0

    for start, now, writer in triples:
        resolution = resolve(start, now, writer, same_instant=False, strategy="evolvability")
        outcome = expected(start, now, writer)
        if isinstance(resolution, SchemaConflict):
            assert outcome == "conflict", (outcome, resolution)
            assert resolution.clashes
        else:
            assert flat(resolution.schema.tree if resolution.schema else None) == outcome, (
                resolution
            )
            merged += resolution.case in ("4", "7")

    assert merged > 5


@pytest.mark.parametrize("pool", list(POOLS))
def test_simple_never_succeeds_where_a_serial_order_would_not(pool: str) -> None:
    for start, now, writer in itertools.product(POOLS[pool], repeat=3):
        simple = resolve(start, now, writer, same_instant=False)
        merging = resolve(start, now, writer, same_instant=False, strategy="evolvability")

        if isinstance(simple, SchemaVerdict):
            outcome = expected(start, now, writer)
            assert flat(simple.schema.tree if simple.schema else None) == outcome, simple
            assert isinstance(merging, SchemaVerdict), merging
        elif not simple.clashes:
            assert isinstance(merging, SchemaVerdict), "the advice to merge must be true"


@pytest.mark.parametrize("pool", list(POOLS))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_verdict_is_total_and_deterministic(pool: str, strategy: str) -> None:
    """SC1."""
    for start, now, writer in itertools.product(POOLS[pool], repeat=3):
        first, second = (
            resolve(start, now, writer, same_instant=False, strategy=strategy) for _ in range(2)
        )
        assert first == second


COLUMNS: dict[str, pa.DataType] = {
    "x int": pa.int32(),
    "x long": pa.int64(),
    "x double": pa.float64(),
    "y text": pa.string(),
    "z float": pa.float32(),
}
BATCHES = [(), ("x int",), ("x long",), ("x double",), ("y text",), ("x int", "z float")]
Batch = tuple[str, ...]


@cache
def batch_schema(batch: Batch) -> TableSchema:
    fields = [("id", pa.int64()), *((name.split()[0], COLUMNS[name]) for name in batch)]
    return TableSchema.from_arrow(pa.schema(fields), table_name="t")


@cache
def after(table: TableSchema | None, batch: Batch) -> TableSchema | None:
    """The writer schema; None where the batch alone is refused."""
    try:
        return reconcile(table, batch_schema(batch), pinned=["id"])
    except InvalidInput:
        return None


def schedules(writers: int) -> Iterator[tuple[int, ...]]:
    """All interleavings of begin and commit: each number stands twice."""
    yield from sorted(set(itertools.permutations(sorted([*range(writers)] * 2))))


def replayed(
    batches: tuple[Batch, ...], schedule: tuple[int, ...], strategy: str
) -> tuple[TableSchema | None, list[int]]:
    """(the table's schema in the end, who committed in which order)."""
    table: TableSchema | None = batch_schema(())
    version = 0
    began: dict[int, tuple[TableSchema | None, TableSchema | None, int]] = {}
    committed: list[int] = []
    for writer in schedule:
        if writer not in began:
            began[writer] = (table, after(table, batches[writer]), version)
            continue
        start, schema_, seen = began[writer]
        if schema_ is None:
            continue  # It was refused before it began.
        resolution = resolve(
            start,
            table,
            schema_,
            same_instant=seen == version,
            strategy=strategy,
            pinned=["id"],
        )
        if isinstance(resolution, SchemaVerdict):
            table, version = resolution.schema, version + 1
            committed.append(writer)
    return table, committed


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_schedule_of_three_evolving_writers_ends_as_its_commits_one_after_the_other(
    strategy: str,
) -> None:
    """SC2: in the order of completion each is written on what the one before it left."""
    runs = 0
    for batches in itertools.combinations_with_replacement(BATCHES, 3):
        for schedule in schedules(3):
            last_schema, committed = replayed(batches, schedule, strategy)
            serial: TableSchema | None = batch_schema(())
            for writer in committed:
                serial = after(serial, batches[writer])
                assert serial is not None, (batches, schedule, committed)
            assert last_schema is not None
            assert serial is not None
            assert flat(last_schema.tree) == flat(serial.tree), (batches, schedule, committed)
            runs += 1

    assert runs == 56 * 90
