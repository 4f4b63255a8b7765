"""What a statement that changes rows does about required columns of no group, in a table with
column groups: nobody but Sluice reads its logs, so they are left out wherever they can be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from workers.options.table_options import TableConfig


def leaves_out_required(
    config: TableConfig, required: Collection[str], written: Iterable[str]
) -> bool:
    """Whether changed rows say nothing of a column that every row has."""
    return config.groups is not None and not set(required) <= set(written)


def owed_beside_new(
    config: TableConfig, required: Collection[str], written: Iterable[str], given: Iterable[str]
) -> tuple[str, ...]:
    """Those of the columns `given` to new rows that changed rows of the same batch have to bring.

    Where columns of no group have ages, none is given to these: so they say nothing.
    """
    if config.groups is None:
        return ()
    there = set(written)
    return tuple(name for name in given if name in required and name not in there)
