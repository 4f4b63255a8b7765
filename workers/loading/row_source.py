"""Rows that are decoded while they are read, for every format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from workers.loading.findings import LoadCounts


@runtime_checkable
class RowSource(Protocol):
    """Rows of files, decoded while they are iterated; each iteration starts from the beginning."""

    @property
    def schema(self) -> pa.Schema:
        """Columns as they will be stored."""
        ...

    @property
    def counts(self) -> LoadCounts:
        """Numbers of the last iteration, whole when it has ended."""
        ...

    @property
    def is_all_known(self) -> bool:
        """Types of new columns come from all rows, and not from the first ones only."""
        ...

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True)
class FollowedRows:
    """See `RowSource`: some columns of others, each batch of which is reported."""

    rows: RowSource
    names: tuple[str, ...]
    on_batch: Callable[[RowSource], None]

    @property
    def schema(self) -> pa.Schema:
        """Return the columns in their order."""
        return pa.schema([self.rows.schema.field(name) for name in self.names])

    @property
    def counts(self) -> LoadCounts:
        """Return that of all columns."""
        return self.rows.counts

    @property
    def is_all_known(self) -> bool:
        """Return that of all columns."""
        return self.rows.is_all_known

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches with these columns."""
        for batch in self.rows:
            self.on_batch(self.rows)
            yield batch.select(list(self.names))
