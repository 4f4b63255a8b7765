"""Tables with column groups, and histories of their keys, made from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.support.scenario_table import schema_of
from tests.workers.merge.group_oracle import DELETE, DELETE_NOW, DELETED, Group, Version
from workers.files.meta_columns import RECORD_KEY
from workers.options.column_groups import ColumnGroup, GroupRule, parse_groups

ITEMS = pa.list_(pa.struct([pa.field("score", pa.int64()), pa.field("item", pa.string())]))
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_AGES: dict[pa.DataType, Callable[[int], Any]] = {
    pa.int64(): lambda n: n - 12,
    pa.int32(): lambda n: n - 12,
    pa.float64(): lambda n: (n - 12) / 4,
    pa.string(): lambda n: f"v{n:02d}",
    pa.decimal128(20, 2): lambda n: Decimal(n - 12) / 4,
    pa.timestamp("us", "UTC"): lambda n: _EPOCH + timedelta(days=n - 12),
    pa.date32(): lambda n: date(1970, 1, 1) + timedelta(days=n - 12),
}
AGES = 24
"""Ages are made of the numbers from 1 to this, one to one and in their order."""


@dataclass(frozen=True)
class GroupTable:
    """A table's groups, as declared and as the engine knows them."""

    declared: Sequence[Group]
    types: dict[str, pa.DataType]
    ordering: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    deletes: bool = True
    slack: str = ""
    is_idempotent: bool = True
    """Versions of different ages may come in any order and more than once."""
    schema: pa.Schema = field(init=False)
    rule: GroupRule = field(init=False)
    groups: list[Group] = field(init=False)

    def __post_init__(self) -> None:
        named = {"ordering": list(self.ordering), "columns": list(self.loose)}
        default = {"name": "_default", "granularity": "column", **named}
        rule = GroupRule(
            parse_groups(json.dumps(self.declared)),
            frozenset(),
            ordering=self.ordering,
            slack=self.slack,
        )
        columns = [n for one in (default, *self.declared) for n in _columns(one)]
        types = {name: self.types.get(name, pa.int64()) for name in columns}
        object.__setattr__(self, "schema", schema_of(**{RECORD_KEY: pa.string()}, **types))
        object.__setattr__(self, "rule", rule)
        groups_with_slack = [{**one, "slack": self.slack} for one in self.declared]
        object.__setattr__(self, "groups", [default, *groups_with_slack])

    @property
    def column_groups(self) -> tuple[ColumnGroup, ...]:
        return self.rule.groups(self.schema.names)

    def age(self, ordering: Sequence[str], number: int) -> Version:
        """With two columns 7 is (1, 2), 5 is (1, null) and 3 is (null, 3); 0 is no age."""
        parts = [number] if len(ordering) == 1 else list(divmod(number, 5))
        return {
            name: _AGES[self.schema.field(name).type](part) if part else None
            for name, part in zip(ordering, parts, strict=True)
        }


def _columns(group: Group) -> list[str]:
    return [*group["ordering"], *group["columns"]]


def group(name: str, columns: str, *, by: str = "", **settings: Any) -> dict[str, Any]:
    """`by` is empty for one ordering column, `ts_` and the name."""
    ordering = by.split() if by else [f"ts_{name}"]
    return {"name": name, "ordering": ordering, "columns": columns.split(), **settings}


MOMENT, MONEY = pa.timestamp("us", "UTC"), pa.decimal128(20, 2)
TABLES = {
    "whole groups": GroupTable(
        [group("a", "a1 a2"), group("b", "b1 b2", defaults={"b1": 7})],
        {"ts_b": MOMENT, "a2": pa.string()},
    ),
    "loose columns by commit": GroupTable(
        [group("a", "a1"), group("b", "b1")],
        {"ts_a": pa.string(), "ts_b": pa.int32()},
        loose=("c1", "c2"),
        is_idempotent=False,
    ),
    "loose columns by age": GroupTable(
        [group("a", "a1", granularity="column")],
        {"ts": MONEY},
        ordering=("ts",),
        loose=("c1", "c2"),
    ),
    "composite ages": GroupTable(
        [
            group("a", "a1 a2", by="day_a no_a"),
            group("b", "b1 b2", by="no_b name_b", granularity="column"),
        ],
        {"day_a": pa.date32(), "name_b": pa.string()},
    ),
    "columns with ages": GroupTable(
        [group("a", "a1 a2", granularity="column"), group("b", "b1 b2", null_mode="keep")],
        {"ts_a": pa.float64(), "ts_b": pa.string()},
    ),
    "last that is not null": GroupTable(
        [group("a", "a1 a2", aggregates={"a2": "last_non_null"}), group("b", "b1")],
        {"ts_a": MONEY, "ts_b": pa.date32()},
    ),
    "row deletes": GroupTable(
        [group("a", "a1", delete="row"), group("b", "b1 b2", granularity="column")],
        {},
        ordering=("ts",),
        loose=("c1",),
    ),
    "row deletes of strings": GroupTable(
        [group("a", "a1", delete="row"), group("b", "b1 b2", null_mode="keep", delete="row")],
        {"ts_a": pa.string(), "ts_b": pa.string()},
    ),
    "later commit wins": GroupTable(
        [
            group("a", "a1 a2", on_late="overwrite"),
            group("b", "b1 b2", on_late="overwrite", granularity="column"),
            group("d", "d1 d2", on_late="overwrite", null_mode="keep"),
        ],
        {"ts_b": MOMENT},
        is_idempotent=False,
    ),
    "aggregates": GroupTable(
        [
            group(
                "a",
                "a1 a2 a3 a4 a5",
                aggregates={"a1": "max", "a2": "min", "a3": "first", "a4": "collect_topn(2)"},
            ),
            group("b", "b1 b2", aggregates={"b1": "first"}, granularity="column"),
        ],
        {"a4": ITEMS, "ts_b": MONEY},
        deletes=False,
    ),
    "lists with more slack than retractions": GroupTable(
        [
            group("a", "a1 a2", aggregates={"a2": "collect_topn(2)"}),
            group("b", "b1", aggregates={"b1": "collect_topn(1)"}, granularity="column"),
        ],
        {"a2": ITEMS, "b1": ITEMS},
        deletes=False,
        slack="99",
        is_idempotent=False,
    ),
    "sums": GroupTable(
        [group("a", "a1 a2", aggregates={"a1": "sum"}), group("b", "b1", aggregates={"b1": "sum"})],
        {"b1": pa.decimal128(38, 0)},
        deletes=False,
        is_idempotent=False,
    ),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """Versions that bring the same columns; their cells tell their age."""

    columns: str
    nulls: str = ""
    is_delete: bool = False

    def version(self, table: GroupTable, key: str, number: int) -> Version:
        brought = self.columns.split()
        row: Version = {RECORD_KEY: key, DELETED: DELETE} if self.is_delete else {RECORD_KEY: key}
        for group in table.groups:
            if group["ordering"] and group["ordering"][0] in brought:
                row |= table.age(group["ordering"], number)
            for name in group["columns"]:
                if name in brought:
                    is_null = name in self.nulls.split()
                    row[name] = None if is_null else _cell_of(table, name, number)
        return row


def _cell_of(table: GroupTable, name: str, number: int) -> Any:
    kind = table.schema.field(name).type
    if kind == ITEMS and table.slack:
        again = {"score": number % 3 or None, "item": "x"}
        return [{"score": 5 * number % 7, "item": str(number)}, again]
    if kind == ITEMS:
        return [{"score": 5 * number % 7, "item": str(number)}]
    return str(number) if pa.types.is_string(kind) else (5 * number) % 7


KINDS = {
    "whole groups": (
        Kind("ts_a a1 a2"),
        Kind("ts_a a1 a2 ts_b b1 b2", nulls="a1 b2"),
        Kind("ts_b b1 b2"),
        Kind("ts_a", is_delete=True),
    ),
    "loose columns by commit": (
        Kind("c1"),
        Kind("c2 ts_a a1", nulls="c2"),
        Kind("c2"),
        Kind("c1 ts_a", is_delete=True),
    ),
    "loose columns by age": (
        Kind("ts c1"),
        Kind("ts c2"),
        Kind("ts c1 ts_a a1", nulls="c1"),
        Kind("ts", is_delete=True),
    ),
    "composite ages": (
        Kind("day_a no_a a1 a2", nulls="a2"),
        Kind("no_b name_b b1"),
        Kind("no_b name_b b2"),
        Kind("no_b name_b", is_delete=True),
    ),
    "columns with ages": (
        Kind("ts_b b1 b2"),
        Kind("ts_b b1 b2", nulls="b1"),
        Kind("ts_a a1 ts_b b1"),
        Kind("ts_b", is_delete=True),
    ),
    "last that is not null": (
        Kind("ts_a a1 a2"),
        Kind("ts_a a1 a2", nulls="a2"),
        Kind("ts_b b1"),
        Kind("ts_a", is_delete=True),
    ),
    "row deletes": (
        Kind("ts_a a1"),
        Kind("ts_b b1"),
        Kind("ts c1 ts_b b2"),
        Kind("ts_a", is_delete=True),
    ),
    "row deletes of strings": (
        Kind("ts_a a1"),
        Kind("ts_b b1 b2", nulls="b1"),
        Kind("ts_a", is_delete=True),
        Kind("ts_b", is_delete=True),
    ),
    "later commit wins": (
        Kind("ts_b b1"),
        Kind("ts_b b2 ts_d d1 d2", nulls="d1"),
        Kind("ts_a a1 a2 ts_d d1"),
        Kind("ts_b ts_d", is_delete=True),
    ),
    "aggregates": (
        Kind("ts_a a1 a2 a3 a4 a5"),
        Kind("ts_a a1 a2 a3 a4 a5", nulls="a1 a3 a4"),
        Kind("ts_b b1"),
        Kind("ts_b b1 b2", nulls="b1"),
    ),
    "lists with more slack than retractions": (
        Kind("ts_a a1 a2"),
        Kind("ts_a a1 a2", nulls="a2"),
        Kind("ts_b b1"),
    ),
    "sums": (
        Kind("ts_a a1 a2"),
        Kind("ts_a a1 a2 ts_b b1", nulls="a1"),
        Kind("ts_b b1"),
    ),
}
"""Of each of `TABLES`, those that exhaustive tests make all histories of."""


@dataclass(frozen=True, slots=True)
class Batch:
    said: tuple[str, ...]
    """Columns of groups that the batch brings."""
    rows: tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A key, and per step the batch that brings something of it, or None."""

    key: str
    batches: tuple[Batch | None, ...]

    @property
    def versions(self) -> list[Version]:
        """In the order of their visibility."""
        return [row for batch in self.batches if batch is not None for row in batch.rows]


class Chance:
    """Histories of a table's keys."""

    def __init__(self, seed: int, table: GroupTable, *, has_ties: bool, erases: bool) -> None:
        self._random = random.Random(seed)
        self._table = table
        self._has_ties = has_ties
        self._erases = erases
        self._streams = [self._stream() for _ in range(8)]

    def case(self, key: str, steps: int) -> Case:
        pick = self._random
        ages = iter(pick.sample(range(1, AGES + 1), AGES))
        batches = tuple(
            self._batch(key, ages) if pick.random() < 0.8 else None for _ in range(steps - 1)
        )
        return Case(key, (*batches, self._batch(key, ages)))

    def _batch(self, key: str, ages: Any) -> Batch:
        if self._erases and self._random.random() < 0.15:
            return Batch((), ({RECORD_KEY: key, DELETED: DELETE_NOW},))
        said, is_deleting = self._random.choice(self._streams)
        count = 1 if self._random.random() < 0.7 else 2
        rows = tuple(self._row(key, said, ages, is_deleting=is_deleting) for _ in range(count))
        return Batch(said, rows)

    def _stream(self) -> tuple[tuple[str, ...], bool]:
        """Columns that its batches bring, at least those of one group, and whether they delete."""
        pick = self._random
        groups = [one for one in self._table.groups if _columns(one)]
        brought = pick.sample(groups, pick.randint(1, len(groups)))
        said: list[str] = []
        is_deleting = self._table.deletes and pick.random() < 0.4
        for group in brought:
            is_whole = group.get("granularity") != "column" and group.get("null_mode") != "keep"
            columns = group["columns"]
            if not is_whole or (is_deleting and pick.random() < 0.3):
                least = 0 if group["ordering"] else 1
                columns = pick.sample(columns, pick.randint(least, len(columns)))
            said += [*group["ordering"], *columns]
        return tuple(name for name in self._table.schema.names if name in said), is_deleting

    def _row(self, key: str, said: Sequence[str], ages: Any, *, is_deleting: bool) -> Version:
        pick = self._random
        row: Version = {RECORD_KEY: key}
        for group in self._table.groups:
            ordering = group["ordering"]
            if ordering and ordering[0] in said:
                is_there = len(self._table.groups) == 2 or pick.random() < 0.85
                drawn = pick.choice((3, 5, 7)) if self._has_ties else next(ages)
                row |= self._table.age(ordering, drawn if is_there else 0)
            for name in group["columns"]:
                if name in said:
                    row[name] = self._cell(name)
        if is_deleting:
            row[DELETED] = DELETE if pick.random() < 0.5 else 0
        return row

    def _score(self) -> int | None:
        """Of equal ones the earlier stands first, so that the order of arrival shows. None takes
        out what came before, where there is slack.
        """
        if self._table.slack and self._random.random() < 0.3:
            return None
        return (
            self._random.choice([None, 1, 2, 3]) if self._has_ties else self._random.getrandbits(40)
        )

    def _cell(self, name: str) -> Any:
        pick = self._random
        if pick.random() < 0.25:
            return None
        kind = self._table.schema.field(name).type
        if kind == ITEMS:
            return [
                {"score": self._score(), "item": pick.choice("xyz")}
                for _ in range(pick.randint(0, 4))
            ]
        number = pick.randint(-99, 99)
        return str(number) if pa.types.is_string(kind) else number
