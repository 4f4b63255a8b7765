"""The rule by which the versions of one key become one row, from a table's settings."""

from __future__ import annotations

from dataclasses import dataclass

from workers.merge.mergers import Merger, get_merger
from workers.options.column_groups import GroupRule
from workers.options.table_options import TableConfig


@dataclass(frozen=True, slots=True)
class MergeRule:
    """The merge rule of a table. A driver sends it to its executors, with the merger's function."""

    ordering_field: str | None
    """None: the later version wins whatever it holds."""
    is_partial: bool = False
    merger: Merger | None = None
    """Merges whole rows of one key instead of choosing one of them."""
    groups: GroupRule | None = None
    """Rows are states, merged group by group."""

    @classmethod
    def of(cls, config: TableConfig) -> MergeRule:
        """Build the rule of a table. Raises UnsupportedTable for a merger that this process has not
        registered.
        """
        merger = get_merger(config.merger) if config.merger else None
        return cls(config.ordering_field, config.is_partial_update, merger, config.groups)

    @property
    def is_folding(self) -> bool:
        """True if a row may come from several versions, so that choosing one of them is not
        enough.
        """
        return self.is_partial or self.merger is not None or self.groups is not None
