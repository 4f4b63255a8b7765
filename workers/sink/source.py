"""Whose records a participant writes: the partition of a topic of a cluster, and which attempt."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from workers.write.status import TaskIds


@dataclass(frozen=True, slots=True)
class Source:
    """Where the records of a participant come from, for rows, letters and the names of files."""

    topic: str
    partition: int
    participant: str = ""
    """Unique to the attempt; makes the names of its files so."""
    topic_id: str = ""
    """The broker's: a topic that was deleted and made again has another."""
    cluster_id: str = ""
    """Two clusters may have topics of one name."""

    @property
    def task(self) -> TaskIds:
        """What the file names of this attempt are made of; another attempt has other numbers."""
        digest = hashlib.sha256(self.participant.encode()).digest()
        numbers = [int.from_bytes(digest[at : at + 4]) >> 1 for at in (0, 4)]
        return TaskIds(self.partition, stage=numbers[0], attempt=numbers[1])
