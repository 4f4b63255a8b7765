"""What a process has worked out from the files of a table, for all who have the table open.

Each kind of knowledge checks for itself, against a listing, that what it holds is still so: an
empty memory answers the same, later. It goes when the last who has the table open has gone.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, TypeVar, cast
from weakref import WeakValueDictionary

_Kind = TypeVar("_Kind")


class Remembered:
    """What is remembered of one table's files. Thread-safe: what threads learn at once they may
    learn twice.
    """

    _shared: ClassVar[WeakValueDictionary[Hashable, Remembered]] = WeakValueDictionary()

    def __init__(self) -> None:
        self._kinds: dict[type, object] = {}

    @classmethod
    def of(cls, place: Hashable) -> Remembered:
        """The one that all of this process share who have the table at `place` open.

        Two that open it first at the same moment may get one each.
        """
        return cls._shared.setdefault(place, cls())

    def of_kind(self, kind: type[_Kind]) -> _Kind:
        """The table's one `kind`, made without arguments when it is first asked for."""
        return cast(_Kind, self._kinds.get(kind) or self._kinds.setdefault(kind, kind()))
