"""The definition of a new table, and its checks, which run before the first effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workers.errors import InvalidInput
from workers.files.names import check_table_name
from workers.files.record_key import check_key_type
from workers.files.time_texts import check_time_column
from workers.merge.mergers import get_merger
from workers.options.column_groups import GroupRule, group_rule
from workers.options.group_keys import PORTABLE_KEY
from workers.options.group_types import check_group_columns
from workers.options.index_kind import INDEX_KEY, IndexKind
from workers.options.option_values import boolean, choice, parse_list
from workers.options.payloads import MERGE_MODE_KEY, PARTIAL_IGNORE_DEFAULTS
from workers.options.table_keys import HASH_FIELD_KEY, MergeMode, TableType
from workers.options.top_n_request import TOP_N_KEY, build_top_n
from workers.options.writer_modes import MODE_KEY, ConcurrencyMode
from workers.schema.column_names import check_new_columns
from workers.schema.portable import check_portable
from workers.schema.table_schema import TableSchema
from workers.table.key_generators import KeyGenerator


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What `create` needs besides the options; columns by name."""

    name: str
    table_type: TableType
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    ordering: tuple[str, ...] = ()
    schema: TableSchema | None = None


def check_definition(definition: TableDefinition, values: Mapping[str, str]) -> None:
    """Check that such a table can exist under the options `values`, which include their defaults.

    Raises InvalidInput.
    """
    check_table_name(definition.name)
    if not definition.record_key:
        raise InvalidInput("a table needs a record key", table=definition.name)
    hashed = parse_list(values[HASH_FIELD_KEY])
    for field_names in (
        definition.record_key,
        definition.partition_by,
        definition.ordering,
        hashed,
    ):
        if len(set(field_names)) < len(field_names):
            raise InvalidInput("a column is named twice", given=field_names)
    if not set(hashed) <= set(definition.record_key):
        raise InvalidInput(
            "only fields of the record key choose the bucket",
            key=HASH_FIELD_KEY,
            given=hashed,
            record_key=definition.record_key,
        )
    groups = group_rule(
        values,
        apart=(*definition.record_key, *definition.partition_by),
        ordering=definition.ordering,
    )
    if len(definition.ordering) > 1:
        raise InvalidInput(
            "at most one ordering field: make one column of them that sorts the same way",
            given=definition.ordering,
        )
    if boolean(values, "sluice.portable") and values["sluice.record.merger"]:
        raise InvalidInput("a portable table has no merger of its own: no other reader has it")
    if values["sluice.record.merger"]:
        get_merger(values["sluice.record.merger"])
    if groups is not None:
        check_grouped_table(definition, values, groups)
    _check_mode(definition, values)
    top_n = build_top_n(values[TOP_N_KEY]) if values[TOP_N_KEY] else None
    if definition.schema is not None:
        names = set(definition.schema.field_names)
        check_new_columns(definition.schema.field_names)
        if top_n is not None:
            top_n.check(definition.schema.arrow)
        named = (*definition.record_key, *definition.partition_by, *definition.ordering)
        missing = [column for column in named if column not in names]
        if missing:
            raise InvalidInput("columns are not in the schema", missing=missing)
        for field in definition.record_key:
            check_key_type(field, definition.schema.arrow.field(field).type)
        if boolean(values, "sluice.portable"):
            check_portable(definition.schema)
    if values["hoodie.table.partial.update.mode"] == PARTIAL_IGNORE_DEFAULTS:
        _check_partial_updates(definition, values)


def _check_mode(definition: TableDefinition, values: Mapping[str, str]) -> None:
    """A mode that none of the table's writers could have is refused with the table."""
    if not values[MODE_KEY]:
        return
    mode = choice(values, MODE_KEY, ConcurrencyMode)
    if mode is not ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL:
        return
    if definition.table_type is not TableType.MERGE_ON_READ:
        raise InvalidInput(
            "non-blocking concurrency control needs a MERGE_ON_READ table", key=MODE_KEY
        )
    if IndexKind(values[INDEX_KEY]).looks_up:
        raise InvalidInput(
            "non-blocking concurrency control needs the bucket index",
            key=MODE_KEY,
            index=values[INDEX_KEY],
        )


def _check_partial_updates(definition: TableDefinition, values: Mapping[str, str]) -> None:
    """Check that the table can merge partial updates. By commit time the later value always wins.
    By event time a base file stores one ordering value per row, so a copy-on-write table would lose
    those of the columns at once.
    """
    if values[MERGE_MODE_KEY] == MergeMode.COMMIT_TIME_ORDERING:
        return
    if definition.table_type is not TableType.MERGE_ON_READ:
        raise InvalidInput(
            "partial updates by event time need a MERGE_ON_READ table; by commit time "
            f"({MERGE_MODE_KEY}={MergeMode.COMMIT_TIME_ORDERING}) every table takes them"
        )
    if not definition.ordering:
        raise InvalidInput(
            "partial updates by event time need an ordering field; without one set "
            f"{MERGE_MODE_KEY}={MergeMode.COMMIT_TIME_ORDERING}"
        )


def check_times(definition: TableDefinition, generator: KeyGenerator) -> None:
    """Check that columns that partition by time hold times of the kind that the key generator
    reads.

    Raises InvalidInput.
    """
    if generator.rule is None or definition.schema is None:
        return
    for name in generator.times:
        check_time_column(generator.rule, name, definition.schema.arrow.field(name).type)


def check_grouped_table(
    definition: TableDefinition, values: Mapping[str, str], groups: GroupRule
) -> None:
    """Check that the definition and the options of a new table do not contradict its column groups.
    Raises InvalidInput.
    """
    if definition.schema is None:
        raise InvalidInput("a table with column groups needs a schema", table=definition.name)
    if values["sluice.record.merger"] or values["hoodie.table.partial.update.mode"]:
        raise InvalidInput(
            "column groups come with a merge of their own: no merger, no update mode"
        )
    if values["hoodie.record.merge.mode"]:
        raise InvalidInput("the merge mode of a table with column groups is not chosen")
    if boolean(values, "sluice.portable"):
        raise InvalidInput(f"other readers need {PORTABLE_KEY}=true to read column groups")
    if groups.is_portable and definition.table_type is TableType.MERGE_ON_READ:
        raise InvalidInput(
            "a portable table with column groups is COPY_ON_WRITE: no other reader merges its logs"
        )
    check_group_columns(groups, definition.schema.declared)
