"""Origin of the records that a participant writes: cluster, topic, partition and attempt."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from workers.write.status import TaskIds


@dataclass(frozen=True, slots=True)
class Source:
    """Origin of a participant's records, for rows, dead letters and file names."""

    topic: str
    partition: int
    participant: str = ""
    """Unique to the attempt, which makes its file names unique."""
    topic_id: str = ""
    """The broker's id: a topic that was deleted and created again has another."""
    cluster_id: str = ""
    """Two clusters may have topics of one name."""

    @property
    def task(self) -> TaskIds:
        """Numbers in the file names of this attempt. Another attempt has other numbers."""
        digest = hashlib.sha256(self.participant.encode()).digest()
        numbers = [int.from_bytes(digest[at : at + 4]) >> 1 for at in (0, 4)]
        return TaskIds(self.partition, stage=numbers[0], attempt=numbers[1])
