"""What becomes of a key that comes under another partition than the one where it stands, in a table
with column groups (`hoodie.multistream.partition.update`, requirements 5.2).

Values only; `workers.write.key_partitions` and `workers.concurrency.key_partitions` act.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

from workers.errors import InvalidInput
from workers.options.column_groups import GroupRule
from workers.options.option_values import choice

PARTITION_UPDATE_KEY = "hoodie.multistream.partition.update"


class PartitionUpdate(StrEnum):
    """What a write does with a key that stands under another partition (requirements 5.2)."""

    REJECT = "reject"
    """The batch is refused: its streams do not agree on where the row belongs."""
    MOVE = "move"
    """The row goes to the partition that came last, whole."""
    ALLOW = "allow"
    """Nobody looks: the two are rows of their own."""


def partition_update(
    properties: Mapping[str, str],
    groups: GroupRule | None,
    record_key: Collection[str],
    partition_by: Collection[str],
) -> PartitionUpdate:
    """ALLOW as well where there is nothing to look for: without groups a key is one row of its
    partition, and a key that holds the partition's columns says where it belongs.

    Raises InvalidInput.
    """
    if groups is None:
        if properties.get(PARTITION_UPDATE_KEY):
            raise InvalidInput("only a table with column groups has this", key=PARTITION_UPDATE_KEY)
        return PartitionUpdate.ALLOW
    values = {PARTITION_UPDATE_KEY: properties.get(PARTITION_UPDATE_KEY) or PartitionUpdate.REJECT}
    given = choice(values, PARTITION_UPDATE_KEY, PartitionUpdate)
    return PartitionUpdate.ALLOW if set(partition_by) <= set(record_key) else given
