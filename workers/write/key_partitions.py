"""Keys of a batch that have a row in another partition, in a table of column groups whose keys are
in one partition only (`hoodie.multistream.partition.update`).

A key has the same slot in every partition. So its own file group is read first, and those of the
same slot in other partitions only for keys that it does not have. Commits of rivals since the start
are compared when the write commits (`workers.concurrency.key_partitions`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.files.base_keys import SortedKeys
from workers.files.meta_columns import RECORD_KEY
from workers.options.partition_update import PARTITION_UPDATE_KEY, PartitionUpdate
from workers.options.write_keys import DuplicatePolicy
from workers.read.key_presence import Presence, SliceKeys
from workers.storage.base import Storage
from workers.table.file_group import FileSlice
from workers.write.context import REPLACING, WriteContext
from workers.write.groups import RowGroup
from workers.write.partition_moves import number_rows, relocate_rows, reroute_rows

_NO_KEYS: Any = pa.array([], pa.string())
_REMEDY = (
    f"bring it for that one, delete it there first, or let rows move ({PARTITION_UPDATE_KEY}=move)"
)


def check_one_partition(
    context: WriteContext,
    groups: Iterable[RowGroup],
    storage: Storage,
    named: Collection[str] | None = None,
) -> list[RowGroup]:
    """Return all rows of some slots of the write, each key in one partition; `groups` unchanged if
    no key has a row elsewhere. `named` are the partitions of all rows of the write; None if these
    are all.

    Raises InvalidInput naming a key and its partitions.
    """
    listed = list(groups)
    if named is None:
        named = {group.partition for group in listed}
    by_slot: dict[int, list[RowGroup]] = {}
    for group in listed:
        by_slot.setdefault(group.slot, []).append(group)
    settled_groups: list[RowGroup] = []
    for some in by_slot.values():
        settled_groups += _Slot(context, some, storage, frozenset(named)).route_rows()
    return settled_groups


def has_keys_elsewhere(
    context: WriteContext, groups: Sequence[RowGroup], storage: Storage, named: Collection[str]
) -> bool:
    """Check whether `check_one_partition` would change these, which are all rows of one slot. Only
    their keys are read. Raises as it does.
    """
    return any(_Slot(context, groups, storage, frozenset(named)).find_elsewhere())


def candidate_slices(
    context: WriteContext, slots: Collection[int], named: Collection[str]
) -> list[FileSlice]:
    """Return the file slices that keys of these slots are looked for in; `named` are the partitions
    of all rows of the write.
    """
    return [
        slice_
        for (partition, slot), slice_ in context.slices.items()
        if slot in slots and not _is_replaced(context, partition, named)
    ]


class _Slot:
    """The rows of a batch that share a slot, by partition."""

    def __init__(
        self,
        context: WriteContext,
        groups: Sequence[RowGroup],
        storage: Storage,
        named: frozenset[str],
    ) -> None:
        self._context = context
        self._groups = list(groups)
        self._storage = storage
        self._keys = {
            group.partition: SortedKeys.of(group.rows.column(RECORD_KEY)) for group in groups
        }
        self._stored = SliceKeys(storage, context.config, context.schema)
        self._slices = {
            partition: slice_
            for (partition, at), slice_ in context.slices.items()
            if at == groups[0].slot and not _is_replaced(context, partition, named)
        }

    def route_rows(self) -> list[RowGroup]:
        alive, deleted = self.find_elsewhere()
        if self._context.operation == "delete":
            at = {path: pa.table({RECORD_KEY: keys}) for path, keys in alive.items()}
            return number_rows(reroute_rows(self._groups, at)) if at else self._groups
        if not (alive or deleted):
            return self._groups
        return relocate_rows(self._context, self._groups, self._read(alive), self._read(deleted))

    def find_elsewhere(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return two maps from partition: to the keys that have a row there and not in the
        partition that the batch names, and to those of which a delete is stored there. Reads only
        the keys of the rows.
        """
        is_delete = self._context.operation == "delete"
        if not is_delete:
            self._check_batch_duplicates()
        presences = self._look_up(self._list_keys_to_find())
        alive = {
            path: keys.array.take(presence.alive)
            for path, keys, presence in presences
            if len(presence.alive)
        }
        if alive and not _is_moving(self._context):
            self._reject_other_partition(*next(iter(alive.items())))
        if is_delete or self._context.operation in REPLACING:
            return alive, {}
        return alive, {
            path: keys.array.take(presence.deleted)
            for path, keys, presence in presences
            if len(presence.deleted)
        }

    def _read(self, keys: Mapping[str, Any]) -> dict[str, pa.Table]:
        def states(partition_keys: tuple[str, Any]) -> tuple[str, pa.Table]:
            partition, wanted_keys = partition_keys
            return partition, self._stored.states(self._slices[partition], SortedKeys(wanted_keys))

        return dict(self._storage.at_once(states, list(keys.items())))

    def _check_batch_duplicates(self) -> None:
        """Check that the batch brings each key for one partition: rows of one batch have no order
        between partitions. Raises InvalidInput.
        """
        keys = [sorted_keys.array for sorted_keys in self._keys.values()]
        if len(keys) < 2:
            return
        counts: Any = pa.concat_arrays(keys).value_counts()
        is_doubled: Any = pc.greater(counts.field("counts"), pa.scalar(1))
        doubled = counts.field("values").filter(is_doubled)
        if len(doubled):
            raise InvalidInput(
                "the batch brings a key for several partitions, but a key has one; split the "
                "batch, or bring it for one of them",
                key=doubled[0].as_py(),
                partitions=sorted(self._find_batch_partitions(doubled[0])),
                keys=len(doubled),
            )

    def _reject_other_partition(self, stands_in: str, keys: Any) -> None:
        (brought_for, *_) = self._find_batch_partitions(keys[0])
        raise InvalidInput(
            f"a key stands in another partition than the one that the batch names; {_REMEDY}",
            key=keys[0].as_py(),
            stands_in=stands_in,
            brought_for=brought_for,
            keys=len(keys),
        )

    def _find_batch_partitions(self, key: Any) -> list[str]:
        return [path for path, keys in self._keys.items() if pc.is_in(key, keys.array).as_py()]

    def _list_keys_to_find(self) -> dict[str, SortedKeys]:
        """Return, by partition, the keys to find in its file group of the slot, which the batch
        names for others.
        """
        unknown = self._find_absent_keys()
        others = {
            partition: [keys for path, keys in unknown.items() if path != partition]
            for partition in self._slices
        }
        return {
            partition: SortedKeys.of(pa.concat_arrays(keys))
            for partition, keys in others.items()
            if any(map(len, keys))
        }

    def _find_absent_keys(self) -> dict[str, Any]:
        """Return, by partition of the batch, those of its keys that have no row there."""
        home = {path: keys for path, keys in self._keys.items() if path in self._slices}
        at_home = {path: keys.array.take(found.alive) for path, keys, found in self._look_up(home)}
        everywhere = pa.concat_arrays([_NO_KEYS, *at_home.values()])
        return {
            path: keys.array.filter(pc.invert(pc.is_in(keys.array, value_set=everywhere)))
            for path, keys in self._keys.items()
        }

    def _look_up(
        self, keys_by_partition: Mapping[str, SortedKeys]
    ) -> list[tuple[str, SortedKeys, Presence]]:
        def look(partition_keys: tuple[str, SortedKeys]) -> tuple[str, SortedKeys, Presence]:
            partition, keys = partition_keys
            return partition, keys, self._stored.presence(self._slices[partition], keys)

        return list(self._storage.at_once(look, list(keys_by_partition.items())))


def _is_moving(context: WriteContext) -> bool:
    """Check whether rows move. A replacing write names the partitions that it changes, and an
    insert that drops or rejects known keys changes no row.
    """
    is_insert = context.operation in ("insert", "bulk_insert")
    keeps = is_insert and context.options.duplicate_policy is not DuplicatePolicy.NONE
    is_moving = context.config.partition_update is PartitionUpdate.MOVE
    return is_moving and not keeps and context.operation not in REPLACING


def _is_replaced(context: WriteContext, partition: str, named: Collection[str]) -> bool:
    """Check whether the write replaces the partition, because rows or the request name it."""
    if context.operation == "insert_overwrite_table":
        return True
    return context.operation in REPLACING and partition in (*named, *context.emptied)
