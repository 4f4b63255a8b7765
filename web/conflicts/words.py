"""Names, times and lists of the conflict pages. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from controlplane.writers.conflicts import ConflictRow, ConflictRule, ConflictSide

GROUPS_SHOWN_MAX = 12
NAMED_MAX = 3
_KEY_RULES = frozenset(
    {
        ConflictRule.INSERTED_TWICE,
        ConflictRule.DELETED_UNSEEN,
        ConflictRule.BROUGHT_APART,
        ConflictRule.CHANGED_SINCE_READ,
    }
)


@dataclass(frozen=True, slots=True)
class PartitionGroups:
    partition: str
    file_ids: tuple[str, ...]
    rest: tuple[str, ...] = ()
    """File groups that a page folds."""

    @property
    def count(self) -> int:
        return len(self.file_ids) + len(self.rest)


def by_partition(
    groups: Sequence[tuple[str, str]], *, most: int = GROUPS_SHOWN_MAX
) -> tuple[PartitionGroups, ...]:
    """Return the partitions by name, each with its first file groups."""
    ids_by_partition: dict[str, list[str]] = defaultdict(list)
    for partition, file_id in sorted(groups):
        ids_by_partition[partition].append(file_id)
    return tuple(
        PartitionGroups(partition, tuple(ids[:most]), tuple(ids[most:]))
        for partition, ids in ids_by_partition.items()
    )


@dataclass(frozen=True, slots=True)
class InsertedKeys:
    """Keys in conflict. Both writers inserted them, or one inserted keys that the other deletes.
    Or the two wrote them to different partitions, or one changed rows that the other had read.
    """

    named: tuple[str, ...]
    """Some of the keys; empty if they can no longer be read."""
    count: int
    is_of_delete: bool = False
    is_apart: bool = False
    is_of_read: bool = False

    @property
    def hidden(self) -> int:
        return self.count - len(self.named)

    @property
    def heading(self) -> str:
        """Return the heading of the overlap; A is the winner, B the loser."""
        keys = counted(self.count, "key")
        match self:
            case InsertedKeys(count=0, is_of_read=True):
                return "A wrote rows that can no longer be read"
            case InsertedKeys(count=0):
                return "A inserted keys that can no longer be read"
            case InsertedKeys(is_of_read=True):
                return f"A changed {counted(self.count, 'row')} that B had read"
            case InsertedKeys(is_of_delete=True):
                return f"A inserted {keys} that B deletes"
            case InsertedKeys(is_apart=True):
                return f"Wrote {keys} to different partitions"
            case _:
                return f"Both inserted {counted(self.count, 'new key')}"


def inserted_keys(row: ConflictRow) -> InsertedKeys | None:
    """Return the keys in conflict, or None if another rule decided."""
    rule = row.rule
    if rule not in _KEY_RULES:
        return None
    named = tuple(str(key) for key in row.details.get("keys") or ())
    count = max(len(named), int(row.details.get("key_count") or 0))
    return InsertedKeys(
        named,
        count,
        is_of_delete=rule is ConflictRule.DELETED_UNSEEN,
        is_apart=rule is ConflictRule.BROUGHT_APART,
        is_of_read=rule is ConflictRule.CHANGED_SINCE_READ,
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
