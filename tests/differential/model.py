"""What a table must hold: a dictionary of rows by key, and what each commit left of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.differential.shape import AGE, DELETED, Shape
from tests.workers.merge.group_oracle import DELETE, DELETE_NOW, merged
from tests.workers.merge.group_oracle import DELETED as DELETED_NOW

Key = tuple[Any, ...]
Values = Mapping[str, Any]
Age = tuple[Any, ...]
"""Empty for null, which is smaller than every value."""


def age_of(value: Any) -> Age:
    return () if value is None else (value,)


@dataclass(frozen=True)
class Stored:
    """A row as it stands, how old each of its columns is, and the commit that wrote it."""

    values: Values
    ages: Mapping[str, Age]
    commit: int


@dataclass(frozen=True)
class State:
    """The rows of a table at one time, its columns, and what it remembers of keys besides."""

    rows: Mapping[Key, Stored]
    columns: tuple[tuple[str, Any], ...]
    """(name, Arrow type), in the order of the schema."""
    memory: Mapping[Key, Any] = field(default_factory=dict)
    """The age of the delete of a key that logs hold; with column groups all versions of a key."""

    def spelled(self, values: Values) -> tuple[Any, ...]:
        return tuple(values.get(name) for name, _ in self.columns)

    def listed(self, keys: Iterable[Key] | None = None) -> list[tuple[Any, ...]]:
        chosen = self.rows if keys is None else keys
        return [self.spelled(self.rows[key].values) for key in chosen]

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.columns}


@dataclass(frozen=True)
class Model:
    """The rules of one kind of table."""

    shape: Shape

    def key_of(self, values: Values) -> Key:
        part = () if self.shape.is_global else self.partition_of(values)
        return (*part, *(values[name] for name in self.shape.key_names))

    def partition_of(self, values: Values) -> Key:
        return tuple(values.get(name) for name in self.shape.partition_names)

    def upserted(self, state: State, batch: Iterable[Values], commit: int) -> State:
        rows, memory = dict(state.rows), dict(state.memory)
        if self.shape.has_groups:
            for values in batch:
                key = self.key_of(values)
                memory[key] = (*memory.get(key, ()), _version(values))
                self._merge_groups(rows, memory, key, commit, values)
            return replace(state, rows=rows, memory=memory)
        for values in batch:
            key = self.key_of(values)
            if values.get(DELETED):
                self._mark(rows, memory, key, age_of(values.get(AGE)))
            else:
                self._put(rows, memory, key, values, commit)
        # A base file remembers no delete.
        return replace(state, rows=rows, memory=memory if self.shape.is_mor else {})

    def _merge_groups(
        self,
        rows: dict[Key, Stored],
        memory: Mapping[Key, Any],
        key: Key,
        commit: int,
        values: Values,
    ) -> None:
        answer = merged(memory[key], self.shape.groups)
        if not answer.present:
            rows.pop(key, None)
            return
        named = (*self.shape.partition_names, *self.shape.key_names)
        cells = {name: values[name] for name in named} | answer.row
        rows[key] = Stored(cells, {}, commit)

    def _mark(self, rows: dict[Key, Stored], memory: dict[Key, Age], key: Key, age: Age) -> None:
        if key in rows and self.shape.by_event and rows[key].ages[AGE] > age:
            return
        rows.pop(key, None)
        if self.shape.by_event:
            memory[key] = max(age, memory.get(key, ()))

    def _put(
        self,
        rows: dict[Key, Stored],
        memory: dict[Key, Age],
        key: Key,
        values: Values,
        commit: int,
    ) -> None:
        age = age_of(values.get(AGE)) if self.shape.by_event else ()
        old = rows.get(key)
        if self.shape.is_partial:
            if age < memory.get(key, ()):
                return  # A delete that tells its age took it.
            row = rows[key] = _folded(old, values, age, commit)
            if old and self.partition_of(old.values) != self.partition_of(row.values):
                rows[key] = _of_one_age(row)  # It moves as a whole.
        elif age >= (old.ages[AGE] if old else memory.get(key, ())):
            rows[key] = Stored(values, {AGE: age}, commit)
            memory.pop(key, None)

    def without(self, state: State, keys: Iterable[Key]) -> State:
        """After a delete by key: what comes later begins afresh."""
        gone = set(keys)
        kept = {key: what for key, what in state.memory.items() if key not in gone}
        if self.shape.has_groups:
            now = {DELETED_NOW: DELETE_NOW}
            again = {key: (*state.memory[key], now) for key in gone if key in state.memory}
            kept = {**kept, **again}
        rows = {key: row for key, row in state.rows.items() if key not in gone}
        return replace(state, rows=rows, memory=kept)

    def emptied(self, state: State, partitions: Iterable[Key]) -> State:
        gone, width = set(partitions), len(self.shape.partition_names)
        kept = self.find(state, lambda row: self.partition_of(row) not in gone)
        memory = {key: what for key, what in state.memory.items() if key[:width] not in gone}
        return replace(state, rows=kept, memory=memory)

    def find(self, state: State, test: Callable[[Values], bool]) -> dict[Key, Stored]:
        return {key: row for key, row in state.rows.items() if test(row.values)}

    def compacted(self, state: State) -> State:
        """A base file knows one age for a row, that of its greatest, and no deletes."""
        rows = state.rows
        if self.shape.merge == "partial event":
            rows = {key: _of_one_age(row) for key, row in rows.items()}
        return replace(state, rows=rows, memory=state.memory if self.shape.has_groups else {})

    def written(self, before: State, after: State, first: int) -> list[Key]:
        """Keys of `after` that commits from `first` on wrote; with partial updates, changed."""
        if not self.shape.compares_rows:
            return [key for key, row in after.rows.items() if row.commit >= first]
        return [
            key
            for key, row in after.rows.items()
            if key not in before.rows
            or repr(after.spelled(row.values)) != repr(after.spelled(before.rows[key].values))
        ]

    def changes(self, before: State, after: State, commit: int) -> list[tuple[str, Any, Any]]:
        """(op, before, after) of each key that the commit changed."""
        changes: list[tuple[str, Any, Any]] = []
        for key in self.written(before, after, commit):
            old, new = before.rows.get(key), after.rows[key].values
            changes.append(("u", old.values, new) if old else ("i", None, new))
        gone = [key for key in before.rows if key not in after.rows]
        return changes + [("d", before.rows[key].values, None) for key in gone]

    def touched(self, before: State, after: State) -> frozenset[Key]:
        """Keys whose rows are not what they were, or are written again."""
        keys = {*before.rows, *after.rows}
        return frozenset(key for key in keys if before.rows.get(key) is not after.rows.get(key))


def _version(values: Values) -> dict[str, Any]:
    version = {name: value for name, value in values.items() if name != DELETED}
    return version | ({DELETED_NOW: DELETE} if values.get(DELETED) else {})


def _folded(old: Stored | None, values: Values, age: Age, commit: int) -> Stored:
    """A null says nothing; each column takes its value of the greatest age."""
    cells, ages = (dict(old.values), dict(old.ages)) if old else ({}, {})
    for name, value in values.items():
        if value is not None and age >= ages.get(name, ()):
            cells[name], ages[name] = value, age
    return Stored(cells, ages, commit)


def _of_one_age(row: Stored) -> Stored:
    return replace(row, ages=dict.fromkeys(row.ages, max(row.ages.values())))


@dataclass(eq=False)
class Entry:
    """A completed commit or service, and what it left."""

    number: int
    kind: str
    instant: str
    completed_at: str
    state: State
    touched: frozenset[Key] = frozenset()
    file_groups: frozenset[tuple[str, str]] = frozenset()
    restated_by: str | None = None
    restated_at: str | None = None
    """When the instant that states it again for other readers was complete."""
    may_be_expired: bool = False

    @property
    def ends_at(self) -> str:
        return self.restated_at or self.completed_at
