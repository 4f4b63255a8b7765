"""How much of what a commit says of itself somebody may see: it can say first and last values of
columns, keys, and whatever its writer put into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controlplane.mirror.group_rows import ordering_of
from controlplane.tables.masks import MASK
from controlplane.tables.models import Table
from controlplane.tables.row_access import RowAccess, do_record_rows_glanced_at

_OF_NO_ROW: Final = (
    "sluice.writer.",
    "sluice.operation.",
    "sluice.rows",
    "sluice.moved.rows",
    "sluice.attempts",
    "sluice.dead_letter.",
    "sluice.lock",
    "sluice.restate",
    "hoodie.sink.",
)
"""How the names begin of what Sluice writes into a commit and what is of no row. A stream's newest
ordering value is not among them, nor is anything that another writer put there.
"""
_NAMES: Final = frozenset({"sluice.stream", "sluice.stream.columns"})
_ENDS: Final = ("least", "greatest")


def seen_metadata(
    table: Table, access: RowAccess, metadata: Mapping[str, Any]
) -> Mapping[str, Any]:
    """An instant's metadata as it is mirrored; the same names. A key in it is a look at rows that
    is in the audit.
    """
    groups: Mapping[str, Any] = metadata.get("groups") or {}
    if access.sees_all:
        keys = sum(bool(facts.get("late_key")) for facts in groups.values())
        do_record_rows_glanced_at(access, door="instant", rows=keys)
        return metadata
    seen = dict(metadata)
    if groups:
        seen["groups"] = {name: _facts(table, access, name, of) for name, of in groups.items()}
    if "extra" in metadata:
        seen["extra"] = {
            name: text if _is_of_no_row(name) else MASK for name, text in metadata["extra"].items()
        }
    return seen


def _facts(
    table: Table, access: RowAccess, group: str, facts: Mapping[str, Any]
) -> Mapping[str, Any]:
    hidden = {"late_key"} if access.hides_keys else set()
    if access.hides(*ordering_of(table, group)):
        hidden.update(_ENDS)
    return {name: MASK if name in hidden else fact for name, fact in facts.items()}


def _is_of_no_row(name: str) -> bool:
    return name in _NAMES or name.startswith(_OF_NO_ROW)
