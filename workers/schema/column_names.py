"""The rules for names of columns: none may look like one of Sluice's or Hudi's own, which are
stored next to them in batches and files, and no two may be equal for engines that ignore case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from workers.errors import InvalidInput
from workers.files.meta_columns import META_COLUMNS
from workers.files.names import check_column_name

OWN_PREFIXES: Final = ("_ms_", "_sluice_")
"""Of columns that rows carry on their way, and of states in files of tables with column groups."""


def check_new_column(name: str) -> None:
    """Check the name of a column that a table is to have from now on. Raises InvalidInput."""
    check_column_name(name)
    if name.startswith(OWN_PREFIXES) or name in META_COLUMNS:
        raise InvalidInput(
            "a column of this name would be taken for one of Sluice's or Hudi's own; choose "
            "another name",
            column=name,
            reserved=[*(f"{prefix}..." for prefix in OWN_PREFIXES), *META_COLUMNS],
        )


def check_new_columns(names: Sequence[str], table_names: Sequence[str] = ()) -> None:
    """Check those of `names` that are not among the `table_names`, and that all of them are
    distinct within one table. Raises InvalidInput.
    """
    known_names = set(table_names)
    new_names = [name for name in names if name not in known_names]
    for name in new_names:
        check_new_column(name)
    check_case(names)
    check_case((*table_names, *new_names))


def check_case(names: Iterable[str]) -> None:
    """Check that no two names are one for engines that ignore case. Raises InvalidInput for the
    first two of `names` that differ only by case.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise InvalidInput("columns differ only by case", column=name, other=other)
