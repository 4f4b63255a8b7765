"""The rows of one file slice that a scan wants, with as little read as its shape allows.

- Without logs: row groups whose statistics cannot meet the filter stay unread; of the others the
  columns of the filter are read first, and the rest only where a row is left.
- With logs, whole rows: keys (and ordering values where the footer leaves the contest open) decide
  which base rows live, and only these are filtered and handed on.
- Rows that are folded from several versions are merged whole and then filtered.

Leaving out never changes an answer: whatever is read is filtered row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from workers.files.base_file import PART_ROWS
from workers.files.base_parts import OpenBaseFile, open_base_file
from workers.files.constant_columns import decode_texts
from workers.files.log_block import AvroData, Deletes, ParquetData
from workers.merge.merge import select_winners
from workers.merge.rule import MergeRule
from workers.merge.versions import Positions
from workers.options.table_options import TableConfig
from workers.read.completed_rows import needed_columns
from workers.read.conformed import conformed
from workers.read.contest import Contest, RunContest
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
"""Of row groups as they were before compression: of a larger one everything is read at once, batch
by batch, so that what the filter keeps of some columns need not wait in memory for the others.
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
            # A limit often needs the first row group only, so it is read alone.
            kept = self._kept(base)
            if not self._is_filtering:
                for run in filter(None, (kept[:1], kept[1:])):
                    yield from self._read(base, slice_, self.columns, run)
                return
            if len(kept) > _GROUPS_MAX:
                for part in self._read(base, slice_, self.names, kept):
                    yield self.filtered(part)
                return
            for run in (kept[:1], *_runs(base.footer, kept[1:])):
                yield from self._picked(base, slice_, run, (), self.filtered)

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
        verdicts = self.storage.cache.of_kind(Verdicts)
        verdict = verdicts.of(key)
        deciding = {ordering} if ordering and verdict is None else set()
        newer = self._reader({*self.names, *deciding, *flags}).versions_of(blocks, slice_)
        assert newer is not None, slice_
        contest = Contest(newer, ordering, verdict)
        if base is not None:
            contest.begin(base.footer, base.stored)
            yield from self._of_contested_base(base, slice_, contest)
        yield self.filtered(select_winners(newer, contest.kept()))
        if (judged := contest.judged()) is not None:
            verdicts.keep(key, judged)

    def _of_contested_base(
        self, base: OpenBaseFile, slice_: FileSlice, contest: Contest
    ) -> Iterator[pa.Table]:
        kept = set(self._kept(base))
        for run in _runs(base.footer, range(base.footer.num_row_groups), kept):
            if run[0] in kept:
                survivors = partial(self._survivors, contest.of_run(run))
                yield from self._picked(base, slice_, run, contest.deciding, survivors)
            elif contest.is_open:  # Its rows are not wanted, and may be greater than the logs'.
                at = contest.of_run(run)
                for part in self._read(base, slice_, contest.deciding, run):
                    at.dead(part)

    def _survivors(self, contest: RunContest, rows: pa.Table) -> pa.Table:
        dead = contest.dead(rows)
        # Filtering a column costs as much as reading it, and the keys are compared by now.
        names = {*self.names, _ROW}
        wanted = [name for name in rows.column_names if name in names]
        rows = rows.select(wanted)
        return self.filtered(rows.filter(pa.array(~dead)) if dead.any() else rows)

    def _picked(
        self,
        base: OpenBaseFile,
        slice_: FileSlice,
        run: list[int],
        deciding: Collection[str],
        pick: _Pick,
    ) -> Iterator[pa.Table]:
        """What `pick` takes of a run of row groups. It is shown the `deciding` columns and those of
        the filter; where there is a filter the others are read for what it took.
        """
        first = {*deciding, *(self.predicate.columns if self.predicate else ())}
        late = self.names - first
        is_large = _size(base.footer, run) > _LATE_BYTES_MAX
        reads_twice = self._is_filtering and late and first and not is_large
        waiting: list[pa.Table] = []
        for part in base.parts(self._stored(first if reads_twice else {*first, *late}), run):
            rows = pick(self._number_rows(part, slice_, first))
            if reads_twice:
                waiting.append(rows)
            else:
                yield self._with_late(rows, part, slice_, late)
        if any(rows.num_rows for rows in waiting):
            rest = base.parts(self._stored(late), run)
            for rows, part in zip(waiting, rest, strict=True):
                if rows.num_rows:
                    yield self._with_late(rows, part, slice_, late)

    def _number_rows(self, part: pa.Table, slice_: FileSlice, names: Collection[str]) -> pa.Table:
        """These columns of `part`, and the place of each row in it."""
        numbers = pa.table({_ROW: np.arange(part.num_rows)})
        return _beside(self._finish_rows(part, slice_, names), numbers) if names else numbers

    def _with_late(
        self, rows: pa.Table, part: pa.Table, slice_: FileSlice, late: Collection[str]
    ) -> pa.Table:
        """Return `rows` of `part` with the other columns. Only now are texts decoded."""
        numbers = rows.column(_ROW)
        rows = rows.drop([_ROW])
        if not late:
            return rows
        others = self._finish_rows(_take_rows(part, numbers.to_numpy()), slice_, late)
        return _beside(rows, others) if rows.num_columns else others

    def _read(
        self, base: OpenBaseFile, slice_: FileSlice, names: Collection[str], numbers: list[int]
    ) -> Iterator[pa.Table]:
        for part in base.parts(self._stored(names), numbers):
            yield self._finish_rows(part, slice_, names)

    def _stored(self, names: Collection[str]) -> Collection[str]:
        stored = needed_columns(self.config, names)
        assert stored is not None, names
        return stored

    def _finish_rows(self, part: pa.Table, slice_: FileSlice, names: Collection[str]) -> pa.Table:
        """These columns of rows as their base file has them."""
        stored = self._stored(names)
        own = part.select([name for name in part.column_names if name in stored])
        whole = completed_base(decode_texts(own), self.config, self.schema, slice_)
        return conformed(whole, self.schema, names)

    def _kept(self, base: OpenBaseFile) -> list[int]:
        pruner = self.pruner
        if not pruner.columns:
            return list(range(base.footer.num_row_groups))
        return pruner.kept(known_by(base.footer, pruner.columns))

    def _reader(self, columns: Collection[str]) -> LogReader:
        return LogReader(self.storage, self.config, self.schema, columns)


def _runs(
    footer: pq.FileMetaData, numbers: Iterable[int], to_read: Collection[int] = ()
) -> Iterator[list[int]]:
    """Row groups that are read together: few rows at a time cost more than they save. A run is of
    groups that are all in `to_read`, or all not.
    """
    run: list[int] = []
    rows = size = 0
    for number in numbers:
        group = footer.row_group(number)
        rows, size = rows + group.num_rows, size + group.total_byte_size
        is_over = rows > PART_ROWS or size > _LATE_BYTES_MAX
        if run and (is_over or (number in to_read) != (run[0] in to_read)):
            yield run
            run, rows, size = [], group.num_rows, group.total_byte_size
        run.append(number)
    if run:
        yield run


def _size(footer: pq.FileMetaData, numbers: Sequence[int]) -> int:
    return sum(footer.row_group(number).total_byte_size for number in numbers)


def _is_partial(block: _Block) -> bool:
    return not isinstance(block, Deletes) and block.is_partial


def _take_rows(part: pa.Table, numbers: Positions) -> pa.Table:
    """The rows at these places, which ascend."""
    if len(numbers) == part.num_rows:
        return part
    if 2 * len(numbers) < part.num_rows:  # Arrow takes from one dictionary only.
        return part.unify_dictionaries().take(numbers)
    mask = np.zeros(part.num_rows, np.bool_)
    mask[numbers] = True
    return part.filter(pa.array(mask))


def _beside(left: pa.Table, right: pa.Table) -> pa.Table:
    schema = pa.schema([*left.schema, *right.schema])
    return pa.table([*left.columns, *right.columns], schema=schema)
