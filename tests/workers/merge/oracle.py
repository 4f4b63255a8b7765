"""What merging means, row by row in plain Python: slow, obvious, and the judge of the fast one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

Version = dict[str, Any]
KEY, ORDERING, DELETED = "_hoodie_record_key", "ts", "_sluice_deleted"
_DELETE_NOW = 2


def merged(
    versions: Iterable[Version],
    *,
    orders: bool,
    is_partial: bool,
    merger: Callable[[Version, Version], Version] | None = None,
) -> dict[str, Version]:
    """Key -> row, deletes among them. `versions` stand in the order of their visibility; one that
    lacks a column says nothing about it.
    """
    by_key: dict[str, list[Version]] = {}
    for version in versions:
        by_key.setdefault(version[KEY], []).append(version)
    rows = {}
    for key, mine in by_key.items():
        erased, *later = _since_erased(mine)
        counted = [erased, *later] if not is_erasing(erased) else later
        counted = sorted_versions(counted) if orders else counted
        if is_erasing(erased):
            counted = [erased, *counted]
        rows[key] = _row(counted, is_partial=is_partial, merger=merger)
    return rows


def merged_rows(versions: Iterable[Version], **rule: Any) -> dict[str, Version]:
    """As `merged`, without the keys that ended deleted."""
    return {key: row for key, row in merged(versions, **rule).items() if not row.get(DELETED)}


def is_erasing(version: Version) -> bool:
    return version.get(DELETED) == _DELETE_NOW


def sorted_versions(versions: Sequence[Version]) -> list[Version]:
    """Null before everything; between equals the later one stands later."""

    def rank(version: Version) -> tuple[bool, int]:
        ordering = version[ORDERING]
        return (ordering is not None, ordering or 0)

    return sorted(versions, key=rank)


def _since_erased(versions: list[Version]) -> list[Version]:
    """From the last delete that erases whatever stood before it."""
    starts = [at for at, version in enumerate(versions) if is_erasing(version)]
    return versions[starts[-1] :] if starts else versions


def _row(
    versions: Sequence[Version],
    *,
    is_partial: bool,
    merger: Callable[[Version, Version], Version] | None,
) -> Version:
    last = versions[-1]
    if last.get(DELETED):
        return dict(last)
    deletes = [at for at, version in enumerate(versions) if version.get(DELETED)]
    alive = versions[deletes[-1] + 1 :] if deletes else versions
    if merger is not None:
        return reduce(merger, alive)
    row = {}
    for column in dict.fromkeys(name for version in alive for name in version):
        said = [one[column] for one in alive if column in one]
        if is_partial:
            said = [value for value in said if value is not None]
        row[column] = said[-1] if said else None
    return row
