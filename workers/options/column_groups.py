"""Column groups: the columns of a wide table that each stream writes, and their ordering.

A table declares them in `hoodie.multistream.groups`, a JSON list, or in the shorthand of
`hoodie.payload.ordering.field`. Columns without a group are in the group `_default`. Values only;
`workers.merge` implements the rules (requirements 5.1 and 5.2).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from workers.errors import InvalidInput
from workers.options.aggregates import (
    SLACK_KEY,
    Aggregate,
    ColumnAggregate,
    check_slack,
    parse_aggregate,
    parse_slack,
)
from workers.options.group_keys import (
    GROUPS_KEY,
    JOIN_KEY,
    PORTABLE_KEY,
    RETENTION_KEY,
    SHORTHAND_KEY,
)
from workers.options.group_settings import DeleteScope, Granularity, NullMode, OnLate
from workers.options.option_values import duration_minutes

DEFAULT_GROUP = "_default"
GROUPS_MAX = 60
"""Their states are bits of one 64-bit number."""
RESERVED_PREFIX = "_ms_"
_NO_DATA = (RESERVED_PREFIX, "_hoodie_", "_sluice_")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class ColumnGroup:
    """The columns that one stream writes, and how their versions are ordered and folded."""

    name: str
    ordering: tuple[str, ...]
    """Compared from left to right, null below everything. Empty only for `_default`, whose later
    commit wins then.
    """
    columns: tuple[str, ...]
    on_late: OnLate = OnLate.IGNORE
    null_mode: NullMode = NullMode.OVERWRITE
    delete: DeleteScope = DeleteScope.GROUP
    granularity: Granularity = Granularity.GROUP
    aggregates: Mapping[str, ColumnAggregate] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What columns hold while the group has not been written; JSON values."""

    @property
    def all_columns(self) -> tuple[str, ...]:
        """The group's columns, those that order its versions first."""
        return (*self.ordering, *self.columns)

    @property
    def is_ordered(self) -> bool:
        """True if the ordering columns decide between versions; otherwise the later commit wins."""
        return bool(self.ordering) and self.on_late is OnLate.IGNORE

    def is_versioned(self, column: str) -> bool:
        """Return True if the column's version may differ from the group's."""
        if aggregate := self.aggregates.get(column):
            return aggregate.kind in (Aggregate.FIRST, Aggregate.LAST_NON_NULL)
        return self.granularity is Granularity.COLUMN

    def is_null_ignored(self, column: str) -> bool:
        """Return True if a null keeps the column's earlier value."""
        aggregate = self.aggregates.get(column)
        is_last = aggregate is not None and aggregate.kind is Aggregate.LAST_NON_NULL
        return is_last or self.null_mode is NullMode.KEEP

    @property
    def lists(self) -> Mapping[str, ColumnAggregate]:
        """The columns that are top-N lists."""
        is_list = Aggregate.COLLECT_TOP_N
        return {
            name: aggregate
            for name, aggregate in self.aggregates.items()
            if aggregate.kind is is_list
        }

    def with_slack(self, text: str) -> ColumnGroup:
        """Return the group with the slack in `text`, the table's `hoodie.topn.slack`."""
        own = {
            name: replace(aggregate, slack=parse_slack(text, aggregate.top_n))
            for name, aggregate in self.lists.items()
        }
        return replace(self, aggregates={**self.aggregates, **own}) if own else self

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parse_groups` reads; slack is the table's own property."""
        members: dict[str, Any] = {
            "name": self.name,
            "ordering": list(self.ordering),
            "columns": list(self.columns),
            "on_late": self.on_late.value,
            "null_mode": self.null_mode.value,
            "delete": self.delete.value,
            "granularity": self.granularity.value,
        }
        if self.aggregates:
            members["aggregates"] = {
                name: aggregate.text for name, aggregate in self.aggregates.items()
            }
        return members | ({"defaults": dict(self.defaults)} if self.defaults else {})


def parse_groups(text: str) -> tuple[ColumnGroup, ...]:
    """Parse the JSON of `hoodie.multistream.groups` to declared groups. Raises InvalidInput."""
    try:
        listed = json.loads(text)
    except ValueError as error:
        raise InvalidInput("column groups are not JSON", key=GROUPS_KEY, given=text) from error
    if not isinstance(listed, list) or not listed:
        raise InvalidInput("column groups are a JSON list of objects", key=GROUPS_KEY, given=text)
    groups = tuple(_group(members) for members in listed)
    check_groups(groups)
    return groups


def parse_shorthand(text: str) -> tuple[ColumnGroup, ...]:
    """Parse `ts_a:a1,a2;ts_b:b1,b2`; a group is named after its ordering column. Raises
    InvalidInput.
    """
    groups = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        ordering, colon, columns = part.partition(":")
        if not colon:
            raise InvalidInput("a group is written `ordering:column,column`", group=part)
        groups.append(ColumnGroup(ordering.strip(), (ordering.strip(),), _parse_list(columns)))
    if not groups:
        raise InvalidInput("no group is named", key=SHORTHAND_KEY, given=text)
    check_groups(groups)
    return tuple(groups)


def groups_json(groups: Sequence[ColumnGroup]) -> str:
    """Format the text of `hoodie.multistream.groups`, without the group `_default`."""
    declared = [group.to_json() for group in groups if group.name != DEFAULT_GROUP]
    return json.dumps(declared, separators=(",", ":"))


def check_groups(groups: Sequence[ColumnGroup]) -> None:
    """Check the groups on their own, without the table's columns. Raises InvalidInput."""
    if len(groups) > GROUPS_MAX:
        raise InvalidInput("too many column groups", given=len(groups), most=GROUPS_MAX)
    if twice := _find_repeated(each.name for each in groups):
        raise InvalidInput("two column groups have one name", groups=twice)
    if twice := _find_repeated(name for each in groups for name in each.all_columns):
        raise InvalidInput("a column belongs to one group, once", columns=twice)
    for group in groups:
        _check_group(group)
    row_deleting = [each.name for each in groups if each.delete is DeleteScope.ROW]
    if row_deleting and any(len(each.ordering) != 1 for each in groups):
        raise InvalidInput(
            "delete=row compares the ages of all groups: each needs exactly one ordering column",
            groups=row_deleting,
        )
    if late := [each.name for each in groups if each.on_late is OnLate.OVERWRITE]:
        _check_unordered(groups, late, row_deleting)
    if row_deleting and any(each.aggregates for each in groups):
        raise InvalidInput("a table with aggregates has no delete=row: they cannot be undone")


def _find_repeated(names: Iterable[str]) -> list[str]:
    return sorted(name for name, times in Counter(names).items() if times > 1)


def _check_unordered(
    groups: Sequence[ColumnGroup], late: Sequence[str], row_deleting: Sequence[str]
) -> None:
    """Check the settings that need ordering values if groups follow commits. Raises
    InvalidInput.
    """
    if row_deleting:
        raise InvalidInput(
            "delete=row compares ages, and with on_late=overwrite a group has none",
            groups=row_deleting,
            overwrite=late,
        )
    for group in groups:
        kinds = [aggregate.kind for aggregate in group.aggregates.values()]
        if group.name in late and Aggregate.FIRST in kinds:
            raise InvalidInput(
                "first is of the oldest version, and with on_late=overwrite ages do not count",
                group=group.name,
            )


def group_rule(
    properties: Mapping[str, str], *, apart: Collection[str], ordering: Sequence[str]
) -> GroupRule | None:
    """Build the rule from a table's properties, or from the options of a new one; None for a table
    without groups.

    Raises InvalidInput.
    """
    text, short = properties.get(GROUPS_KEY, ""), properties.get(SHORTHAND_KEY, "")
    if text and short:
        raise InvalidInput("column groups are declared once", keys=[GROUPS_KEY, SHORTHAND_KEY])
    if not text and not short:
        _reject_without_groups(properties)
        return None
    declared = parse_groups(text) if text else parse_shorthand(short)
    grouped = {name for group in declared for name in group.all_columns}
    if clash := sorted(grouped & {*apart, *ordering}):
        raise InvalidInput(
            "key, partition and the table's ordering columns are in no group", columns=clash
        )
    return GroupRule(
        declared,
        frozenset(apart),
        tuple(ordering),
        _parse_required(properties.get(JOIN_KEY) or "full", declared),
        duration_minutes(properties.get(RETENTION_KEY) or "7d", RETENTION_KEY),
        properties.get(PORTABLE_KEY) == "true",
        check_slack(properties.get(SLACK_KEY, "")),
    )


def _reject_without_groups(properties: Mapping[str, str]) -> None:
    if (properties.get(JOIN_KEY) or "full") != "full" or properties.get(PORTABLE_KEY) == "true":
        raise InvalidInput(
            "only a table with column groups has this", keys=[JOIN_KEY, PORTABLE_KEY]
        )
    if properties.get(SLACK_KEY):
        raise InvalidInput("only a table with column groups has this", key=SLACK_KEY)


def _parse_required(text: str, declared: Sequence[ColumnGroup]) -> tuple[str, ...]:
    """Return the groups that `full`, `left:a`, `right:a`, `inner` or `inner:a,b` require."""
    kind, _, listed = text.partition(":")
    names = [group.name for group in declared]
    requested = _parse_list(listed.strip("[]"))
    if unknown := sorted(set(requested) - set(names)):
        raise InvalidInput(
            "the join names groups that there are not", unknown=unknown, groups=names
        )
    if kind == "full" and not listed:
        return ()
    if kind == "inner":
        return requested or tuple(names)
    if kind == "left" and len(requested) == 1:
        return requested
    if kind == "right" and len(requested) == 1:
        if len(names) != 2:
            raise InvalidInput(
                "a right join is between two groups; use left or inner", groups=names
            )
        return tuple(name for name in names if name not in requested)
    raise InvalidInput(
        "a join is full, left:<group>, right:<group>, inner or inner:<group>,<group>", given=text
    )


def spell_out_join(text: str, required: Sequence[str]) -> str:
    """Return the join `text` with explicit group names. `inner` and `right:a` alone would mean
    other groups, also for rows of the past, when the table has more of them.
    """
    if not required or text.startswith("left:"):
        return text
    return f"inner:{','.join(required)}"


@dataclass(frozen=True, slots=True)
class GroupRule:
    """The declared groups, and the roles of the other columns of a table."""

    declared: tuple[ColumnGroup, ...]
    apart: frozenset[str]
    """Key and partition columns: of no group."""
    ordering: tuple[str, ...] = ()
    """The ordering of the columns without a group; without one their later commit wins."""
    required: tuple[str, ...] = ()
    """Groups without which a row is not shown (`hoodie.multistream.join`)."""
    tombstone_minutes: int = 7 * 24 * 60
    """How long a row of which nothing is left is remembered, so that older versions stay away."""
    is_portable: bool = False
    """Every reader may read the table: it is copy-on-write, and its base files hold merged rows."""
    slack: str = ""
    """The text of `hoodie.topn.slack`."""

    @property
    def ages(self) -> tuple[str, ...]:
        """The columns that order versions, in all groups."""
        return (*(name for group in self.declared for name in group.ordering), *self.ordering)

    @property
    def grouped(self) -> frozenset[str]:
        """The columns of declared groups, with those of their ordering."""
        return frozenset(name for group in self.declared for name in group.all_columns)

    def groups(self, columns: Collection[str]) -> tuple[ColumnGroup, ...]:
        """Return all groups of a table with these columns, first `_default` with the columns that
        have no group.
        """
        assigned = {*self.grouped, *self.apart, *self.ordering}
        rest = tuple(
            name for name in columns if name not in assigned and not name.startswith(_NO_DATA)
        )
        default = ColumnGroup(DEFAULT_GROUP, self.ordering, rest, granularity=Granularity.COLUMN)
        if not self.slack:
            return (default, *self.declared)
        return (default, *(group.with_slack(self.slack) for group in self.declared))


def _check_group(group: ColumnGroup) -> None:
    if not _NAME.fullmatch(group.name):
        raise InvalidInput("a column group is named with letters, digits and _", group=group.name)
    if not group.ordering:
        raise InvalidInput("a column group needs an ordering column", group=group.name)
    if not group.columns:
        raise InvalidInput("a column group needs columns", group=group.name)
    if reserved := [column for column in group.all_columns if column.startswith(_NO_DATA)]:
        raise InvalidInput("column names of this beginning are reserved", columns=reserved)
    for what, named in (("aggregates", group.aggregates), ("defaults", group.defaults)):
        if unknown := sorted(set(named) - set(group.columns)):
            raise InvalidInput(
                f"{what} are of the group's own columns", group=group.name, unknown=unknown
            )
    if group.null_mode is NullMode.KEEP and group.granularity is not Granularity.COLUMN:
        raise InvalidInput(
            "null_mode=keep needs granularity=column: a null that is passed over leaves the column "
            "an age of its own",
            group=group.name,
        )


def _group(declaration: Any) -> ColumnGroup:
    settings = {setting.name for setting in fields(ColumnGroup)}
    if not isinstance(declaration, dict) or not {"name", "ordering", "columns"} <= set(declaration):
        raise InvalidInput("a column group has name, ordering and columns", given=declaration)
    if not isinstance(declaration["name"], str):
        raise InvalidInput("the name of a column group is text", given=declaration["name"])
    if unknown := sorted(set(declaration) - settings):
        raise InvalidInput(
            "a column group has no such setting", unknown=unknown, known=sorted(settings)
        )
    null_mode = _member(NullMode, declaration.get("null_mode", NullMode.OVERWRITE), "null_mode")
    aggregates = _object(declaration, "aggregates")
    implied = Granularity.COLUMN if null_mode is NullMode.KEEP else Granularity.GROUP
    return ColumnGroup(
        name=declaration["name"],
        ordering=_names(declaration["ordering"], "ordering"),
        columns=_names(declaration["columns"], "columns"),
        on_late=_member(OnLate, declaration.get("on_late", OnLate.IGNORE), "on_late"),
        null_mode=null_mode,
        delete=_member(DeleteScope, declaration.get("delete", DeleteScope.GROUP), "delete"),
        granularity=_member(Granularity, declaration.get("granularity", implied), "granularity"),
        aggregates={name: parse_aggregate(text) for name, text in aggregates.items()},
        defaults=_object(declaration, "defaults"),
    )


def _object(declaration: Mapping[str, Any], key: str) -> dict[str, Any]:
    members = declaration.get(key) or {}
    if not isinstance(members, dict):
        raise InvalidInput(f"{key} is an object with a member per column", given=members)
    return members


def _names(names: Any, what: str) -> tuple[str, ...]:
    listed = [names] if isinstance(names, str) else names
    if not isinstance(listed, list) or not all(isinstance(name, str) and name for name in listed):
        raise InvalidInput(f"{what} is a list of column names", given=names)
    return tuple(listed)


def _member(kind: Any, text: Any, what: str) -> Any:
    try:
        return kind(text)
    except ValueError as error:
        allowed = [member.value for member in kind]
        raise InvalidInput(
            f"unknown {what} of a column group", given=text, allowed=allowed
        ) from error


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
