"""What column groups mean, one row at a time in plain Python: slow, obvious, and the judge of the
vectorised merge. Written from requirements 5.2 to 5.7; it looks at all versions of a key at once
and keeps no state between them.

A version is what a writer gave: a dict without the columns that its batch does not bring. Groups
are those of `hoodie.multistream.groups` as read from JSON, `_default` first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Version: TypeAlias = dict[str, Any]
Group: TypeAlias = Mapping[str, Any]
Rank: TypeAlias = tuple[Any, ...]
DELETED = "_sluice_deleted"
DELETE, DELETE_NOW = 1, 2


@dataclass(frozen=True, slots=True)
class GroupVersion:
    """One version of one group."""

    rank: tuple[Any, ...]
    """Its age, then its place in the order of commits."""
    row: Version
    is_delete: bool


@dataclass(slots=True)
class Answer:
    row: Version = field(default_factory=dict)
    present: set[str] = field(default_factory=set)
    """Groups that are set and not deleted. Without any the key is not there."""


def merged(versions: Sequence[Version], groups: Sequence[Group]) -> Answer:
    """What a key holds after these versions, given in the order in which they became visible."""
    counting_of = _counting(versions, groups)
    answer = Answer()
    for group in groups:
        counting = counting_of[group["name"]]
        if not counting:
            defaults = group.get("defaults", {})
            for column in (*group["ordering"], *group["columns"]):
                answer.row[column] = defaults.get(column)
            continue
        current = max(counting, key=_rank)
        if not current.is_delete:
            answer.present.add(group["name"])
        for column in group["ordering"]:
            answer.row[column] = current.row[column]
        for column in group["columns"]:
            answer.row[column] = _value(column, group, counting, current)
    return answer


def _counting(
    versions: Sequence[Version], groups: Sequence[Group]
) -> dict[str, list[GroupVersion]]:
    """The versions of each group that no delete of rows took away. A delete by key leaves of what
    counted before it the deletes that have an age.
    """
    gone_until: Rank | None = None
    left: dict[str, list[GroupVersion]] = {group["name"]: [] for group in groups}
    counting = left
    begin = 0
    for end, version in enumerate((*versions, {DELETED: DELETE_NOW})):
        if version.get(DELETED) != DELETE_NOW:
            continue
        some = [one if begin <= at < end else {} for at, one in enumerate(versions)]
        ages = [age for age in (gone_until, _row_delete(some, groups)) if age is not None]
        gone_until = max(ages, default=None)
        counting = {
            group["name"]: [
                one
                for one in (*left[group["name"]], *_versions_of_group(some, group))
                if gone_until is None or one.rank >= gone_until
            ]
            for group in groups
        }
        if end == len(versions):
            break
        left = {group["name"]: _deletes(group, counting[group["name"]]) for group in groups}
        begin = end + 1
    return counting


def _deletes(group: Group, counting: Sequence[GroupVersion]) -> list[GroupVersion]:
    """What is remembered of a group where its key is deleted: of columns with ages of their own
    the greatest delete, else the delete that the group ended with.
    """
    if not counting or not group["ordering"] or group.get("on_late") == "overwrite":
        return []
    is_apart = any(_is_apart(column, group) for column in group["columns"])
    is_by_column = is_apart or group.get("granularity") == "column"
    current = max(counting, key=_rank)
    deletes = [one for one in counting if one.is_delete] if is_by_column else [current]
    return [max(deletes, key=_rank)] if deletes and max(deletes, key=_rank).is_delete else []


def _rank(version: GroupVersion) -> tuple[Any, ...]:
    return version.rank


def _versions_of_group(versions: Sequence[Version], group: Group) -> list[GroupVersion]:
    """The versions of the group, in the order of commits."""
    group_versions = []
    for at, version in enumerate(versions):
        if not group["ordering"]:
            if any(column in version for column in group["columns"]):
                group_versions.append(GroupVersion((at,), version, version.get(DELETED) == DELETE))
            continue
        ages = [version.get(column) for column in group["ordering"]]
        if all(age is None for age in ages):
            continue
        is_late_fine = group.get("on_late") == "overwrite"
        age = () if is_late_fine else tuple((one is not None, one) for one in ages)
        group_versions.append(
            GroupVersion((*_comparable(age), at), version, version.get(DELETED) == DELETE)
        )
    return group_versions


def _comparable(age: tuple[tuple[bool, Any], ...]) -> tuple[Any, ...]:
    """Null below everything, and never compared with a value."""
    return tuple((1, value) if is_there else (0,) for is_there, value in age)


def _row_delete(versions: Sequence[Version], groups: Sequence[Group]) -> tuple[Any, ...] | None:
    deletes = [
        version.rank
        for group in groups
        if group.get("delete") == "row"
        for version in _versions_of_group(versions, group)
        if version.is_delete
    ]
    return max(deletes, default=None)


def _value(
    column: str, group: Group, counting: Sequence[GroupVersion], current: GroupVersion
) -> Any:
    how = group.get("aggregates", {}).get(column, "")
    if how in ("sum", "max", "min") or how.startswith("collect_topn"):
        values = [one.row.get(column) for one in counting]
        return _folded(how, values, is_retractable=bool(group.get("slack")))
    if not _is_apart(column, group):
        return None if current.is_delete else current.row.get(column)
    deletes = [one.rank for one in counting if one.is_delete]
    says = [
        one
        for one in counting
        if not one.is_delete and column in one.row and (not deletes or one.rank > max(deletes))
    ]
    if how == "last_non_null" or group.get("null_mode") == "keep":
        says = [one for one in says if one.row[column] is not None]
    if not says:
        return None
    choose = min if how == "first" else max
    return choose(says, key=_rank).row[column]


def _is_apart(column: str, group: Group) -> bool:
    """Whether the column has an age of its own."""
    how = group.get("aggregates", {}).get(column, "")
    is_by_column = group.get("granularity") == "column" or group.get("null_mode") == "keep"
    return how in ("first", "last_non_null") or (not how and is_by_column)


def _folded(how: str, values: Sequence[Any], *, is_retractable: bool) -> Any:
    given = [one for one in values if one is not None]
    if not given:
        return None
    if how.startswith("collect_topn"):
        most = int(how.removeprefix("collect_topn(").removesuffix(")"))
        items = [item for listed in given for item in listed]
        return _greatest_of_each(_left(items) if is_retractable else items)[:most]
    folds: dict[str, Callable[[list[Any]], Any]] = {"sum": sum, "max": max, "min": min}
    return folds[how](given)


def _left(items: Sequence[Version]) -> list[Version]:
    """Without retractions, and what these took out."""
    left: list[Version] = []
    for item in items:
        score, *others = item.values()
        if score is None:
            left = [one for one in left if list(one.values())[1:] != others]
        else:
            left.append(item)
    return left


def _greatest_of_each(items: Sequence[Version]) -> list[Version]:
    """Each item once, with its greatest score; of equal scores the one that came earlier first."""
    best: dict[tuple[Any, ...], tuple[Any, Version]] = {}
    for place, item in enumerate(items):
        score, *others = item.values()
        rank = (*_comparable(((score is not None, score),)), -place)
        if tuple(others) not in best or rank > best[tuple(others)][0]:
            best[tuple(others)] = rank, item
    return [item for _, item in sorted(best.values(), key=lambda ranked: ranked[0], reverse=True)]
