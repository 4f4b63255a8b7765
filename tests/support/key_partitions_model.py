"""What streams make of keys in several partitions, said again in plain Python: an oracle for
writers that begin in one order and complete in another.

A transaction is worked out on the table as it was when it began, and counts as if it had been done
when it completes; whoever completes second loses where that would differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.support.keyed_streams import GROUPS, MARK, wide
from tests.support.scenario_table import Row


@dataclass(slots=True)
class Version:
    age: int
    cell: int | None
    is_delete: bool


@dataclass(slots=True)
class KeyModel:
    """Where a key is, with a row or only deletes, and the newest version of each group."""

    day: str | None = None
    groups: dict[str, Version] = field(default_factory=dict)

    @property
    def is_alive(self) -> bool:
        return any(not one.is_delete for one in self.groups.values())


Verdict = Literal["commits", "conflicts", "is refused"]


@dataclass(slots=True)
class Begun:
    """A transaction that wrote its files."""

    rows: list[Row]
    is_delete: bool
    started: int
    """How many transactions had completed."""
    days: dict[str, str] = field(default_factory=dict)
    """Key -> where its rows go."""
    moved: set[str] = field(default_factory=set)
    """Keys of which a row counts beside what stands, be it that a mark of the same batch outdates
    it."""
    touched: dict[str, set[str]] = field(default_factory=dict)
    """Key -> partitions where a file says something of it."""
    sought: set[str] = field(default_factory=set)
    """Keys to delete that left no file in the partition that the delete names; they are looked for
    in what completed since, also where the row was found elsewhere."""
    is_refused: bool = False


class KeyPartitionsModel:
    def __init__(self, *, moves: bool) -> None:
        self._moves = moves
        self._keys: dict[str, KeyModel] = {}
        self._days_written: set[str] = set()
        self._completed: list[Begun] = []

    def begin(self, rows: list[Row], *, is_delete: bool = False) -> Begun:
        begun = Begun(rows, is_delete, len(self._completed))
        (self._begin_delete if is_delete else self._begin_rows)(begun)
        return begun

    def complete(self, begun: Begun) -> Verdict:
        if any(self._meet(begun, rival) for rival in self._completed[begun.started :]):
            return "conflicts"
        for row in begun.rows:
            self._apply(row, begun)
        for key in begun.moved:
            self._keys[key].day = begun.days[key]
        self._completed.append(begun)
        self._days_written |= {day for days in begun.touched.values() for day in days}
        return "commits"

    def rows(self) -> list[Row]:
        return [self._row(key) for key in sorted(self._keys) if self._keys[key].is_alive]

    def _row(self, key: str) -> Row:
        key_model = self._keys[key]
        cells: dict[str, Any] = {}
        for name, (age, column) in GROUPS.items():
            if (version := key_model.groups.get(name)) is not None:
                cells |= {age: version.age, column: None if version.is_delete else version.cell}
        return wide(key, key_model.day, **cells)

    def _begin_rows(self, begun: Begun) -> None:
        wanted: dict[str, set[str]] = {}
        for row in begun.rows:
            wanted.setdefault(row["id"], set()).add(row["day"])
        begun.is_refused = any(len(days) > 1 for days in wanted.values())
        for key, (day, *_) in wanted.items():
            stands = self._stands(key)
            if stands is None or stands == day:
                begun.days[key], begun.touched[key] = day, {day, *self._remembered(key)}
            elif not self._moves:
                begun.is_refused = True
            elif any(self._counts(row) for row in begun.rows if row["id"] == key):
                begun.days[key], begun.touched[key] = day, {day, stands}
                begun.moved.add(key)
            else:
                begun.days[key], begun.touched[key] = stands, {stands}

    def _begin_delete(self, begun: Begun) -> None:
        for row in begun.rows:
            key, day = row["id"], row["day"]
            stands = self._stands(key)
            if stands not in (None, day) and not self._moves:
                begun.is_refused = True
            where = stands or day
            if where in self._days_written:
                begun.touched.setdefault(key, set()).add(where)
            if day not in self._days_written:
                begun.sought.add(key)

    def _stands(self, key: str) -> str | None:
        key_model = self._keys.get(key, KeyModel())
        return key_model.day if key_model.is_alive else None

    def _remembered(self, key: str) -> set[str]:
        """Where deletes are remembered of a key that has no row; they go along with its next."""
        key_model = self._keys.get(key, KeyModel())
        return {str(key_model.day)} if key_model.groups and not key_model.is_alive else set()

    def _counts(self, row: Row) -> bool:
        """Whether a row of a key that stands would change something of it."""
        known = self._keys[row["id"]].groups
        return not row.get(MARK) and any(
            name not in known or age >= known[name].age for name, age, _ in _said(row)
        )

    @staticmethod
    def _meet(ours: Begun, rival: Begun) -> bool:
        for key, days in ours.touched.items():
            theirs = rival.touched.get(key, set())
            if theirs and len(days | theirs) > 1:
                return True
        brought = set() if rival.is_delete else {row["id"] for row in rival.rows}
        return bool(ours.sought & brought)

    def _apply(self, row: Row, begun: Begun) -> None:
        key = self._keys.setdefault(row["id"], KeyModel())
        if begun.is_delete:
            key.groups = {name: one for name, one in key.groups.items() if one.is_delete}
            return
        if not key.is_alive:
            key.day = begun.days[row["id"]]
        for name, age, cell in _said(row):
            known = key.groups.get(name)
            if known is None or age >= known.age:
                key.groups[name] = Version(age, cell, bool(row.get(MARK)))
                if not row.get(MARK):
                    key.day = begun.days[row["id"]]


def _said(row: Row) -> Iterable[tuple[str, int, int]]:
    for name, (age, column) in GROUPS.items():
        if row.get(age) is not None:
            yield name, row[age], row[column]
