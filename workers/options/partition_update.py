"""The policy for a key that arrives under another partition than its stored one, in a table with
column groups (`hoodie.multistream.partition.update`, requirements 5.2).

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
    """The action of a write on a key that is stored under another partition (requirements 5.2)."""

    REJECT = "reject"
    """The batch is refused: its streams do not agree on where the row belongs."""
    MOVE = "move"
    """The row goes to the partition that came last, whole."""
    ALLOW = "allow"
    """No check: the two are separate rows."""


def partition_update(
    properties: Mapping[str, str],
    groups: GroupRule | None,
    record_key: Collection[str],
    partition_by: Collection[str],
) -> PartitionUpdate:
    """Parse the policy. It is ALLOW as well if no check is needed: without groups a key is one row
    of its partition, and a key that contains the partition's columns determines the partition.

    Raises InvalidInput.
    """
    if groups is None:
        if properties.get(PARTITION_UPDATE_KEY):
            raise InvalidInput("only a table with column groups has this", key=PARTITION_UPDATE_KEY)
        return PartitionUpdate.ALLOW
    values = {PARTITION_UPDATE_KEY: properties.get(PARTITION_UPDATE_KEY) or PartitionUpdate.REJECT}
    policy = choice(values, PARTITION_UPDATE_KEY, PartitionUpdate)
    return PartitionUpdate.ALLOW if set(partition_by) <= set(record_key) else policy
