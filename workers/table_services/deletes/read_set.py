"""The read set of a delete by a list of keys, for the validation of its commit: a key of the list
that is committed after the delete read the table is a conflict, in any file group.

A key that was found is deleted in its file group, and a writer that changes that file group
conflicts with the delete there. So such a key is searched for everywhere else.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.concurrency.conflicts import FileGroupKey
from workers.concurrency.read_keys import ReadKeys, ReadKeysSource
from workers.files.base_keys import SortedKeys
from workers.files.partition_paths import row_partition_paths
from workers.schema.reconcile import conform
from workers.write.context import WriteContext
from workers.write.prepare import Located, keys_and_slots

_Places = frozenset[FileGroupKey]


def read_set_from_keys(
    context: WriteContext, listed: pa.Table, keys_by_group: Mapping[FileGroupKey, pa.Table]
) -> ReadKeysSource:
    """Return the keys to compare with later commits. `listed` has the key columns, and those of the
    partition if keys are meant in one only. `keys_by_group` has the keys of the list that each file
    group holds, in the same columns at least.

    Raises BadRows for a key that no row can have.
    """
    keys = _place_keys(context, _whole(context, listed))
    places: dict[str, set[FileGroupKey]] = {}
    for group, rows in keys_by_group.items():
        held: list[Any] = _record_keys(context, rows)[0].to_pylist()
        for key in held:
            places.setdefault(key, set()).add(group)

    def collect() -> Iterable[ReadKeys]:
        for bucket, partition, some in _apart(context, keys):
            for besides, named in _by_places(some, places):
                yield ReadKeys(partition, bucket, SortedKeys.of(named), besides)

    return collect


def _whole(context: WriteContext, listed: pa.Table) -> pa.Table:
    """The listed keys without those that hold a null: they meet no row."""
    fields = context.config.record_key
    return listed.filter(functools.reduce(pc.and_, [pc.is_valid(listed[name]) for name in fields]))


def _place_keys(context: WriteContext, listed: pa.Table) -> pa.Table:
    """Return the columns `key`, `slot` and `path`; the path is null if the list does not contain
    it.
    """
    partition_by = list(context.config.partition_by)
    keys, slots = _record_keys(context, listed)
    paths: Any = pa.nulls(listed.num_rows, pa.string())
    if not partition_by:  # Rows without columns could not be counted.
        paths = row_partition_paths(context.config, listed)
    elif set(partition_by) <= set(listed.column_names):
        values = conform(listed.select(partition_by), context.schema, columns=partition_by)
        paths = row_partition_paths(context.config, values)
    return pa.table({"key": keys, "slot": pa.array(slots, pa.int32()), "path": paths})


def _record_keys(context: WriteContext, rows: pa.Table) -> Located:
    fields = list(context.config.record_key)
    return keys_and_slots(context, conform(rows.select(fields), context.schema, columns=fields))


def _apart(context: WriteContext, keys: pa.Table) -> Iterator[tuple[int | None, str | None, Any]]:
    """Bucket, partition and the keys that are sought there."""
    columns = ["path"] if context.looks_up else ["slot", "path"]
    for group in keys.group_by(columns, use_threads=False).aggregate([("key", "list")]).to_pylist():
        yield group.get("slot"), group["path"], group["key_list"]


def _by_places(
    keys: list[str], places: Mapping[str, set[FileGroupKey]]
) -> Iterator[tuple[_Places, pa.Array[Any]]]:
    alike: dict[_Places, list[str]] = {}
    for key in keys:
        alike.setdefault(frozenset(places.get(key, ())), []).append(key)
    for besides, named in alike.items():
        yield besides, pa.array(named, pa.string())
