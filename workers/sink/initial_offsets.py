"""Initial offsets of a sink: the result of `latest` or configured offsets until the first commit.

After the first commit the offsets are in the table. Before that, each coordinator reads them here.
So records that came after the start of the sink are read, even if no coordinator reached a commit.
A topic that was deleted and created again in between is new to the sink, and all of it is read.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workers.errors import MalformedTable, NotFound, StorageFailed
from workers.json_text import read_json
from workers.sink.config import SinkConfig
from workers.sink.offsets import OffsetMap, format_offsets, parse_offsets
from workers.sink.sink_paths import SinkPaths
from workers.sink.start_offsets import TopicRange, get_configured_offsets
from workers.storage.base import Storage

_TRIES_MAX = 100
_LATEST = "latest"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _InitialOffsets:
    start: str | Mapping[int, int]
    """`hoodie.kafka.start.offsets` of the launch that stored the offsets."""
    topic_id: str
    offsets: OffsetMap
    """Partitions without an entry are read from their first offset."""

    def encode(self) -> bytes:
        body = {"topic_id": self.topic_id, "offsets": format_offsets(self.offsets)}
        # A file without start is `latest`: older versions stored nothing else.
        start = {} if self.start == _LATEST else {"start": self.start}
        return json.dumps(body | start).encode()


def resolve_initial_offsets(storage: Storage, config: SinkConfig, topic: TopicRange) -> OffsetMap:
    """Return the initial offset of each partition that has one. The other partitions are new to
    the sink.

    The first caller stores its offsets. A launch with other start offsets replaces them. The result
    is empty for a topic that was created again since.

    Raises OffsetsMissing, MalformedTable; StorageFailed and WriteOutcomeUnknown, after which the
    caller may retry.
    """
    path = SinkPaths(config.sink_id).initial_offsets
    start = config.start_offsets
    for _ in range(_TRIES_MAX):
        try:
            stored = storage.read_tagged(path)
        except NotFound:
            chosen = _InitialOffsets(start, topic.topic_id, get_configured_offsets(config, topic))
            if storage.put_if_absent(path, chosen.encode()):
                return chosen.offsets
            continue
        initial = _decode_initial_offsets(stored.content, path)
        if (initial.start, initial.topic_id) == (start, topic.topic_id):
            return initial.offsets
        is_new = initial.start == start
        chosen = _InitialOffsets(
            start, topic.topic_id, {} if is_new else get_configured_offsets(config, topic)
        )
        if storage.replace_if_match(path, chosen.encode(), stored.tag) is not None:
            if is_new:
                _log.warning(
                    "the topic was created again before the first commit, and is read from its "
                    "first offsets: topic=%s before=%s id=%s",
                    config.topic,
                    initial.topic_id,
                    topic.topic_id,
                )
            return chosen.offsets
    raise StorageFailed("others change it all the time", path=path, tries=_TRIES_MAX)


def _decode_initial_offsets(content: bytes, path: str) -> _InitialOffsets:
    try:
        body = read_json(content)
        start = _parse_start(body.get("start", _LATEST))
        return _InitialOffsets(start, str(body["topic_id"]), parse_offsets(body["offsets"]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MalformedTable("where the sink first looked is damaged", path=path) from error


def _parse_start(value: Any) -> str | Mapping[int, int]:
    if isinstance(value, str):
        return value
    return {int(partition): int(offset) for partition, offset in value.items()}
