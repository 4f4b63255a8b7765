"""The rows of one file slice that a scan wants, with as little read as its shape allows.

- Without logs: row groups whose statistics cannot meet the filter stay unread; of the others the
  columns of the filter are read first, and the rest only where a row is left.
- With logs, whole rows: keys (and ordering values where the footer leaves the contest open) decide
  which base rows live, and only these are filtered and handed on.
- Rows that are folded from several versions are merged whole and then filtered.

Leaving out never changes an answer: whatever is read is filtered row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from workers.files.base_parts import OpenBaseFile, open_base_file
from workers.files.log_block import AvroData, Deletes, ParquetData
from workers.merge.merge import rows_kept
from workers.merge.rule import MergeRule
from workers.options.table_options import TableConfig
from workers.read.completed_rows import needed_columns
from workers.read.conformed import conformed
from workers.read.contest import Contest, GroupContest
from workers.read.file_slice import completed_base, merge_slice_batches, slice_schema
from workers.read.log_versions import IS_DELETED, LogReader
from workers.read.matching_rows import matching
from workers.read.predicate import Predicate
from workers.read.row_groups import RowGroupPruner
from workers.read.statistics import known_by
from workers.read.verdicts import Verdicts
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.file_group import FileSlice

_ROW: Final = "_sluice_row"
_LATE_BYTES_MAX: Final = 128 << 20
"""Of a row group as it was before compression: of a larger one everything is read at once, batch by
batch, so that what the filter keeps of some columns need not wait in memory for the others.
"""
_GROUPS_MAX: Final = 2_000
"""With more row groups in a file each costs more than it can save: it is read in one go."""
_Block = ParquetData | AvroData | Deletes
_Pick = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True, slots=True)
class SliceScan:
    """Columns and rows that are wanted of slices of one table."""

    storage: Storage
    config: TableConfig
    schema: TableSchema
    columns: tuple[str, ...]
    """In this order; meta columns among them or not."""
    predicate: Predicate | None
    shipped_rule: MergeRule | None = None
    """For processes that have not registered the table's merger."""

    def batches(self, slice_: FileSlice) -> Iterator[pa.RecordBatch]:
        """None of them is empty. Raises NotFound, MalformedTable, UnsupportedTable."""
        for rows in self._parts(slice_):
            # Arrow makes empty ones of empty pieces, such as what a filter left of another batch.
            yield from filter(len, rows.select(list(self.columns)).to_batches())

    def filtered(self, rows: pa.Table) -> pa.Table:
        """Those of merged `rows` that are wanted."""
        if self.predicate is None or not self._is_filtering:
            return rows
        return matching(rows, self.predicate.expression)

    @property
    def rule(self) -> MergeRule:
        """How versions of a row are merged. Raises UnsupportedTable for a merger that this process
        has not registered: only rows that have logs need it.
        """
        return self.shipped_rule or MergeRule.of(self.config)

    @property
    def names(self) -> set[str]:
        """The columns to read: those that are wanted, and those of the filter."""
        return {*self.columns, *(self.predicate.columns if self.predicate else ())}

    @property
    def pruner(self) -> RowGroupPruner:
        """Leaves out row groups that hold nothing that is wanted."""
        schema = slice_schema(self.schema)
        if self.predicate is None:
            return RowGroupPruner(schema, ())
        return RowGroupPruner(schema, self.predicate.conditions, self.predicate.opaque)

    @property
    def _is_filtering(self) -> bool:
        """True if rows are filtered; otherwise the predicate is a hint at most."""
        return self.predicate is not None and self.predicate.expression is not None

    def _parts(self, slice_: FileSlice) -> Iterator[pa.Table]:
        if self.config.groups is not None:
            return self._merged(slice_)
        blocks = self._reader(frozenset()).blocks(slice_)
        if not blocks:
            return self._of_base(slice_)
        if self.rule.is_folding or any(_is_partial(one) for one in blocks):
            return self._merged(slice_)
        return self._of_base_and_logs(slice_, blocks)

    def _merged(self, slice_: FileSlice) -> Iterator[pa.Table]:
        for batch in merge_slice_batches(
            self.storage, self.config, self.schema, slice_, columns=self.names, rule=self.rule
        ):
            yield self.filtered(pa.Table.from_batches([batch]))

    def _of_base(self, slice_: FileSlice) -> Iterator[pa.Table]:
        if slice_.base_file is None:
            return
        with open_base_file(self.storage, slice_.base_file) as base:
            kept = self._kept(base)
            if not self._is_filtering:
                yield from self._read(base, slice_, self.columns, kept)
                return
            if len(kept) > _GROUPS_MAX:
                for part in self._read(base, slice_, self.names, kept):
                    yield self.filtered(part)
                return
            for number in kept:
                yield from self._picked(base, slice_, number, (), self.filtered)

    def _of_base_and_logs(self, slice_: FileSlice, blocks: Sequence[_Block]) -> Iterator[pa.Table]:
        if slice_.base_file is None:
            yield from self._of_logs(slice_, blocks, None)
            return
        with open_base_file(self.storage, slice_.base_file) as base:
            if base.footer.num_row_groups > _GROUPS_MAX:
                yield from self._merged(slice_)
            else:
                yield from self._of_logs(slice_, blocks, base)

    def _of_logs(
        self, slice_: FileSlice, blocks: Sequence[_Block], base: OpenBaseFile | None
    ) -> Iterator[pa.Table]:
        ordering = self.rule.ordering_field
        flags = {IS_DELETED} & set(self.schema.field_names)
        kind = "" if ordering is None else str(self.schema.arrow.field(ordering).type)
        key = (slice_, ordering, kind)
        verdicts = self.storage.remembered.of_kind(Verdicts)
        verdict = verdicts.of(key)
        deciding = {ordering} if ordering and verdict is None else set()
        newer = self._reader({*self.names, *deciding, *flags}).versions_of(blocks, slice_)
        assert newer is not None, slice_
        contest = Contest(newer, ordering, verdict)
        if base is not None:
            contest.begin(base.footer, base.stored)
            yield from self._of_contested_base(base, slice_, contest)
        yield self.filtered(rows_kept(newer, contest.kept()))
        if (judged := contest.judged()) is not None:
            verdicts.keep(key, judged)

    def _of_contested_base(
        self, base: OpenBaseFile, slice_: FileSlice, contest: Contest
    ) -> Iterator[pa.Table]:
        kept = set(self._kept(base))
        for number in range(base.footer.num_row_groups):
            if number in kept:
                at = contest.of_group(number)
                survivors = partial(self._survivors, at)
                yield from self._picked(base, slice_, number, contest.deciding, survivors)
            elif contest.is_open:  # Its rows are not wanted, and may be greater than the logs'.
                at = contest.of_group(number)
                for part in self._read(base, slice_, contest.deciding, [number]):
                    at.dead(part)

    def _survivors(self, contest: GroupContest, rows: pa.Table) -> pa.Table:
        dead = contest.dead(rows)
        # Filtering a column costs as much as reading it: keys have had their say.
        names = {*self.names, _ROW}
        wanted = [name for name in rows.column_names if name in names]
        rows = rows.select(wanted)
        return self.filtered(rows.filter(pa.array(~dead)) if dead.any() else rows)

    def _picked(
        self,
        base: OpenBaseFile,
        slice_: FileSlice,
        number: int,
        deciding: Collection[str],
        pick: _Pick,
    ) -> Iterator[pa.Table]:
        """What `pick` takes of a row group. It is shown the `deciding` columns and those of the
        filter; where there is a filter the others are read for what it took.
        """
        first = {*deciding, *(self.predicate.columns if self.predicate else ())}
        late = self.names - first
        is_large = base.footer.row_group(number).total_byte_size > _LATE_BYTES_MAX
        if not self._is_filtering or not late or not first or is_large:
            for part in self._read(base, slice_, {*first, *late}, [number]):
                yield pick(part)
            return
        picked = [pick(_numbered(part)) for part in self._read(base, slice_, first, [number])]
        if not any(one.num_rows for one in picked):
            return
        rest = self._read(base, slice_, late, [number])
        for rows, others in zip(picked, rest, strict=True):
            if rows.num_rows:
                yield _beside(rows, others.take(rows.column(_ROW)))

    def _read(
        self, base: OpenBaseFile, slice_: FileSlice, names: Collection[str], numbers: list[int]
    ) -> Iterator[pa.Table]:
        stored = needed_columns(self.config, names)
        assert stored is not None, names
        for part in base.parts(stored, numbers):
            whole = completed_base(part, self.config, self.schema, slice_)
            yield conformed(whole, self.schema, names)

    def _kept(self, base: OpenBaseFile) -> list[int]:
        pruner = self.pruner
        if not pruner.columns:
            return list(range(base.footer.num_row_groups))
        return pruner.kept(known_by(base.footer, pruner.columns))

    def _reader(self, columns: Collection[str]) -> LogReader:
        return LogReader(self.storage, self.config, self.schema, columns)


def _is_partial(block: _Block) -> bool:
    return not isinstance(block, Deletes) and block.is_partial


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column(_ROW, pa.array(np.arange(rows.num_rows)))


def _beside(left: pa.Table, right: pa.Table) -> pa.Table:
    schema = pa.schema([*left.schema, *right.schema])
    return pa.table([*left.columns, *right.columns], schema=schema)
