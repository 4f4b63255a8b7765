"""Replays of dead letters: a claim is stored before they are sent, and an end afterwards.

A replay is a claim on its dead letters, stored under the next number by one conditional write. It
is over when its end is stored too. A claim without an end was interrupted. The next replay finds
its outcome in the topic (`workers.sink.kafka.replay`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from workers.errors import MalformedTable
from workers.json_text import read_json
from workers.sink.sink_paths import SinkPaths
from workers.storage.base import Storage

_DIGITS = 8
_CLAIM, _END = ".json", ".end"


@dataclass(frozen=True, slots=True, order=True)
class DeadLetterId:
    """Coordinates of a record in the sink's topic, which has at most one dead letter."""

    topic: str
    partition: int
    offset: int
    topic_id: str = ""
    """Empty in dead letters of older versions. A topic that was created again has other records at
    the same offsets.
    """


@dataclass(frozen=True, slots=True)
class ReplayedOffsets:
    """New coordinates of the records of a replay, from which row keys are built."""

    topic_id: str
    cluster_id: str
    offsets: tuple[tuple[int, int, int], ...]
    """(partition, offset of the dead letter, new offset)."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A claim on dead letters, and its end if it has one. `at_ms` is ms since 1970, UTC."""

    number: int
    token: str
    """Unique to this replay; in a header of each record that it sends."""
    by: str
    at_ms: int
    letters: tuple[DeadLetterId, ...]
    ends: tuple[tuple[int, int], ...]
    """(partition, end offset) before sending. New records have these offsets or higher ones."""
    is_sent: bool | None = None
    """None while the outcome is unknown."""
    until: tuple[tuple[int, int], ...] = ()
    """(partition, end offset) after sending. New records have lower offsets. Empty if unknown."""
    landed: ReplayedOffsets | None = None
    """None if the sender ended before it stored them."""


def read_replays(storage: Storage, sink_id: str) -> list[Replay]:
    """Return all replays of the sink, by number. Raises MalformedTable."""
    directory = SinkPaths(sink_id).replays
    names = set(storage.list_names(directory))
    return [
        _read_replay(storage, f"{directory}/{name}", has_end=_to_end_name(name) in names)
        for name in sorted(names)
        if name.endswith(_CLAIM)
    ]


def find_sent_letters(replays: Iterable[Replay]) -> dict[DeadLetterId, Replay]:
    """Return the dead letters that were sent, with the newest replay that sent each."""
    return {letter: replay for replay in replays if replay.is_sent for letter in replay.letters}


def find_claims(replays: Iterable[Replay], token: str) -> list[Replay]:
    """Return the claims with this token that were sent or may have been. A claim that was
    interrupted before it sent anything is left out: the next replay claimed its dead letters again.
    """
    return [replay for replay in replays if replay.token == token and replay.is_sent is not False]


def claim_letters(storage: Storage, sink_id: str, replay: Replay) -> bool:
    """Store the claim. Return False if another replay has this number."""
    path = f"{SinkPaths(sink_id).replays}/{replay.number:0{_DIGITS}d}{_CLAIM}"
    body = asdict(replay)
    del body["number"], body["is_sent"], body["until"], body["landed"]
    body["letters"] = [[*astuple(letter)] for letter in replay.letters]
    return storage.put_if_absent(path, json.dumps(body).encode())


def store_end(
    storage: Storage,
    sink_id: str,
    replay: Replay,
    *,
    is_sent: bool,
    until: tuple[tuple[int, int], ...] = (),
    landed: ReplayedOffsets | None = None,
) -> Replay:
    """Store the end of the replay, unless it has one. All processes that store it agree on it."""
    path = f"{SinkPaths(sink_id).replays}/{replay.number:0{_DIGITS}d}{_END}"
    body = {"is_sent": is_sent, "until": until, "landed": asdict(landed) if landed else None}
    storage.put_if_absent(path, json.dumps(body).encode())
    return replace(replay, is_sent=is_sent, until=until, landed=landed)


def _read_replay(storage: Storage, path: str, *, has_end: bool) -> Replay:
    try:
        body = read_json(storage.read(path))
        end = read_json(storage.read(_to_end_name(path))) if has_end else {}
        return Replay(
            number=int(path.rpartition("/")[2].removesuffix(_CLAIM)),
            token=str(body["token"]),
            by=str(body["by"]),
            at_ms=int(body["at_ms"]),
            letters=tuple(_parse_letter(*values) for values in body["letters"]),
            ends=_parse_pairs(body["ends"]),
            is_sent=end["is_sent"] if has_end else None,
            until=_parse_pairs(end.get("until") or ()),
            landed=_parse_replayed_offsets(end.get("landed")),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedTable("the record of a replay is damaged", path=path) from error


def _parse_pairs(pairs: Iterable[Iterable[object]]) -> tuple[tuple[int, int], ...]:
    return tuple((int(str(partition)), int(str(offset))) for partition, offset in pairs)


def _parse_replayed_offsets(body: Mapping[str, Any] | None) -> ReplayedOffsets | None:
    """Parse the offsets. Raises ValueError, TypeError, KeyError for an invalid body."""
    if body is None:
        return None
    offsets = tuple((int(partition), int(old), int(new)) for partition, old, new in body["offsets"])
    return ReplayedOffsets(str(body["topic_id"]), str(body["cluster_id"]), offsets)


def _parse_letter(topic: str, partition: int, offset: int, topic_id: str = "") -> DeadLetterId:
    return DeadLetterId(str(topic), int(partition), int(offset), str(topic_id))


def _to_end_name(name: str) -> str:
    return name.removesuffix(_CLAIM) + _END


def list_ends(watermarks: Mapping[int, tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the `ends` of a claim, from the watermarks of `Topics.facts`."""
    return tuple((partition, end) for partition, (_, end) in sorted(watermarks.items()))
