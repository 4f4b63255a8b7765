"""Writes that a story may hold: how the table does each, and what the model makes of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.differential.model import Key, Model, State, Values
from tests.differential.shape import (
    AGE,
    AGES,
    DELETED,
    KEYS,
    NON_BLOCKING,
    NUMBER,
    OTHER_AGE,
    PARTITIONS,
    VALUES,
)
from workers.concurrency.outcome import CommitOutcome
from workers.lakehouse import LakehouseTable
from workers.sql.run import run_sql

Run = Callable[[LakehouseTable, Mapping[str, str]], CommitOutcome]
Apply = Callable[[State, State, int], State]
"""(the state that the writer began from, the state when it commits, the commit) -> after it."""
POLICY = "hoodie.datasource.insert.dup.policy"
READS_ALL = frozenset({"delete where", "sql update", "sql delete", "sql merge"})
REPLACES = frozenset({"insert_overwrite", "insert_overwrite_table", "delete_partition"})


@dataclass(frozen=True)
class Write:
    kind: str
    mode: str
    text: str
    run: Run
    apply: Apply
    rows: tuple[Values, ...] = ()
    """What it names: rows of a batch, or keys to delete."""
    count: int | None = None
    """Rows that the outcome counts, where they follow from the batch."""
    is_refused: Callable[[State], bool] = lambda _: False
    """Whether the table refuses it, by the state that it begins from."""

    @property
    def is_non_blocking(self) -> bool:
        return self.mode == NON_BLOCKING


class Writes:
    """Draws writes for a table of one shape."""

    def __init__(self, draw: random.Random, model: Model) -> None:
        self.draw, self.model, self.shape = draw, model, model.shape

    def any(self, state: State) -> Write:
        mode = self.draw.choice(self.shape.modes)
        if self.shape.has_groups:
            kinds = [self._stream] * 5 + [self._delete] * 2
            if mode != NON_BLOCKING:
                kinds += [self._predicate, self._overwrite_groups]
            return self.draw.choice(kinds)(state, mode)
        kinds = [self._upsert] * 5 + [self._delete] * 2 + [self._predicate]
        if mode != NON_BLOCKING:
            kinds += [self._insert] * 2 + [self._update, self._sql_delete]
            kinds += [self._overwrite, self._overwrite_table]
            if not (self.shape.is_global or self.shape.is_partial):
                kinds.append(self._merge)
            if self.shape.partition_names and state.rows:
                kinds.append(self._delete_partition)
        return self.draw.choice(kinds)(state, mode)

    # Rows.

    def _rows(self, state: State, *, is_single: bool = False, most: int = 4) -> list[Values]:
        """Rows of a batch; unless `is_single` some keys are there twice."""
        rows = [self._row(state) for _ in range(self.draw.randint(1, most))]
        if is_single or self.shape.merge == "partial event":
            rows = self._single(rows)
        return list(self._batch_of(state, rows).to_pylist())  # As Arrow spells them.

    def _single(self, rows: Iterable[Values]) -> list[Values]:
        return list({self.model.key_of(row): row for row in rows}.values())

    def _row(self, state: State) -> Values:
        draw, row = self.draw, dict[str, Any]()
        named = {**KEYS[self.shape.key], **PARTITIONS[self.shape.partitions]}
        for name, (_, choices) in named.items():
            row[name] = draw.choice(choices[:3] if draw.random() < 0.7 else choices)
            if self.shape.has_groups and name in self.shape.partition_names:
                # A key of such a table stands in one partition.
                row[name] = choices[len(repr(row[self.shape.key_names[0]])) % len(choices)]
        may_lack_age = self.shape.by_event and not self.shape.is_partial
        row[AGE] = None if may_lack_age and draw.random() < 0.06 else AGES[self.shape.age][1](draw)
        null_share = 0.45 if self.shape.is_partial else 0.15
        for name in [one for one in (NUMBER, *sorted(state.names)) if one in state.names]:
            if name == NUMBER or name.startswith("c_"):
                value = draw.randrange(100) if name == NUMBER else _cell(draw, name)
                row[name] = None if draw.random() < null_share else value
        return row

    def _stream_rows(self, state: State, chosen: list[dict[str, Any]]) -> list[Values]:
        """Rows that bring these groups; an age that is null says nothing of its group."""
        rows: list[Values] = []
        for whole in self._rows(state):
            row = {name: whole[name] for name in self._key_columns}
            for group in chosen:
                row |= {name: whole.get(name) for name in group["columns"]}
                age = None if len(chosen) > 1 and self.draw.random() < 0.15 else whole[AGE]
                row[group["ordering"][0]] = age
                if group["ordering"][0] == OTHER_AGE:
                    row[OTHER_AGE] = self.draw.randrange(1, 6)
            rows.append(row)
        return rows

    @property
    def _key_columns(self) -> list[str]:
        return list(dict.fromkeys((*self.shape.partition_names, *self.shape.key_names)))

    def _stream(self, state: State, mode: str) -> Write:
        groups = self.shape.groups
        chosen = self.draw.choice(([groups[0]], [groups[1]], groups))
        rows = self._stream_rows(state, chosen)
        names = [name for name, _ in state.columns if name in rows[0]]
        batch = self._batch_of(state, rows).select(names)
        rows = list(batch.to_pylist())
        if self.draw.random() < 0.2:
            marked = [self.draw.random() < 0.6 for _ in rows]
            rows, batch = _with_marks(rows, batch, marked)
        stream = chosen[0]["name"] if len(chosen) == 1 else None
        return Write(
            "stream upsert",
            mode,
            f"upsert stream={stream} {rows}",
            lambda table, options: table.write(batch, stream=stream, options=options),
            lambda _, now, commit: self.model.upserted(now, rows, commit),
            tuple(rows),
            len(self._single(rows)),
        )

    def _overwrite_groups(self, state: State, mode: str) -> Write:
        rows = self._single(self._stream_rows(state, self.shape.groups))
        batch = self._batch_of(state, rows)
        return self._replaced_table(mode, list(batch.to_pylist()), batch, count=None)

    def _batch_of(self, state: State, rows: Iterable[Values]) -> pa.Table:
        return pa.Table.from_pylist([dict(row) for row in rows], schema=pa.schema(state.columns))

    # Batches.

    def _upsert(self, state: State, mode: str) -> Write:
        rows = self._rows(state)
        batch = self._batch_of(state, rows)
        if self.shape.takes_marks and state.rows and self.draw.random() < 0.25:
            marked = [self._can_mark(state, row) and self.draw.random() < 0.7 for row in rows]
            rows, batch = _with_marks(rows, batch, marked)
        return self._written("upsert", mode, rows, batch)

    def _can_mark(self, state: State, row: Values) -> bool:
        has_age = row[AGE] is not None or not self.shape.by_event
        return has_age and self.model.key_of(row) in state.rows

    def _written(self, kind: str, mode: str, rows: list[Values], batch: pa.Table) -> Write:
        return Write(
            kind,
            mode,
            f"{kind} {rows}",
            lambda table, options: table.write(batch, operation=kind, options=options),
            lambda _, now, commit: self.model.upserted(now, rows, commit),
            tuple(rows),
            len(self._single(rows)),
        )

    def _insert(self, state: State, mode: str) -> Write:
        kind, policy = self.draw.choice(
            (("insert", "none"), ("bulk_insert", "none"), ("insert", "drop"), ("insert", "fail"))
        )
        rows = self._rows(state, is_single=True)
        batch = self._batch_of(state, rows)

        def fresh(began: State) -> list[Values]:
            return [row for row in rows if self.model.key_of(row) not in began.rows]

        def apply(began: State, now: State, commit: int) -> State:
            kept = fresh(began) if policy == "drop" else rows
            return self.model.upserted(now, kept, commit)

        return Write(
            kind,
            mode,
            f"{kind} ({policy}) {rows}",
            lambda table, options: table.write(
                batch, operation=kind, options={**options, POLICY: policy}
            ),
            apply,
            tuple(rows),
            None if policy == "drop" else len(rows),
            lambda began: policy == "fail" and len(fresh(began)) < len(rows),
        )

    def _overwrite(self, state: State, mode: str) -> Write:
        rows = self._rows(state, is_single=True)
        parts = {self.model.partition_of(row) for row in rows}
        batch = self._batch_of(state, rows)

        def stands_elsewhere(began: State) -> bool:
            keys = {self.model.key_of(row) for row in rows} & set(began.rows)
            return any(self.model.partition_of(began.rows[key].values) not in parts for key in keys)

        return Write(
            "insert_overwrite",
            mode,
            f"insert_overwrite {rows}",
            lambda table, options: table.write(
                batch, operation="insert_overwrite", options=options
            ),
            lambda _, now, commit: self.model.upserted(
                self.model.emptied(now, parts), rows, commit
            ),
            tuple(rows),
            len(rows),
            lambda began: self.shape.is_global and stands_elsewhere(began),
        )

    def _overwrite_table(self, state: State, mode: str) -> Write:
        rows = self._rows(state, is_single=True)
        return self._replaced_table(mode, rows, self._batch_of(state, rows), count=len(rows))

    def _replaced_table(
        self, mode: str, rows: list[Values], batch: pa.Table, *, count: int | None
    ) -> Write:
        return Write(
            "insert_overwrite_table",
            mode,
            f"insert_overwrite_table {rows}",
            lambda table, options: table.write(
                batch, operation="insert_overwrite_table", options=options
            ),
            lambda _, now, commit: self.model.upserted(State({}, now.columns), rows, commit),
            tuple(rows),
            count,
        )

    # Deletes.

    def _delete(self, state: State, mode: str) -> Write:
        rows = self._rows(state, is_single=True)
        batch = self._batch_of(state, rows).select(self._key_columns)
        keys = [self.model.key_of(row) for row in rows]
        return Write(
            "delete",
            mode,
            f"delete {keys}",
            lambda table, options: table.delete(batch, options=options),
            lambda _, now, commit: self.model.without(now, keys),
            tuple(rows),
        )

    def _predicate(self, state: State, mode: str) -> Write:
        least = self.draw.randrange(100)

        def apply(began: State, now: State, commit: int) -> State:
            doomed = self.model.find(began, _at_least(least))
            if mode != NON_BLOCKING:
                return self.model.without(now, doomed)
            marks = [{**row.values, DELETED: True} for row in doomed.values()]
            return self.model.upserted(now, marks, commit)

        def is_refused(began: State) -> bool:
            matching = self.model.find(began, _at_least(least)).values()
            has_no_age = any(row.values.get(AGE) is None for row in matching)
            may_not = not self.shape.by_event or self.shape.age == "price"
            return mode == NON_BLOCKING and (may_not or has_no_age)

        return Write(
            "delete where",
            mode,
            f"delete where {NUMBER} >= {least}",
            lambda table, options: table.delete(predicate=f"{NUMBER} >= {least}", options=options),
            apply,
            is_refused=is_refused,
        )

    def _delete_partition(self, state: State, mode: str) -> Write:
        rows = [row.values for row in state.rows.values()]
        chosen = self.draw.choice(sorted(rows, key=repr))
        named = {name: chosen.get(name) for name in self.shape.partition_names}
        return Write(
            "delete_partition",
            mode,
            f"delete_partition {named}",
            lambda table, options: table.delete_partition([named], options=options),
            lambda _, now, commit: self.model.emptied(now, [self.model.partition_of(chosen)]),
        )

    # Statements.

    def _update(self, state: State, mode: str) -> Write:
        least = self.draw.randrange(100)

        def apply(began: State, now: State, commit: int) -> State:
            matching = self.model.find(began, _at_least(least)).values()
            rows = [{**row.values, NUMBER: row.values[NUMBER] + 1} for row in matching]
            if self.shape.is_partial:
                named = (*self.shape.key_names, *self.shape.partition_names, AGE, NUMBER)
                rows = [{name: row.get(name) for name in named} for row in rows]
            return self.model.upserted(now, rows, commit)

        text = f"UPDATE t SET {NUMBER} = {NUMBER} + 1 WHERE {NUMBER} >= {least}"
        return _statement("sql update", mode, text, apply)

    def _sql_delete(self, state: State, mode: str) -> Write:
        least = self.draw.randrange(100)
        return _statement(
            "sql delete",
            mode,
            f"DELETE FROM t WHERE {NUMBER} >= {least}",
            lambda began, now, commit: self.model.without(
                now, self.model.find(began, _at_least(least))
            ),
        )

    def _merge(self, state: State, mode: str) -> Write:
        rows = self._rows(state, is_single=True, most=3)
        rows = [row for row in rows if None not in (*self.model.partition_of(row), row[AGE])]
        names = (*self.shape.key_names, *self.shape.partition_names)
        text = (
            f"MERGE INTO t USING s ON {' AND '.join(f't.{name} = s.{name}' for name in names)} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        source = self._batch_of(state, rows)

        def apply(began: State, now: State, commit: int) -> State:
            # A row that holds the values, or newer ones, is not written again.
            then = self.model.upserted(began, rows, commit).rows
            changed = [
                row
                for row in rows
                if not _holds(began, key := self.model.key_of(row), row)
                and then[key] is not began.rows.get(key)
            ]
            return self.model.upserted(now, changed, commit)

        return _statement("sql merge", mode, text, apply, {"s": source}, rows)


def _with_marks(
    rows: list[Values], batch: pa.Table, marked: list[bool]
) -> tuple[list[Values], pa.Table]:
    """The rows and their batch with the column that says which of them are deletes."""
    with_marks: list[Values] = [
        {**row, DELETED: mark} for row, mark in zip(rows, marked, strict=True)
    ]
    return with_marks, batch.append_column(DELETED, pa.array(marked, pa.bool_()))


def _statement(
    kind: str,
    mode: str,
    text: str,
    apply: Apply,
    sources: Mapping[str, pa.Table] | None = None,
    rows: Iterable[Values] = (),
) -> Write:
    def run(table: LakehouseTable, options: Mapping[str, str]) -> CommitOutcome:
        tables: dict[str, LakehouseTable | pa.Table] = {"t": table, **(sources or {})}
        outcome: CommitOutcome = run_sql(text, tables=tables, options=options)
        return outcome

    named = tuple(rows)
    shown = f"{text} s = {list(named)}" if sources else text
    return Write(kind, mode, shown, run, apply, named)


def _holds(state: State, key: Key, values: Values) -> bool:
    """Whether the row has these values already, so that a statement does not write it again."""
    stored = state.rows.get(key)
    return stored is not None and repr(state.spelled(stored.values)) == repr(state.spelled(values))


def _cell(draw: random.Random, name: str) -> Any:
    kind = name.split("_")[1]
    return None if kind == "none" else VALUES[kind][1](draw)


def _at_least(least: int) -> Callable[[Values], bool]:
    return lambda row: row.get(NUMBER) is not None and row[NUMBER] >= least
