"""Mergers that users register in Python under a name; a table names the one it is merged with.

A merger is never loaded by a class name from a configuration: a table's properties are untrusted
text. The process that opens the table must have registered the name; executors get the function
itself, inside the `MergeRule`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import pyarrow as pa

from workers.errors import InvalidInput, UnsupportedTable

Merger: TypeAlias = Callable[[pa.Table, pa.Table], pa.Table]
"""`(older, newer) -> merged`: row n of both has the same key, and row n of the answer is their
merged row. All three have the same schema. It must be associative, or what a key holds depends on
how its versions were batched.
"""

_registered: dict[str, Merger] = {}


def register_merger(name: str, merger: Merger) -> None:
    """Register a merger under a name. Registering the same function again is allowed. Raises
    InvalidInput for a name that is in use.
    """
    if not name or not callable(merger):
        raise InvalidInput("a merger has a name and is callable", name=name, merger=merger)
    registered = _registered.setdefault(name, merger)
    if registered is not merger:
        raise InvalidInput("another merger has this name already", name=name)


def install_mergers(mergers: Mapping[str, Merger]) -> None:
    """Install the mergers of another process, for which this one works, in place of its own.

    A function that was sent is another object each time, so registering it again would fail.
    """
    _registered.update(mergers)


def get_merger(name: str) -> Merger:
    """Return the merger with this name. Raises UnsupportedTable for a name that this process has
    not registered.
    """
    if name not in _registered:
        raise UnsupportedTable(
            "record merger is not registered in this process; call register_merger first",
            merger=name,
            registered=sorted(_registered),
        )
    return _registered[name]
