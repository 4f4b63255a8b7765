"""Where the topic ended when a sink first looked at it: what `latest` means until the first commit.

From the first commit on the table knows. Before that, whoever comes next reads it here, so that
records which came after the sink was started are read, whoever died meanwhile.
"""

from __future__ import annotations

import json

from workers.errors import MalformedTable, NotFound, StorageFailed
from workers.json_text import read_json
from workers.sink.beginning import TopicRange
from workers.sink.offsets import OffsetMap, format_offsets, parse_offsets
from workers.sink.places import SinkPlaces
from workers.storage.base import Storage

_TRIES_MAX = 100


def first_look(storage: Storage, sink_id: str, topic: TopicRange) -> OffsetMap:
    """Partition to where it ended when the topic was first looked at; kept by whoever asks first.
    What was seen of a topic that has been made anew since is replaced.

    Raises MalformedTable; StorageFailed, WriteOutcomeUnknown, after which it is asked again.
    """
    path = SinkPlaces(sink_id).first_look
    ends = {one: high for one, (_, high) in topic.watermarks.items()}
    seen = json.dumps({"topic_id": topic.topic_id, "offsets": format_offsets(ends)}).encode()
    for _ in range(_TRIES_MAX):
        try:
            kept = storage.read_tagged(path)
        except NotFound:
            if storage.put_if_absent(path, seen):
                return ends
            continue
        topic_id, offsets = _decode(kept.content, path)
        if topic_id == topic.topic_id:
            return offsets
        if storage.replace_if_match(path, seen, kept.tag) is not None:
            return ends
    raise StorageFailed("others change it all the time", path=path, tries=_TRIES_MAX)


def _decode(content: bytes, path: str) -> tuple[str, OffsetMap]:
    try:
        body = read_json(content)
        return str(body["topic_id"]), parse_offsets(body["offsets"])
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedTable("where the sink first looked is damaged", path=path) from error
