"""Which dead letters were sent to their topic again: written down beside the table before they are
sent, and once more when it is known how that ended.

A replay is a claim on its letters, put under the next number by one conditional write. It is over
when its end stands beside it. One that has no end was cut off, and whoever comes next finds out
from the topic what became of it (`workers.sink.kafka.replay`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from workers.errors import MalformedTable
from workers.json_text import read_json
from workers.sink.places import SinkPlaces
from workers.storage.base import Storage

_DIGITS = 8
_CLAIM, _END = ".json", ".end"


@dataclass(frozen=True, slots=True, order=True)
class LetterId:
    """A record of the sink's topic; it is a dead letter at most once."""

    topic: str
    partition: int
    offset: int
    topic_id: str = ""
    """A topic that was made anew has other records at these offsets. Letters from before it was
    kept have none.
    """


@dataclass(frozen=True, slots=True)
class Landed:
    """Where the letters of a replay stand in the topic again: what keys of rows are made of."""

    topic_id: str
    cluster_id: str
    offsets: tuple[tuple[int, int, int], ...]
    """(partition, offset of the letter, offset of what was sent)."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A claim on letters, and its end where one stands; `at_ms` is when it was made, UTC."""

    number: int
    token: str
    """Unique to this replay; in a header of each record that it sends."""
    by: str
    at_ms: int
    letters: tuple[LetterId, ...]
    ends: tuple[tuple[int, int], ...]
    """(partition, offset): where the partitions ended, so that what it sent comes behind."""
    is_sent: bool | None = None
    """None while nobody knows."""
    until: tuple[tuple[int, int], ...] = ()
    """As `ends`, once all was sent: what it sent lies before. Empty where nobody looked."""
    landed: Landed | None = None
    """None where whoever sent it did not come to write that down."""


def read_replays(storage: Storage, sink_id: str) -> list[Replay]:
    """By number. Raises MalformedTable."""
    directory = SinkPlaces(sink_id).replays
    names = set(storage.list_names(directory))
    return [
        _read(storage, f"{directory}/{name}", has_end=_end_of(name) in names)
        for name in sorted(names)
        if name.endswith(_CLAIM)
    ]


def sent_letters(replays: Iterable[Replay]) -> dict[LetterId, Replay]:
    """The letters that are in the topic again, with the newest replay that sent each."""
    return {letter: one for one in replays if one.is_sent for letter in one.letters}


def claims_of(replays: Iterable[Replay], token: str) -> list[Replay]:
    """What was claimed under this token and was sent, or may have been. A claim that was cut off
    before it sent anything is none: who went on with its work has claimed the letters again.
    """
    return [one for one in replays if one.token == token and one.is_sent is not False]


def claim(storage: Storage, sink_id: str, replay: Replay) -> bool:
    """False when another replay has this number."""
    path = f"{SinkPlaces(sink_id).replays}/{replay.number:0{_DIGITS}d}{_CLAIM}"
    body = asdict(replay)
    del body["number"], body["is_sent"], body["until"], body["landed"]
    body["letters"] = [[*astuple(one)] for one in replay.letters]
    return storage.put_if_absent(path, json.dumps(body).encode())


def put_end(
    storage: Storage,
    sink_id: str,
    replay: Replay,
    *,
    is_sent: bool,
    until: tuple[tuple[int, int], ...] = (),
    landed: Landed | None = None,
) -> Replay:
    """Whoever says it first is right; all who may say it know the same."""
    path = f"{SinkPlaces(sink_id).replays}/{replay.number:0{_DIGITS}d}{_END}"
    body = {"is_sent": is_sent, "until": until, "landed": asdict(landed) if landed else None}
    storage.put_if_absent(path, json.dumps(body).encode())
    return replace(replay, is_sent=is_sent, until=until, landed=landed)


def _read(storage: Storage, path: str, *, has_end: bool) -> Replay:
    try:
        body = read_json(storage.read(path))
        end = read_json(storage.read(_end_of(path))) if has_end else {}
        return Replay(
            number=int(path.rpartition("/")[2].removesuffix(_CLAIM)),
            token=str(body["token"]),
            by=str(body["by"]),
            at_ms=int(body["at_ms"]),
            letters=tuple(_letter(*one) for one in body["letters"]),
            ends=_pairs(body["ends"]),
            is_sent=end["is_sent"] if has_end else None,
            until=_pairs(end.get("until") or ()),
            landed=_landed(end.get("landed")),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedTable("the record of a replay is damaged", path=path) from error


def _pairs(pairs: Iterable[Iterable[object]]) -> tuple[tuple[int, int], ...]:
    return tuple((int(str(partition)), int(str(offset))) for partition, offset in pairs)


def _landed(body: Mapping[str, Any] | None) -> Landed | None:
    """Raises ValueError, TypeError, KeyError for what is none."""
    if body is None:
        return None
    offsets = tuple((int(one), int(was), int(now)) for one, was, now in body["offsets"])
    return Landed(str(body["topic_id"]), str(body["cluster_id"]), offsets)


def _letter(topic: str, partition: int, offset: int, topic_id: str = "") -> LetterId:
    return LetterId(str(topic), int(partition), int(offset), str(topic_id))


def _end_of(name: str) -> str:
    return name.removesuffix(_CLAIM) + _END


def ends_of(watermarks: Mapping[int, tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The claim's `ends`, from the watermarks of `Topics.facts`."""
    return tuple((partition, end) for partition, (_, end) in sorted(watermarks.items()))
