"""Where a sink began when it first looked at its topic: what `latest`, and offsets that were given,
mean until the first commit.

From the first commit on the table knows. Before that, each coordinator reads it here. So records
that came after the sink was started are read, even if no coordinator lived until a commit. A topic
that was deleted and made again in between is new to the sink: all of it is read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workers.errors import MalformedTable, NotFound, StorageFailed
from workers.json_text import read_json
from workers.sink.beginning import TopicRange, chosen_offsets
from workers.sink.config import SinkConfig
from workers.sink.offsets import OffsetMap, format_offsets, parse_offsets
from workers.sink.places import SinkPlaces
from workers.storage.base import Storage

_TRIES_MAX = 100
_LATEST = "latest"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Look:
    start: str | Mapping[int, int]
    """`hoodie.kafka.start.offsets` of the launch that looked."""
    topic_id: str
    offsets: OffsetMap
    """Partitions that are not in it are read from their first offset."""

    def encode(self) -> bytes:
        body = {"topic_id": self.topic_id, "offsets": format_offsets(self.offsets)}
        # What has no start is `latest`, as in files of versions that kept nothing else.
        given = {} if self.start == _LATEST else {"start": self.start}
        return json.dumps(body | given).encode()


def first_look(storage: Storage, config: SinkConfig, topic: TopicRange) -> OffsetMap:
    """Return where to begin in the partitions that the first look chose an offset for; the others
    are new to the sink. The first caller stores its look. A launch with other start offsets chooses
    anew. A topic that was made anew since the look has no partition in the result.

    Raises OffsetsMissing, MalformedTable; StorageFailed and WriteOutcomeUnknown, after which the
    caller may ask again.
    """
    path = SinkPlaces(config.sink_id).first_look
    start = config.start_offsets
    for _ in range(_TRIES_MAX):
        try:
            kept = storage.read_tagged(path)
        except NotFound:
            seen = _Look(start, topic.topic_id, chosen_offsets(config, topic))
            if storage.put_if_absent(path, seen.encode()):
                return seen.offsets
            continue
        look = _decode(kept.content, path)
        if (look.start, look.topic_id) == (start, topic.topic_id):
            return look.offsets
        is_new = look.start == start
        seen = _Look(start, topic.topic_id, {} if is_new else chosen_offsets(config, topic))
        if storage.replace_if_match(path, seen.encode(), kept.tag) is not None:
            if is_new:
                _log.warning(
                    "the topic was made anew before the first commit, and is read from its first "
                    "offsets: topic=%s before=%s id=%s",
                    config.topic,
                    look.topic_id,
                    topic.topic_id,
                )
            return seen.offsets
    raise StorageFailed("others change it all the time", path=path, tries=_TRIES_MAX)


def _decode(content: bytes, path: str) -> _Look:
    try:
        body = read_json(content)
        start = _start(body.get("start", _LATEST))
        return _Look(start, str(body["topic_id"]), parse_offsets(body["offsets"]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MalformedTable("where the sink first looked is damaged", path=path) from error


def _start(given: Any) -> str | Mapping[int, int]:
    if isinstance(given, str):
        return given
    return {int(partition): int(offset) for partition, offset in given.items()}
