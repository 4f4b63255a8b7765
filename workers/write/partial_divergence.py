"""Rows of partial updates as other engines fold them, compared with ours, for some keys of a file
group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import NotFound
from workers.files.meta_columns import RECORD_KEY
from workers.merge.hudi_merge import (
    NotComparable,
    PartialVersion,
    Version,
    fold_like_hudi,
    to_comparable,
    without_dropped,
)
from workers.merge.versions import DELETE_NOW, ROW, kinds
from workers.read.file_slice import read_slice
from workers.read.log_versions import LogReader
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.file_group import FileSlice
from workers.write.context import WriteContext
from workers.write.log_rows import own_columns

_Again = Mapping[str, Set[str]]
"""Keys by the log file whose versions of them are written again."""


class PartialRows:
    """The partial rows of a file group, under the columns that it has once its commit is seen."""

    def __init__(
        self,
        context: WriteContext,
        storage: Storage,
        schema: TableSchema,
        slice_: FileSlice,
        keys: Set[str],
    ) -> None:
        """`slice_` names the logs in the order in which they completed."""
        self._config = context.config
        self._storage = storage
        self._schema = schema
        self._slice = slice_
        self._keys = pa.array(sorted(keys), pa.string())
        self._names = schema.field_names

    def find_divergent(
        self, requested: Sequence[str], again: _Again, *, null_is_zero: bool
    ) -> set[str]:
        """Return the keys whose row is another one there. `requested` are the logs by the time of
        request.
        """
        ours = self._rows(self._slice)
        bases = self._rows(
            FileSlice(
                self._slice.partition,
                self._slice.file_id,
                self._slice.base_instant,
                self._slice.base_file,
            )
        )
        theirs: dict[str, list[PartialVersion]] = {}
        for path in requested:
            for key, version in self._versions(path):
                theirs.setdefault(key, []).append(version)
        for path, restated in again.items():
            for key, version in self._versions(path):
                if key in restated:
                    theirs.setdefault(key, []).append(version)
        differing: set[str] = set()
        for key in map(str, self._keys.to_pylist()):
            row = ours.get(key)
            try:
                shown_rows = self._fold(bases.get(key), theirs.get(key, []), null_is_zero)
            except NotComparable:
                differing.add(key)
                continue
            if any(
                (their_row and their_row.cells) != (row and row.cells) for their_row in shown_rows
            ):
                differing.add(key)
        return differing

    def _fold(
        self, base: PartialVersion | None, versions: list[PartialVersion], null_is_zero: bool
    ) -> list[PartialVersion | None]:
        """Return the rows that others show. If only one column is optional, no block of a row with
        a value for it can lack a column (`log_rows`), so hudi-rs may drop the row.
        """
        their_rows = [fold_like_hudi(base, versions, null_is_zero=null_is_zero)]
        if len(own_columns(self._config, self._schema, self._names)) == 1:
            versions_left = without_dropped(versions, self._names, null_is_zero=null_is_zero)
            their_rows.append(fold_like_hudi(base, versions_left, null_is_zero=null_is_zero))
        return their_rows

    def _rows(self, slice_: FileSlice) -> dict[str, PartialVersion]:
        if slice_.base_file is None and not slice_.log_files:
            return {}
        rows = read_slice(self._storage, self._config, self._schema, slice_)
        return dict(self._as_versions(rows))

    def _versions(self, path: str) -> Iterator[tuple[str, PartialVersion]]:
        partition, file_id = self._slice.partition, self._slice.file_id
        slice_ = FileSlice(partition, file_id, None, None, (path,))
        try:
            versions = LogReader(self._storage, self._config, self._schema).versions(slice_)
        except NotFound:  # Its commit was rolled back since.
            return
        if versions is not None:
            yield from self._as_versions(versions)

    def _as_versions(self, rows: pa.Table) -> Iterator[tuple[str, PartialVersion]]:
        rows = rows.filter(pc.is_in(rows.column(RECORD_KEY), value_set=self._keys))
        field = self._config.ordering_field
        orders = to_comparable(rows.column(field)) if field else [None] * rows.num_rows
        keys: list[Any] = rows.column(RECORD_KEY).to_pylist()
        cells: list[Any] = rows.select(list(self._names)).to_pylist()
        for key, kind, order, row in zip(keys, kinds(rows).tolist(), orders, cells, strict=True):
            is_ageless = kind == DELETE_NOW
            yield (
                key,
                PartialVersion(kind, None if is_ageless else order, row if kind == ROW else {}),
            )


def has_older(in_turn: Iterable[Mapping[str, Sequence[Version]]]) -> bool:
    """Check whether a version comes after a newer one of its key; versions that erase all do not
    count.
    """
    newest: dict[str, Any] = {}
    for versions in in_turn:
        for key, some in versions.items():
            for version in some:
                if version.kind == DELETE_NOW:
                    continue
                newest_order = newest.get(key)
                if newest_order is not None and (
                    version.order is None or version.order < newest_order
                ):
                    return True
                newest[key] = version.order
    return False
