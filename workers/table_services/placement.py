"""The placement of the rows of another engine's table, derived from the rows: whether keys and
partition paths have Sluice's spelling, and the number of buckets of a simple bucket index, which
Hudi does not store.

A row's key determines its hash, its file group's name contains its bucket, and the number of
buckets divides the difference. So the greatest common divisor of all differences is that number or
a multiple of it. If several numbers remain, the user has to choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.files.meta_columns import RECORD_KEY
from workers.files.names import parse_bucket_number
from workers.files.partition_paths import row_partition_paths
from workers.files.record_key import composite_keys, key_value_texts
from workers.index.bucket import bucket_of_composite_keys, bucket_of_keys
from workers.read.file_slice import read_slice
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice
from workers.table.table import Table
from workers.table.view import FileSystemView

SLICES_READ_MAX = 256
"""Of more file groups only the names are read."""
_HASHES = 1 << 31
"""As a number of buckets it leaves every hash what it is."""
_SHOWN_MAX = 5


class PlacementMismatch(Exception):
    """The rows are not in the place where Sluice would search for them; the message names
    the rows.
    """


@dataclass(frozen=True, slots=True)
class Placement:
    """What the file groups prove."""

    divisor: int = 0
    """The number of buckets or a multiple of it; 0 without rows."""
    highest: int = -1
    """The highest bucket that has a file group."""
    rows: int = 0
    slices: int = 0

    def buckets(self, requested: int | None) -> int:
        """Return the number of buckets, which is `requested` if the rows leave a choice. Raises
        PlacementMismatch.
        """
        if requested is not None:
            if requested <= self.highest or self.divisor % requested:
                raise PlacementMismatch(f"the rows do not lie in {requested} buckets")
            return requested
        left = [n for n in _divisors(self.divisor) if n > self.highest]
        if len(left) == 1:
            return left[0]
        if self.divisor and not left:
            raise PlacementMismatch(
                "keys are not where a bucket index puts them; if only some fields of the key "
                "are hashed, name them (hoodie.bucket.index.hash.field)"
            )
        raise PlacementMismatch(
            "the rows do not determine the number of buckets"
            + (f", which may be {', '.join(map(str, left[:_SHOWN_MAX]))}" if left else "")
            + "; set it (hoodie.bucket.index.num.buckets)"
        )


def observe_placement(
    table: Table, view: FileSystemView, schema: TableSchema, hash_fields: Sequence[str]
) -> Placement:
    """Derive the placement from the rows of a table with a simple bucket index. At most
    `SLICES_READ_MAX` file groups are read.

    Raises PlacementMismatch, MalformedTable, UnsupportedTable.
    """
    named = _by_bucket(view.slices)
    divisor = rows = 0
    for bucket, slice_ in named[:SLICES_READ_MAX]:
        slice_rows = _slice_rows(table, schema, slice_)
        hashes = _hashes(table, slice_rows, slice_, hash_fields)
        differences = np.abs(hashes.astype(np.int64) - bucket)
        divisor = int(np.gcd.reduce(np.append(differences, divisor)))
        rows += slice_rows.num_rows
    highest = max((bucket for bucket, _ in named), default=-1)
    return Placement(divisor, highest, rows, min(len(named), SLICES_READ_MAX))


def observe_spelling(
    table: Table, view: FileSystemView, schema: TableSchema, *, checks_partitions: bool
) -> Placement:
    """Check the spelling of keys and paths in a table whose index looks up keys.

    Raises as `observe_placement`.
    """
    rows = 0
    for slice_ in view.slices[:SLICES_READ_MAX]:
        slice_rows = _slice_rows(table, schema, slice_)
        try:
            _check_keys(slice_rows, _build_keys(table, slice_rows)[0])
            if checks_partitions:
                _check_partition(table, slice_rows, slice_)
        except InvalidInput as error:
            raise PlacementMismatch(
                f"rows of {slice_.partition}/{slice_.file_id}: {error}"
            ) from error
        rows += slice_rows.num_rows
    return Placement(rows=rows, slices=min(len(view.slices), SLICES_READ_MAX))


def _by_bucket(slices: Sequence[FileSlice]) -> list[tuple[int, FileSlice]]:
    """Return one file group per partition and bucket."""
    bucketed_slices: list[tuple[int, FileSlice]] = []
    seen: dict[tuple[str, int], str] = {}
    for slice_ in slices:
        bucket = parse_bucket_number(slice_.file_id)
        if bucket is None:
            raise PlacementMismatch(
                f"file group {slice_.partition}/{slice_.file_id} is of another index than the "
                "simple bucket index: set the one that the table is written with, such as "
                "hoodie.index.type=BLOOM or SIMPLE"
            )
        if (other := seen.setdefault((slice_.partition, bucket), slice_.file_id)) != slice_.file_id:
            raise PlacementMismatch(
                f"bucket {bucket} of partition '{slice_.partition}' has two file groups: {other} "
                f"and {slice_.file_id}"
            )
        bucketed_slices.append((bucket, slice_))
    return bucketed_slices


def _slice_rows(table: Table, schema: TableSchema, slice_: FileSlice) -> pa.Table:
    config = table.config
    columns = {RECORD_KEY, *config.record_key, *config.partition_by}
    return read_slice(table.storage, config, schema, slice_, columns=columns)


def _hashes(
    table: Table, rows: pa.Table, slice_: FileSlice, hash_fields: Sequence[str]
) -> np.ndarray[Any, Any]:
    config = table.config
    fields = config.record_key
    try:
        keys, texts = _build_keys(table, rows)
        if config.names_key_fields:
            hashes = bucket_of_composite_keys(
                keys, texts, buckets=_HASHES, fields=fields, index_fields=hash_fields or fields
            )
        else:
            hashes = bucket_of_keys(keys, buckets=_HASHES, key_field=fields[0])
        _check_partition(table, rows, slice_)
    except InvalidInput as error:
        raise PlacementMismatch(f"rows of {slice_.partition}/{slice_.file_id}: {error}") from error
    _check_keys(rows, keys)
    return hashes


def _build_keys(table: Table, rows: pa.Table) -> tuple[pa.Array[Any], list[pa.Array[Any]]]:
    """The keys as Sluice would make them, and the texts of their fields. Raises InvalidInput."""
    fields = table.config.record_key
    texts = [key_value_texts(name, _single(rows.column(name))) for name in fields]
    keys = composite_keys(fields, texts) if table.config.names_key_fields else texts[0]
    return keys, texts


def _check_keys(rows: pa.Table, keys: pa.Array[Any]) -> None:
    """Raises NotPlaced."""
    stored = _single(rows.column(RECORD_KEY))
    if not keys.equals(stored):
        at = next(n for n in range(len(keys)) if keys[n] != stored[n])
        raise PlacementMismatch(
            f"the engine and Sluice spell a key differently: key={stored[at]} own={keys[at]}"
        )


def _check_partition(table: Table, rows: pa.Table, slice_: FileSlice) -> None:
    """Raises NotPlaced."""
    config = table.config
    if not config.partition_by or not rows.num_rows:
        return
    try:
        paths: Any = row_partition_paths(config, rows)
    except InvalidInput as error:
        raise PlacementMismatch(
            f"partition '{slice_.partition}' has a path that Sluice does not write "
            f"({error.message}): it could mean something else to a shell, a glob or a reader that "
            "decodes it; let Hudi move its rows, to values without such characters or to a table "
            "with hoodie.datasource.write.partitionpath.urlencode=true"
        ) from error
    elsewhere = pc.indices_nonzero(pc.not_equal(paths, pa.scalar(slice_.partition)))
    if len(elsewhere):
        at = elsewhere[0].as_py()
        row = rows.select(list(config.partition_by)).slice(at, 1).to_pylist()[0]
        raise PlacementMismatch(
            f"the engine keeps rows of {row} in '{slice_.partition}', and Sluice in "
            f"'{paths[at].as_py()}'"
        )


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def _single(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    single = column.combine_chunks()
    assert isinstance(single, pa.Array), "more text than one Arrow array holds"
    return single
