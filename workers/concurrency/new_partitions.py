"""The partitions that a write adds to a table: none is inside another one, and all have partition
metadata before the commit is decided.

Metadata hides everything below its directory from every reader. So a table whose partitions can
nest gets it under the table lock, after a check that no partition of a completed commit conflicts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.files.partition import drop_empty_directories, ensure_partition, metadata_path
from workers.files.partition_paths import NESTED, can_nest, directories_above, find_nested
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.view import FileSystemView


@dataclass(frozen=True, slots=True)
class PartitionsAtStart:
    """The partitions of a table when a write began, as far as its new ones need them."""

    committed: frozenset[str]
    """Partitions with committed files of any age."""
    can_nest: bool
    depth_min: int
    """The number of partition columns: no path has fewer parts."""
    unmarked: frozenset[str] = field(compare=False)
    """Known ones without partition metadata."""
    emptied: frozenset[str] = field(compare=False)
    """Directories with partition metadata and without a committed file. Only the process that
    commits uses this and `unmarked`; another process with the same snapshot may find more.
    """

    @classmethod
    def of(cls, view: FileSystemView, schema: TableSchema) -> PartitionsAtStart:
        """Build it from the partitions that the view shows, for a write with this schema."""
        config = view.table.config
        return cls(
            view.partitions,
            can_nest(config, schema.arrow),
            len(config.partition_by),
            unmarked=view.unmarked,
            emptied=view.emptied,
        )

    def check(self, written: Collection[str], since: Collection[str] = ()) -> None:
        """Check that no written partition is inside a known one, another written one or one that
        was committed `since`, or around it. Raises InvalidInput naming both.
        """
        if (pair := self.find_nested(written, since)) is not None:
            raise InvalidInput(NESTED, outer=pair[0], inner=pair[1])

    def find_nested(
        self, written: Collection[str], since: Collection[str] = ()
    ) -> tuple[str, str] | None:
        """Return the outer and the inner partition of the pair that `check` rejects, or None."""
        return find_nested(written, self.committed, since) if self.can_nest else None

    def publish(self, storage: Storage, written: Collection[str], instant: InstantTime) -> None:
        """Write the metadata of new partitions. Where partitions can nest, delete the metadata of
        directories above and below them that have no committed file: readers would stop there.

        Raises StorageFailed, WriteOutcomeUnknown.
        """
        new = self._find_new(written)
        if self.can_nest:
            hiding = {
                above for partition in new for above in directories_above(partition, self.depth_min)
            }
            hiding |= {
                partition
                for partition in self.emptied
                if not new.isdisjoint(directories_above(partition))
            }
            storage.delete_many(sorted(map(metadata_path, hiding - self.committed)))
        storage.at_once(partial(_mark, storage, instant), sorted(new))

    def tidy(self, storage: Storage, written: Collection[str]) -> None:
        """Delete empty directories inside the new partitions of a commit. Raises StorageFailed."""
        if self.can_nest and storage.is_local:
            for partition in sorted(self._find_new(written)):
                drop_empty_directories(storage, storage.list_directories(partition))

    def _find_new(self, written: Collection[str]) -> set[str]:
        return set(written) - (self.committed - self.unmarked)


def _mark(storage: Storage, instant: InstantTime, partition: str) -> None:
    ensure_partition(storage, partition, instant)
