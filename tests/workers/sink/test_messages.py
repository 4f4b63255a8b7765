"""Messages on the control topic: signed, versioned, chunked, and nothing else is listened to."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from workers.errors import InvalidInput
from workers.sink.control_codec import ControlCodec
from workers.sink.messages import (
    AckCommit,
    EndCommit,
    Ignored,
    Message,
    Outcome,
    ParticipantName,
    Ready,
    Report,
    StartCommit,
    from_json,
    to_json,
)

INSTANT = "20260101000000000"
SECRET = b"sixteen bytes at least"
REPORT = Report(
    epoch=3,
    instant=INSTANT,
    sender="p1-a",
    partition=1,
    outcome=Outcome.PREPARED,
    start=5,
    end=2**62,
    records=7,
    gaps=1,
    bad_records=2,
    left_out=3,
    statuses=('{"path": "a"}', "é\n"),
    letters=("{}",),
    max_timestamp_ms=1_700_000_000_000,
)
MESSAGES: list[Message] = [
    StartCommit(3, INSTANT, "c3", {0: 5, 10: 0}, {0: "p0-a", 10: "p10-a"}, "{}", "", ("x y",)),
    EndCommit(3, INSTANT, "c3"),
    AckCommit(3, INSTANT, "c3", {0: 9}, ends_run="run"),
    REPORT,
    Report(3, INSTANT, "p1-a", 1, Outcome.FAILED, 5, 5, reason="disk full"),
    Report(3, INSTANT, "p1-a", 1, Outcome.NEEDS_SCHEMA, 5, 6, new_fields='{"type": "record"}'),
    Ready(3, "", "p1-a", 1, ParticipantName.IDLE, 0, 1_700_000_000_000),
]


def codec(sink: str = "s", table: str = "t", secret: bytes = SECRET, **bounds: int) -> ControlCodec:
    return ControlCodec(sink, table, secret, **bounds)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_as_it_was_sent(message: Message) -> None:
    [record] = codec().encode(message)

    assert codec().decode(record) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_chunks_in_any_order_with_strays_and_repetitions_make_each_message_once(
    message: Message,
) -> None:
    sender, reader, rng = codec(chunk_bytes_max=32), codec(chunk_bytes_max=32), random.Random(5)
    other = replace(message, epoch=4)
    records = [*sender.encode(message), *sender.encode(other)[1:]]
    twice = records + rng.sample(records, len(records) // 2)

    for _ in range(20):
        reader = codec(chunk_bytes_max=32)
        rng.shuffle(records)
        assert [decoded for one in records if (decoded := reader.decode(one))] == [message]
        rng.shuffle(twice)
        assert message in [reader.decode(one) for one in twice]


def test_a_report_beyond_one_record_travels_in_records_that_kafka_takes() -> None:
    large = replace(REPORT, statuses=("x" * 1_000,) * 3_000)

    records = codec().encode(large)

    assert len(records) == 6
    assert max(map(len, records)) < 1_000_000
    reader = codec()
    assert [reader.decode(one) for one in records] == [*[None] * 5, large]


def test_a_message_beyond_any_bound_is_refused_where_it_is_made() -> None:
    with pytest.raises(InvalidInput, match="too large"):
        codec(message_bytes_max=1_000).encode(replace(REPORT, statuses=("x" * 1_000,)))


def test_messages_that_never_become_complete_take_bounded_memory() -> None:
    sender = codec(chunk_bytes_max=100)
    reader = codec(chunk_bytes_max=100, message_bytes_max=5_000)
    for number in range(500):
        first, *_rest = sender.encode(replace(REPORT, records=number))
        assert reader.decode(first) is None

    held = reader._partial._by_id

    assert sum(len(part) for parts in held.values() for part in parts.values()) <= 5_000
    assert len(held) <= 64
    assert reader.ignored == {Ignored.CHUNK: 500 - len(held)}
    assert REPORT in [reader.decode(one) for one in sender.encode(REPORT)]


def forged(**changes: Any) -> bytes:
    body = json.loads(to_json(MESSAGES[0], sink_id="s", table_id="t")) | changes
    return json.dumps({key: one for key, one in body.items() if one is not None}).encode()


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"{", Ignored.MALFORMED),
        (b"[]", Ignored.MALFORMED),
        (b"\xff", Ignored.MALFORMED),
        (forged(protocol_version=1), Ignored.VERSION),
        (forged(protocol_version=None), Ignored.VERSION),
        (forged(type="COMMIT_NOW"), Ignored.TYPE),
        (forged(type=None), Ignored.TYPE),
        (forged(table_id="t2"), Ignored.TABLE),
        (forged(sink_id="s2"), Ignored.SINK),
        (forged(epoch="3"), Ignored.MALFORMED),
        (forged(epoch=-1), Ignored.MALFORMED),
        (forged(epoch=True), Ignored.MALFORMED),
        (forged(epoch=2**63), Ignored.MALFORMED),
        (forged(instant=None), Ignored.MALFORMED),
        (forged(offsets={"x": 1}), Ignored.MALFORMED),
        (forged(offsets={"-1": 1}), Ignored.MALFORMED),
        (forged(offsets=[1]), Ignored.MALFORMED),
        (forged(members={"0": 1}), Ignored.MALFORMED),
        (forged(refused_fields="a"), Ignored.MALFORMED),
    ],
    ids=lambda content: str(content)[-60:],
)
def test_what_is_no_message_of_this_sink_is_told_by_its_cause(
    content: bytes, cause: Ignored
) -> None:
    parsed = from_json(content, sink_id="s", table_id="t")

    assert getattr(parsed, "cause", None) == cause


def test_an_all_default_message_is_not_taken_for_a_start() -> None:
    """In Hudi's protobuf the number 0 is START_COMMIT, and an empty message is one."""
    assert not isinstance(from_json(b"{}", sink_id="s", table_id="t"), StartCommit)


def test_only_the_secret_makes_a_message() -> None:
    [record] = codec().encode(MESSAGES[1])
    reader = codec()
    tampered = [
        record[:at] + bytes([record[at] ^ 1]) + record[at + 1 :] for at in range(len(record))
    ]

    assert [reader.decode(one) for one in tampered] == [None] * len(record)
    assert reader.ignored.keys() == {Ignored.SIGNATURE, Ignored.MALFORMED}
    assert codec(secret=b"another one of sixteen").decode(record) is None
    assert reader.decode(record) == MESSAGES[1]


@pytest.mark.parametrize(
    "record", [b"", b"hello", b"sluice1 ", b"\x00" * 200, b"sluice2 " + b"0" * 64]
)
def test_strangers_records_on_the_control_topic_are_counted_and_nothing_else(record: bytes) -> None:
    reader = codec()

    assert reader.decode(record) is None
    assert reader.ignored == {Ignored.MALFORMED: 1}


def test_a_record_larger_than_a_chunk_is_not_even_verified() -> None:
    reader = codec()

    assert reader.decode(b"x" * (1 << 20)) is None
    assert reader.ignored == {Ignored.SIZE: 1}


def test_two_sinks_share_a_control_topic() -> None:
    [record] = codec(sink="other").encode(MESSAGES[1])
    reader = codec()

    assert reader.decode(record) is None
    assert reader.ignored == {Ignored.SINK: 1}


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(InvalidInput, match="too short"):
        codec(secret=b"guess me")
