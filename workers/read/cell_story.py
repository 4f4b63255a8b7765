"""Why a cell of a joined row is null: which group owns it, what that group last said of the key.

Reads the file slices of the key's bucket, of one partition or of a bounded number of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.files.meta_columns import COMMIT_TIME, META_COLUMNS, RECORD_KEY
from workers.files.names import parse_bucket_number
from workers.index.bucket import bucket_of_keys
from workers.merge.group_merge import apply_key_deletes, merge_states
from workers.merge.group_state import GONE, ROW_GONE, SET, column_version
from workers.options.column_groups import DEFAULT_GROUP, ColumnGroup, GroupRule
from workers.options.group_settings import OnLate
from workers.read.log_versions import LogReader
from workers.read.states import base_states
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.table.view import FileSystemView

SLICES_MAX = 16
VERSIONS_MAX = 50
KEY_CHARS_MAX = 1_000

Verdict = Literal["set", "null", "not_brought", "never", "deleted", "row_deleted", "erased"]
"""What a group, or a column of it, is for a key: `null` was said to be so, `not_brought` is a
column about which the group's writes were silent, `erased` went by a delete of the key.
"""


@dataclass(frozen=True, slots=True)
class Version:
    """What one commit, or the base file that it was compacted into, says of a group."""

    commit: InstantTime
    is_in_base: bool
    """If so, the commit is the newest of the row, and the group's own may be older."""
    age: tuple[str, ...]
    is_delete: bool
    counts: bool
    """Whether it is the current one; others were replaced, or came late."""


@dataclass(frozen=True, slots=True)
class GroupStory:
    """What a group says of one key, and by which commits it came to that."""

    group: str
    ordering: tuple[str, ...]
    verdict: Verdict
    age: tuple[str, ...]
    """The ordering values of the current version, be it a delete."""
    versions: tuple[Version, ...]
    """Oldest first."""
    takes_any_age: bool
    """The next write counts whatever its age."""

    @property
    def current_version(self) -> Version | None:
        """The version that counts; None where no group's write does, or it is older than those
        listed.
        """
        return next((one for one in reversed(self.versions) if one.counts), None)


@dataclass(frozen=True, slots=True)
class CellStory:
    """What one partition's file group knows of a key: the asked column's group, and all groups."""

    key: str
    partition: str
    file_id: str
    column: str
    """Empty when the whole row was asked for."""
    owner: str
    """The group of the column."""
    verdict: Verdict
    groups: tuple[GroupStory, ...]


def explain_cell(
    table: Table, key: str, *, column: str = "", partition: str | None = None
) -> tuple[CellStory, ...]:
    """One story per partition that knows the key; none when no file does.

    Raises InvalidInput for a table without groups, an unknown column, and a key that more
    partitions than `SLICES_MAX` could hold when none is named.
    """
    rule, schema = table.config.groups, load_schema(table)
    if rule is None or schema is None:
        raise InvalidInput("only a table with column groups has this", table=table.config.name)
    if not key or len(key) > KEY_CHARS_MAX:
        raise InvalidInput("a record key is a text of sensible length", key=key[:80])
    owner = _owner(rule, schema, column)
    slices = _slices_of(table, key, partition)
    stories = [_story(table, rule, schema, one, key, column, owner) for one in slices]
    return tuple(one for one in stories if one is not None)


def _owner(rule: GroupRule, schema: TableSchema, column: str) -> ColumnGroup | None:
    if not column:
        return None
    if column not in schema.field_names:
        raise InvalidInput("the table has no such column", column=column)
    for group in rule.groups(schema.field_names):
        if column in group.all_columns:
            return group
    raise InvalidInput("key and partition columns are in no group, and never null", column=column)


def _slices_of(table: Table, key: str, partition: str | None) -> list[FileSlice]:
    config = table.config
    fields = config.index_fields if config.names_key_fields else None
    plain = None if config.names_key_fields else config.record_key[0]
    (bucket,) = bucket_of_keys(
        pa.array([key]), buckets=config.buckets, index_fields=fields, key_field=plain
    )
    slices = [
        one
        for one in FileSystemView.load(table).slices
        if parse_bucket_number(one.file_id) == int(bucket) and partition in (None, one.partition)
    ]
    if len(slices) > SLICES_MAX:
        raise InvalidInput(
            "the key may lie in many partitions: name one", partitions=len(slices), most=SLICES_MAX
        )
    return slices


def _story(
    table: Table,
    rule: GroupRule,
    schema: TableSchema,
    slice_: FileSlice,
    key: str,
    column: str,
    owner: ColumnGroup | None,
) -> CellStory | None:
    wanted = {*META_COLUMNS, *([column] if column else [])}
    base = _base_row(table, rule, schema, slice_, key, wanted)
    logs = LogReader(table.storage, table.config, schema, wanted).versions(slice_)
    parts = [one for one in (base, _of_key(logs, key)) if one is not None and one.num_rows]
    if not parts:
        return None
    groups = rule.groups(schema.field_names)
    versions = apply_key_deletes(pa.concat_tables(parts, promote_options="default"), groups)
    name = owner.name if owner is not None else ""
    if not versions.num_rows:
        return CellStory(key, slice_.partition, slice_.file_id, column, name, "erased", ())
    merged = merge_states(versions, rule)
    in_base = 0 if base is None else base.num_rows
    stories = tuple(
        _group_story(group, number, versions, merged, in_base, column)
        for number, group in enumerate(groups)
        if group.name != DEFAULT_GROUP or group.columns
    )
    own = next((one for one in stories if one.group == name), None)
    verdict = own.verdict if own is not None else _row_verdict(stories)
    return CellStory(key, slice_.partition, slice_.file_id, column, name, verdict, stories)


def _row_verdict(stories: tuple[GroupStory, ...]) -> Verdict:
    return "set" if any(one.verdict == "set" for one in stories) else "deleted"


def _base_row(
    table: Table,
    rule: GroupRule,
    schema: TableSchema,
    slice_: FileSlice,
    key: str,
    wanted: set[str],
) -> pa.Table | None:
    if slice_.base_file is None:
        return None
    columns = {*wanted, *rule.ages}
    for part in base_states(table.storage, slice_.base_file, rule, schema, columns):
        row = _of_key(part, key)
        if row is not None and row.num_rows:
            return row
    return None


def _of_key(rows: pa.Table | None, key: str) -> pa.Table | None:
    if rows is None:
        return None
    has_key: Any = pc.equal(rows.column(RECORD_KEY), pa.scalar(key))
    return rows.filter(has_key)


def _group_story(
    group: ColumnGroup,
    number: int,
    versions: pa.Table,
    merged: pa.Table,
    in_base: int,
    column: str,
) -> GroupStory:
    bit = 1 << number
    age = _age(merged, group, 0)
    is_set = bool((merged.column(SET)[0].as_py() or 0) & bit)
    is_gone = bool((merged.column(GONE)[0].as_py() or 0) & bit)
    group_versions = [
        _version(versions, at, group, bit, in_base)
        for at in range(versions.num_rows)
        if (versions.column(SET)[at].as_py() or 0) & bit
    ]
    current = max(
        (
            at
            for at, one in enumerate(group_versions)
            if is_set and one.age == age and one.is_delete == is_gone
        ),
        default=None,
    )
    marked = tuple(
        Version(one.commit, one.is_in_base, one.age, one.is_delete, at == current)
        for at, one in enumerate(group_versions)
    )[-VERSIONS_MAX:]
    verdict = _verdict(group, merged, column, is_set=is_set, is_gone=is_gone)
    if verdict == "row_deleted":
        age = (str(merged.column(ROW_GONE)[0].as_py()),)
    takes_any = not group.ordering or group.on_late is OnLate.OVERWRITE or verdict == "never"
    return GroupStory(group.name, group.ordering, verdict, age, marked, takes_any)


def _verdict(
    group: ColumnGroup, merged: pa.Table, column: str, *, is_set: bool, is_gone: bool
) -> Verdict:
    if is_gone:
        return "deleted"
    if not is_set:
        return "row_deleted" if _cell(merged, ROW_GONE) is not None else "never"
    if column not in group.all_columns or _cell(merged, column) is not None:
        return "set"
    is_silent = group.is_versioned(column) and _cell(merged, column_version(column, 0)) is None
    return "not_brought" if is_silent else "null"


def _cell(rows: pa.Table, name: str) -> Any:
    return rows.column(name)[0].as_py() if name in rows.column_names else None


def _version(versions: pa.Table, at: int, group: ColumnGroup, bit: int, in_base: int) -> Version:
    is_delete = bool((versions.column(GONE)[at].as_py() or 0) & bit)
    commit = str(versions.column(COMMIT_TIME)[at].as_py() or "")
    return Version(commit, at < in_base, _age(versions, group, at), is_delete, False)


def _age(rows: pa.Table, group: ColumnGroup, at: int) -> tuple[str, ...]:
    values = [rows.column(name)[at].as_py() for name in group.ordering if name in rows.column_names]
    return tuple("" if one is None else _text(one) for one in values)


def _text(value: Any) -> str:
    """As commits spell ordering values."""
    return str(value.isoformat() if hasattr(value, "isoformat") else value)
