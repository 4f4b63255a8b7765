"""Names, times and lists as the conflict pages write them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from controlplane.writers.conflicts import ConflictRow, ConflictSide

GROUPS_SHOWN_MAX = 12
NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class PartitionGroups:
    partition: str
    file_ids: tuple[str, ...]
    hidden: int

    @property
    def count(self) -> int:
        return len(self.file_ids) + self.hidden


def by_partition(
    groups: Sequence[tuple[str, str]], *, most: int = GROUPS_SHOWN_MAX
) -> tuple[PartitionGroups, ...]:
    """In the order of their names; of each partition the first file groups."""
    ids_by_partition: dict[str, list[str]] = defaultdict(list)
    for partition, file_id in sorted(groups):
        ids_by_partition[partition].append(file_id)
    return tuple(
        PartitionGroups(partition, tuple(ids[:most]), max(0, len(ids) - most))
        for partition, ids in ids_by_partition.items()
    )


@dataclass(frozen=True, slots=True)
class InsertedKeys:
    """New keys that both writers inserted, or that one inserted and the other wanted to delete; or
    keys that the two brought to different partitions, of a table where each stands in one; or keys
    of rows that one read to write them back and the other changed meanwhile.
    """

    named: tuple[str, ...]
    """Some of them; none where they could not be read any more."""
    count: int
    is_of_delete: bool = False
    is_apart: bool = False
    is_of_read: bool = False

    @property
    def hidden(self) -> int:
        return self.count - len(self.named)

    @property
    def heading(self) -> str:
        """The heading of what lies between the two writers; A is the winner."""
        keys = counted(self.count, "key")
        match self:
            case InsertedKeys(count=0, is_of_read=True):
                return "A wrote rows that cannot be read any more"
            case InsertedKeys(count=0):
                return "A inserted keys that cannot be read any more"
            case InsertedKeys(is_of_read=True):
                return f"A changed {counted(self.count, 'row')} that B had read"
            case InsertedKeys(is_of_delete=True):
                return f"Inserted {keys} that the other wanted to delete"
            case InsertedKeys(is_apart=True):
                return f"Touched {keys} in different partitions"
            case _:
                return f"Both inserted {counted(self.count, 'new key')}"


def inserted_keys(row: ConflictRow) -> InsertedKeys | None:
    """None of a conflict by another rule."""
    rule = row.details.get("rule")
    if rule not in ("inserted_twice", "deleted_unseen", "brought_apart", "changed_since_read"):
        return None
    named = tuple(str(key) for key in row.details.get("keys") or ())
    count = max(len(named), int(row.details.get("key_count") or 0))
    return InsertedKeys(
        named,
        count,
        is_of_delete=rule == "deleted_unseen",
        is_apart=rule == "brought_apart",
        is_of_read=rule == "changed_since_read",
    )


def counted(number: int, thing: str) -> str:
    """`1 file group`, `3 file groups`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def name_of(side: ConflictSide) -> str:
    return side.writer or (f"writer of {side.instant}" if side.instant else "another writer")


def partitions_named(names: Sequence[str]) -> str:
    """`emea, apac and 4 more`."""
    shown = [name or "(not partitioned)" for name in names[:NAMED_MAX]]
    hidden = len(names) - len(shown)
    return ", ".join(shown) + (f" and {hidden} more" if hidden else "")


def clock(at_ms: int) -> str:
    """`22:01:05.123`, UTC as all times."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
