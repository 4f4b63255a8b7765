"""The merge of Apache Hudi and hudi-rs for the versions of a key in a slice, where it differs from
ours.

They fold the logs first, in request order, and merge the result with the base file's row. Sluice
compares every version with every other, in completion order. The results differ in these ways
(measured with hudi-rs 0.5.0 and Apache Hudi 1.2):

- A delete by key removes all older versions. Among their logs a later row replaces it, and is then
  compared with the base file's row, as if that had not been removed. They lose a later delete with
  an ordering value, which hides no older row.
- A null ordering value is below every other one here. There it is 0 for a 32-bit integer: a delete
  with this value removes the row. With a value of another type, even a long, Apache Hudi's read
  fails.

They fold rows of partial updates two at a time in this order, and the base file's row last. From
two rows, the values of the greater one count, and the other's where it has none. So a row after a
delete is filled from the base file's row again. A row that is older than the base file's gets
values from a newer one in the logs. In a block of all columns, hudi-rs drops a row that comes after
a greater one, also if that lacks a column.

For one ordering value only; values, no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from workers.merge.versions import DELETE, DELETE_NOW, ROW, combine_chunks


@dataclass(frozen=True, slots=True)
class Version:
    """The kind and the ordering value of one version of a key."""

    kind: int
    """ROW, DELETE or DELETE_NOW."""
    order: Any
    """Dates and times as integers; None where it has no ordering value."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of one key in one slice."""

    base: Version | None
    completed: Sequence[Version]
    """The versions of the logs, in completion order."""
    requested: Sequence[Version]
    """The same in request order, with republished ones."""


@dataclass(frozen=True, slots=True)
class PartialVersion(Version):
    """A version with its cells."""

    cells: Mapping[str, Any]
    """A row's values by column; null means no value."""


def to_comparable(column: pa.ChunkedArray[Any]) -> list[Any]:
    """Return ordering values; dates and times as integers, as Avro has them."""
    values: Any = combine_chunks(column)
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return list(values.to_pylist())


def is_null_zero(ordering: pa.DataType) -> bool:
    """Check if Apache Hudi compares values of this type with its default for null."""
    return pa.types.is_int32(ordering) or pa.types.is_date32(ordering)


def is_divergent(versions: Versions, *, null_is_zero: bool) -> bool:
    """Check if one of them reads another row than Sluice, or fails to read it. Rows of one ordering
    value are one row here: a republished row decides which of them is last.
    """
    try:
        theirs = _merge_theirs(versions, null_is_zero=null_is_zero)
    except NotComparable:
        return True
    return _merge_ours(versions) != theirs


class NotComparable(Exception):
    """Apache Hudi's read fails here."""


def _merge_ours(versions: Versions) -> Version | None:
    """Return Sluice's row; None for no row."""
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


def _merge_theirs(versions: Versions, *, null_is_zero: bool) -> Version | None:
    """Return their row; None for no row. Raises NotComparable."""
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


def fold_like_hudi(
    base: PartialVersion | None, requested: Sequence[PartialVersion], *, null_is_zero: bool
) -> PartialVersion | None:
    """Return their row of a key with partial updates; None for no row. `requested` are the versions
    of the logs, in request order. Raises NotComparable.
    """
    folded: PartialVersion | None = None
    for version in requested:
        folded = version if folded is None else _fold_pair(folded, version, null_is_zero)
    if folded is None:
        return base
    if _erases(folded, null_is_zero):
        return None
    if base is not None:
        folded = _fold_pair(base, folded, null_is_zero)
    return folded if folded.kind == ROW else None


def without_dropped(
    requested: Sequence[PartialVersion], names: Collection[str], *, null_is_zero: bool
) -> list[PartialVersion]:
    """Return the versions without the rows that hudi-rs drops if their blocks have all columns of
    the table, `names`: those with a value in every column that come after a greater one. Raises
    NotComparable.
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


def _fold_pair(older: PartialVersion, newer: PartialVersion, null_is_zero: bool) -> PartialVersion:
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
    """Check if a delete with an ordering value comes after a delete by key, which stays and has
    none.
    """
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
        raise NotComparable
    return bool(version.order >= other.order)
