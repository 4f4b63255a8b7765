"""How the versions of one key become one row: what a table's settings say about it."""

from __future__ import annotations

from dataclasses import dataclass

from workers.merge.mergers import Merger, merger_named
from workers.options.column_groups import GroupRule
from workers.options.table_options import TableConfig


@dataclass(frozen=True, slots=True)
class MergeRule:
    """Goes from a driver to its executors, the merger's function with it."""

    ordering_field: str | None
    """None: the later version wins whatever it holds."""
    is_partial: bool = False
    merger: Merger | None = None
    """Merges whole rows of one key instead of choosing one of them."""
    groups: GroupRule | None = None
    """Rows are states, merged group by group."""

    @classmethod
    def of(cls, config: TableConfig) -> MergeRule:
        """The rule by which rows of this table are merged. Raises UnsupportedTable for a merger
        that this process has not registered.
        """
        merger = merger_named(config.merger) if config.merger else None
        return cls(config.ordering_field, config.is_partial_update, merger, config.groups)

    @property
    def is_folding(self) -> bool:
        """A row may come from several versions, so choosing one of them is not enough."""
        return self.is_partial or self.merger is not None or self.groups is not None
