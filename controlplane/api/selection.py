"""Which fields of its rows an answer has (`?fields=a,b`), and in which order a whole list stands
(`?sort=-a`). Both refuse names that they do not know, and say which there are.

Lists that come in pages are sorted by the database: see `controlplane.paging`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rest_framework import serializers

from controlplane.errors import InvalidRequest

FIELDS = "fields"
SORT = "sort"
_NAME_CHARS_MAX = 64


def row_names(described: object) -> tuple[str, ...]:
    """The fields of the rows of an answer that is described by a serializer: of an object, of a
    list's rows, of the rows in a page. Empty for answers without such rows.
    """
    if isinstance(described, type) and issubclass(described, serializers.BaseSerializer):
        described = described()
    if isinstance(described, serializers.ListSerializer):
        described = described.child
    if not isinstance(described, serializers.Serializer):
        return ()
    names = described.fields
    if set(names) == {"results", "next_cursor"}:
        return row_names(names["results"])
    return tuple(names)


def chosen_fields(text: str, known: Sequence[str]) -> frozenset[str]:
    """The names in `a,b`. Raises InvalidRequest for none at all, and for one that is not known."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidRequest("fields must contain at least one field", known=list(known))
    _refuse_unknown("there is no such field", names, known)
    return frozenset(names)


def chosen_sort(text: str, keys: Sequence[str]) -> tuple[str, bool]:
    """The key of `a` or `-a`, and whether the greatest comes first. Raises InvalidRequest."""
    key = text.removeprefix("-")
    _refuse_unknown("this list is not sorted by that", [key], keys)
    return key, text.startswith("-")


def sort_choices(keys: Sequence[str]) -> list[str]:
    """What `sort` may be."""
    return [choice for key in keys for choice in (key, f"-{key}")]


def with_fields(answer: Any, names: Collection[str]) -> Any:
    """The answer with these fields of its rows alone; a page keeps its cursor."""
    if isinstance(answer, list):
        return [_cut(row, names) for row in answer]
    if set(answer) == {"results", "next_cursor"}:
        return {**answer, "results": [_cut(row, names) for row in answer["results"]]}
    return _cut(answer, names)


def sorted_rows(
    rows: list[dict[str, Any]], key: str, *, is_descending: bool
) -> list[dict[str, Any]]:
    """Rows without the value come last, whichever way; equal ones stay as they stood."""
    present = [row for row in rows if row[key] is not None]
    absent = [row for row in rows if row[key] is None]
    return sorted(present, key=lambda row: _comparable(row[key]), reverse=is_descending) + absent


def _comparable(shown: Any) -> Any:
    """Moments have their fraction of a second only where there is one: `Z` would come after it."""
    return shown.removesuffix("Z") if isinstance(shown, str) else shown


def _cut(row: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: shown for name, shown in row.items() if name in names}


def _refuse_unknown(message: str, names: Sequence[str], known: Sequence[str]) -> None:
    if unknown := sorted({name[:_NAME_CHARS_MAX] for name in names} - set(known)):
        raise InvalidRequest(message, unknown=unknown, known=list(known))
