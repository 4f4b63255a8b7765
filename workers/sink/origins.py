"""Which topics of one name have rows in a table whose keys tell topics by their name alone.

Such a table was made before keys held the ids of topic and cluster. A second topic of the name, on
another cluster or made anew, has other records under the same keys: its rows would take the place
of those that stand, so it is not read into that table, whichever sink asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from workers.errors import TopicReplaced
from workers.sink.sink_commits import CLUSTER_ID_KEY, TOPIC_ID_KEY, TOPIC_KEY
from workers.table.schema_history import read_instant
from workers.table.table import Table
from workers.timeline.archive import archived_instants
from workers.timeline.instant import Instant
from workers.timeline.metadata import read_commit_metadata
from workers.timeline.timeline import Timeline


class Origin(NamedTuple):
    """Which topic of a name the rows of a commit came from."""

    topic_id: str
    cluster_id: str
    """Empty where a commit does not say."""

    def is_that_of(self, other: Origin) -> bool:
        """Whether both may be the same topic: a cluster that is not known is no difference."""
        if self.cluster_id and other.cluster_id and self.cluster_id != other.cluster_id:
            return False
        return self.topic_id == other.topic_id


class CommittedOrigins:
    """Looks up which topics of one name have rows in a table, for one coordinator."""

    def __init__(self, table: Table, topic: str) -> None:
        self._table, self._topic = table, topic
        self._read: dict[Instant, Origin | None] = {}
        self._manifest = -1
        self._archived: set[Origin] = set()

    def check(self, timeline: Timeline, topic_id: str, cluster_id: str) -> None:
        """Compare the topic with those that the table's rows came from. Raises TopicReplaced where
        rows of another topic of the name may stand in the table.
        """
        ours = Origin(topic_id, cluster_id)
        others = sorted(one for one in self._origins(timeline) if not one.is_that_of(ours))
        if others:
            raise TopicReplaced(
                "the table has rows of another topic of this name, and its keys tell topics by "
                "name alone: records of this one would take their place. Make a new table with "
                "create_append_table, whose keys hold the ids of topic and cluster, and read the "
                "topic into that",
                table=self._table.config.name,
                topic=self._topic,
                id=topic_id,
                committed=others[0].topic_id,
            )

    def _origins(self, timeline: Timeline) -> set[Origin]:
        writes = timeline.completed_writes()
        self._read = {
            one: self._read[one] if one in self._read else self._active(one) for one in writes
        }
        # Read after the active ones: what an archiver moves meanwhile is here or there.
        number = self._table.archive_mark()
        if number != self._manifest:
            self._archived = self._read_archived()
            self._manifest = number
        return self._archived | {one for one in self._read.values() if one is not None}

    def _active(self, instant: Instant) -> Origin | None:
        return self._of(read_instant(self._table, instant).extra_metadata)

    def _read_archived(self) -> set[Origin]:
        archived = archived_instants(self._table.storage, with_content=True)
        origins = [
            self._of(read_commit_metadata(one.metadata).extra_metadata)
            for one in archived
            if one.metadata is not None and one.instant.action.writes_data
        ]
        return {one for one in origins if one is not None}

    def _of(self, extra: Mapping[str, str]) -> Origin | None:
        if extra.get(TOPIC_KEY) != self._topic:
            return None
        return Origin(extra.get(TOPIC_ID_KEY, ""), extra.get(CLUSTER_ID_KEY, ""))
