"""How Apache Hudi and hudi-rs merge the versions of a key in a slice, where we do it otherwise.

They fold the logs first, in the order in which they were requested, and what that leaves meets the
base file's row. We let every version meet every other, in the order in which they were completed.
It comes out differently in two ways (measured with hudi-rs 0.5.0 and Apache Hudi 1.2):

- A delete by key erases what stood before it. Among their logs a row that comes after it replaces
  it, and is then compared with the base file's row, as if that had not been erased.
- A null ordering value is below everything here. There it is an integer of 32 bits, 0: a delete of
  that age erases. Beside a value of another type, be it a long, Apache Hudi's read fails.

Whole rows with one ordering value only; values, no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from workers.merge.versions import DELETE, DELETE_NOW, ROW


@dataclass(frozen=True, slots=True)
class Version:
    """What deciding needs of one version of a key."""

    kind: int
    """ROW, DELETE or DELETE_NOW."""
    order: Any
    """Dates and times as integers; None where it has no ordering value."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Of one key in one slice."""

    base: Version | None
    completed: Sequence[Version]
    """Those of the logs, in the order in which they completed."""
    requested: Sequence[Version]
    """The same in the order of request, with those that are stated again."""


def takes_null_for_zero(ordering: pa.DataType) -> bool:
    """Whether Apache Hudi compares values of this type with its default for null."""
    return pa.types.is_int32(ordering) or pa.types.is_date32(ordering)


def is_read_otherwise(versions: Versions, *, null_is_zero: bool) -> bool:
    """Whether one of them shows another row than we do, or cannot read it. Rows of one ordering
    value are one row here: which of them comes last is settled by stating one again.
    """
    try:
        theirs = _theirs(versions, null_is_zero=null_is_zero)
    except _NotCompared:
        return True
    return _ours(versions) != theirs


class _NotCompared(Exception):
    """Apache Hudi's read fails here."""


def _ours(versions: Versions) -> Version | None:
    """None for no row."""
    logs = versions.completed
    erased = max((at for at, one in enumerate(logs) if one.kind == DELETE_NOW), default=-1)
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
    """None for no row. Raises _NotCompared."""
    winner: Version | None = None
    for version in versions.requested:
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


def _erases(version: Version, null_is_zero: bool) -> bool:
    is_default = null_is_zero and version.order == 0
    return version.kind == DELETE_NOW or (version.kind == DELETE and is_default)


def _is_as_great(version: Version, other: Version, null_is_zero: bool) -> bool:
    if version.order is None and other.order is None:
        return True
    if null_is_zero:
        return bool((version.order or 0) >= (other.order or 0))
    if version.order is None or other.order is None:
        raise _NotCompared
    return bool(version.order >= other.order)
