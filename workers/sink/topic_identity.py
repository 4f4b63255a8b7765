"""Identity of the topics whose rows are in a table with keys by topic name.

Such a table was created before keys contained the ids of topic and cluster. A second topic of the
name, on another cluster or created again, has other records under the same keys. Its rows would
overwrite the existing ones. So no sink may read it into that table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from workers.errors import TopicReplaced
from workers.sink.sink_commits import CLUSTER_ID_KEY, TOPIC_ID_KEY, TOPIC_KEY
from workers.table.schema_history import read_instant
from workers.table.table import Table
from workers.timeline.archive import list_archived_instants
from workers.timeline.instant import Instant
from workers.timeline.metadata import read_commit_metadata
from workers.timeline.timeline import Timeline


class TopicIdentity(NamedTuple):
    """Ids of the topic whose records a commit contains."""

    topic_id: str
    cluster_id: str
    """Empty if the commit does not record it."""

    def can_be_same(self, other: TopicIdentity) -> bool:
        """Check whether both can be the same topic. An unknown cluster matches any."""
        if self.cluster_id and other.cluster_id and self.cluster_id != other.cluster_id:
            return False
        return self.topic_id == other.topic_id


class CommittedTopics:
    """Reader of the topics of one name that have rows in a table, for one coordinator."""

    def __init__(self, table: Table, topic: str) -> None:
        self._table, self._topic = table, topic
        self._read: dict[Instant, TopicIdentity | None] = {}
        self._manifest = -1
        self._archived: set[TopicIdentity] = set()

    def check(self, timeline: Timeline, topic_id: str, cluster_id: str) -> None:
        """Compare the topic with the topics of the table's rows. Raises TopicReplaced if the table
        may have rows of another topic with this name.
        """
        ours = TopicIdentity(topic_id, cluster_id)
        others = sorted(
            origin for origin in self._load_identities(timeline) if not origin.can_be_same(ours)
        )
        if others:
            raise TopicReplaced(
                "the table has rows of another topic of this name, and its keys contain only the "
                "name, so records of this topic would overwrite them. Create a new table with "
                "create_append_table, whose keys contain the ids of topic and cluster, and read "
                "the topic into it",
                table=self._table.config.name,
                topic=self._topic,
                id=topic_id,
                committed=others[0].topic_id,
            )

    def _load_identities(self, timeline: Timeline) -> set[TopicIdentity]:
        writes = timeline.list_completed_writes()
        self._read = {
            instant: self._read[instant] if instant in self._read else self._read_active(instant)
            for instant in writes
        }
        # Read after the active instants: one that is archived in between is then in either place.
        number = self._table.archive_mark()
        if number != self._manifest:
            self._archived = self._read_archived()
            self._manifest = number
        return self._archived | {origin for origin in self._read.values() if origin is not None}

    def _read_active(self, instant: Instant) -> TopicIdentity | None:
        return self._find_identity(read_instant(self._table, instant).extra_metadata)

    def _read_archived(self) -> set[TopicIdentity]:
        archived = list_archived_instants(self._table.storage, with_content=True)
        origins = [
            self._find_identity(read_commit_metadata(entry.metadata).extra_metadata)
            for entry in archived
            if entry.metadata is not None and entry.instant.action.writes_data
        ]
        return {origin for origin in origins if origin is not None}

    def _find_identity(self, extra: Mapping[str, str]) -> TopicIdentity | None:
        if extra.get(TOPIC_KEY) != self._topic:
            return None
        return TopicIdentity(extra.get(TOPIC_ID_KEY, ""), extra.get(CLUSTER_ID_KEY, ""))
