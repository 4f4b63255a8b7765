"""Checks of the definition of a table with column groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workers.errors import InvalidInput
from workers.options.column_groups import GroupRule
from workers.options.group_keys import PORTABLE_KEY
from workers.options.group_types import check_group_columns
from workers.options.option_values import boolean
from workers.options.table_keys import TableType

if TYPE_CHECKING:
    from workers.table.definition import TableDefinition


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
