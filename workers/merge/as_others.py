"""How Apache Hudi and hudi-rs merge the versions of a key in a slice, where we do it otherwise.

They fold the logs first, in the order in which they were requested, and what that leaves meets the
base file's row. We let every version meet every other, in the order in which they were completed.
It comes out differently in these ways (measured with hudi-rs 0.5.0 and Apache Hudi 1.2):

- A delete by key erases what stood before it. Among their logs a row that comes after it replaces
  it, and is then compared with the base file's row, as if that had not been erased.
  A delete with an ordering value that comes after it is lost on them, and hides no older row.
- A null ordering value is below everything here. There it is an integer of 32 bits, 0: a delete of
  that age erases. Beside a value of another type, be it a long, Apache Hudi's read fails.

Rows of partial updates they fold two at a time in this order, and the base file's row last: of two
the greater one's values count, and the other's where it has none. So a row that comes after a
delete is filled up from the base file's row again, and of a row that is older than the base file's
a newer one in the logs takes what it does not say itself. hudi-rs drops a row in a block of all
columns that comes after a greater one, also where that one does not say a column.

One ordering value only; values, no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from workers.merge.versions import DELETE, DELETE_NOW, ROW, single


@dataclass(frozen=True, slots=True)
class Version:
    """What deciding needs of one version of a key."""

    kind: int
    """ROW, DELETE or DELETE_NOW."""
    order: Any
    """Dates and times as integers; None where it has no ordering value."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of one key in one slice."""

    base: Version | None
    completed: Sequence[Version]
    """Those of the logs, in the order in which they completed."""
    requested: Sequence[Version]
    """The same in the order of request, with those that are stated again."""


@dataclass(frozen=True, slots=True)
class PartialVersion(Version):
    """With what it says."""

    cells: Mapping[str, Any]
    """A row's values by column; null says nothing."""


def comparable(column: pa.ChunkedArray[Any]) -> list[Any]:
    """Ordering values; dates and times as integers, as Avro keeps them."""
    values: Any = single(column)
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return list(values.to_pylist())


def takes_null_for_zero(ordering: pa.DataType) -> bool:
    """Whether Apache Hudi compares values of this type with its default for null."""
    return pa.types.is_int32(ordering) or pa.types.is_date32(ordering)


def is_read_otherwise(versions: Versions, *, null_is_zero: bool) -> bool:
    """Whether one of them shows another row than we do, or cannot read it. Rows of one ordering
    value are one row here: which of them comes last is settled by stating one again.
    """
    try:
        theirs = _theirs(versions, null_is_zero=null_is_zero)
    except NotCompared:
        return True
    return _ours(versions) != theirs


class NotCompared(Exception):
    """Apache Hudi's read fails here."""


def _ours(versions: Versions) -> Version | None:
    """None for no row."""
    logs = versions.completed
    erased = max((at for at, version in enumerate(logs) if version.kind == DELETE_NOW), default=-1)
    rivals = list(logs[erased + 1 :])
    if erased < 0 and versions.base is not None:
        rivals.insert(0, versions.base)
    if not rivals:
        return None
    winner = rivals[0]
    for version in rivals[1:]:
        if winner.order is None or (version.order is not None and version.order >= winner.order):
            winner = version
    return winner if winner.kind == ROW else None


def _theirs(versions: Versions, *, null_is_zero: bool) -> Version | None:
    """None for no row. Raises NotCompared."""
    winner: Version | None = None
    for version in versions.requested:
        if winner is not None and _is_lost_on(winner, version, null_is_zero):
            continue
        if (
            winner is None
            or _erases(winner, null_is_zero)
            or _erases(version, null_is_zero)
            or _is_as_great(version, winner, null_is_zero)
        ):
            winner = version
    base = versions.base
    if winner is None:
        return base
    if _erases(winner, null_is_zero):
        return None
    if base is not None and not _is_as_great(winner, base, null_is_zero):
        winner = base
    return winner if winner.kind == ROW else None


def folded_as_others(
    base: PartialVersion | None, requested: Sequence[PartialVersion], *, null_is_zero: bool
) -> PartialVersion | None:
    """The row that they show of a key with partial updates; None for no row. `requested` are the
    versions of the logs, in the order of request. Raises NotCompared.
    """
    folded: PartialVersion | None = None
    for version in requested:
        folded = version if folded is None else _folded(folded, version, null_is_zero)
    if folded is None:
        return base
    if _erases(folded, null_is_zero):
        return None
    if base is not None:
        folded = _folded(base, folded, null_is_zero)
    return folded if folded.kind == ROW else None


def without_dropped(
    requested: Sequence[PartialVersion], names: Collection[str], *, null_is_zero: bool
) -> list[PartialVersion]:
    """Return the versions without the rows that hudi-rs drops if their blocks have all columns of
    the table, `names`: those that say every column and come behind a greater one. Raises
    NotCompared.
    """
    remaining: list[PartialVersion] = []
    greatest: PartialVersion | None = None
    for version in requested:
        is_full = version.kind == ROW and all(version.cells.get(name) is not None for name in names)
        is_less = (
            greatest is not None
            and greatest.kind == ROW
            and not _is_as_great(version, greatest, null_is_zero)
        )
        if is_full and is_less:
            continue
        remaining.append(version)
        if not is_less:
            greatest = version
    return remaining


def _folded(older: PartialVersion, newer: PartialVersion, null_is_zero: bool) -> PartialVersion:
    if _is_lost_on(older, newer, null_is_zero):
        return older
    if _erases(older, null_is_zero) or _erases(newer, null_is_zero):
        return newer
    winner, loser = newer, older
    if not _is_as_great(newer, older, null_is_zero):
        winner, loser = older, newer
    if winner.kind != ROW or loser.kind != ROW:
        return winner
    filled = {
        name: loser.cells.get(name) if cell is None else cell for name, cell in winner.cells.items()
    }
    return replace(winner, cells=filled)


def _is_lost_on(older: Version, newer: Version, null_is_zero: bool) -> bool:
    """Whether a delete with an ordering value meets one by key: that stays, and has none."""
    is_by_key = _erases(older, null_is_zero)
    return is_by_key and newer.kind == DELETE and not _erases(newer, null_is_zero)


def _erases(version: Version, null_is_zero: bool) -> bool:
    is_default = null_is_zero and version.order == 0
    return version.kind == DELETE_NOW or (version.kind == DELETE and is_default)


def _is_as_great(version: Version, other: Version, null_is_zero: bool) -> bool:
    if version.order is None and other.order is None:
        return True
    if null_is_zero:
        return bool((version.order or 0) >= (other.order or 0))
    if version.order is None or other.order is None:
        raise NotCompared
    return bool(version.order >= other.order)
