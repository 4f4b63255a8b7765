"""What a table must hold: a dictionary of rows, and what each commit left of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Key(NamedTuple):
    part: str
    id: str


class Row(NamedTuple):
    part: str
    id: str
    ts: int
    city: str | None

    @property
    def key(self) -> Key:
        return Key(self.part, self.id)


Rows = dict[Key, Row]


@dataclass
class Model:
    rows: Rows = field(default_factory=dict)
    commits: list[tuple[str, Rows]] = field(default_factory=list)
    """(completion time, rows then), for every commit that still stands."""
    is_global: bool = False
    """An id stands once, in whichever partition."""

    def upserted(self, batch: list[Row]) -> Rows:
        """Event-time order: the greatest ordering value wins, the later of equals."""
        after = {self._name(key): row for key, row in self.rows.items()}
        for row in batch:
            older = after.get(self._name(row.key))
            if older is None or row.ts >= older.ts:
                after[self._name(row.key)] = row
        return {row.key: row for row in after.values()}

    def _name(self, key: Key) -> Key | str:
        return key.id if self.is_global else key

    def deleted(self, keys: list[Key]) -> Rows:
        gone = {self._name(key) for key in keys}
        return {key: row for key, row in self.rows.items() if self._name(key) not in gone}

    def overwritten(self, batch: list[Row]) -> Rows:
        touched = {row.part for row in batch}
        kept = {key: row for key, row in self.rows.items() if key.part not in touched}
        return Model(kept).upserted(batch)

    def without_partition(self, part: str) -> Rows:
        return {key: row for key, row in self.rows.items() if key.part != part}
