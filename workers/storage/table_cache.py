"""Values that a process has derived from the files of a table, shared by all who have the table
open.

Each kind of value checks against a listing that it is still valid: an empty cache gives the same
answers, later. A cache is dropped with the last user of the table.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, TypeVar, cast
from weakref import WeakValueDictionary

_Kind = TypeVar("_Kind")


class TableCache:
    """The cache of one table's files. Thread-safe: concurrent threads may derive a value twice."""

    _shared: ClassVar[WeakValueDictionary[Hashable, TableCache]] = WeakValueDictionary()

    def __init__(self) -> None:
        self._kinds: dict[type, object] = {}

    @classmethod
    def of(cls, place: Hashable) -> TableCache:
        """Return the cache that all of this process share who have the table at `place` open.

        Two that open it first at the same moment may get one each.
        """
        return cls._shared.setdefault(place, cls())

    def of_kind(self, kind: type[_Kind]) -> _Kind:
        """Return the table's only `kind`, which is created without arguments on first use."""
        return cast(_Kind, self._kinds.get(kind) or self._kinds.setdefault(kind, kind()))
