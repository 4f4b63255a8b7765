"""The input of an executor of a rewrite: the plan's context, and its own slice."""

from __future__ import annotations

from dataclasses import dataclass, field

from workers.clock import InstantTime
from workers.files.compression import Compression
from workers.merge.rule import MergeRule
from workers.options.table_options import TableConfig
from workers.processes import ProcessName
from workers.schema.table_schema import TableSchema
from workers.table_services.row_order import RowOrder
from workers.timeline.service_plans import PlannedSlice


@dataclass(frozen=True, slots=True)
class RewriteContext:
    """Everything that an executor needs; small and picklable."""

    location: str
    instant: InstantTime
    attempt: str
    config: TableConfig
    schema: TableSchema
    """The table's when the plan was taken up: every slice is conformed to it."""
    compression: Compression
    order: RowOrder | None = None
    """None keeps the order of the slice."""
    begun_in: ProcessName | None = None
    """Whose heartbeat names the attempt. Others who write are noted while they do."""
    rule: MergeRule = field(init=False)
    """Made here and shipped: executors need not have registered the table's merger."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", MergeRule.of(self.config))


@dataclass(frozen=True, slots=True)
class GroupRewrite:
    """One file slice of a plan, and where its rows go."""

    number: int
    """Of this slice within its plan."""
    slice: PlannedSlice
    file_id: str
    """The file group that the new base file belongs to."""

    @property
    def is_new_group(self) -> bool:
        """True if the rows leave their file group, as in a clustering."""
        return self.file_id != self.slice.file_id
