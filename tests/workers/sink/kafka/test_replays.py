"""Dead letters go back to their topic as they were, and each once, whoever dies or asks again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import IsolationLevel as Level
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.support.kafka import client, eventually, fresh_topic, sink_of
from tests.workers.sink.kafka.test_kafka_consumer import read
from tests.workers.sink.sinks import append_table, batch, write
from workers.errors import SinkFenced
from workers.lakehouse import open_table
from workers.ports import system_ports
from workers.sink.batch import BadRecord
from workers.sink.config import SinkConfig
from workers.sink.dead_letter_selection import (
    DeadLetterSelection,
    SelectedDeadLetters,
    parse_selection,
    select_dead_letters,
)
from workers.sink.dead_letters import list_dead_letter_files
from workers.sink.decoding.decoder import build_decoder
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.client_config import consumer_settings
from workers.sink.kafka.consumer import PartitionConsumer
from workers.sink.kafka.replay import TIME_HEADER, TOKEN_HEADER, ReplayResult, replay_letters
from workers.sink.kafka.topics import Topics
from workers.sink.replays import DeadLetterId, Replay, claim_letters, read_replays
from workers.sink.sink_commits import ID_KEY
from workers.storage.local import LocalStorage
from workers.table.table import Table, open_

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

AT_MS = int(time.time() * 1000) - 3_600_000
"""Recent: the broker deletes what is older than a week whenever it looks."""
HEADERS: list[tuple[str, str | bytes | None]] = [("trace", b"7f"), ("empty", None)]
OWN_HEADERS = (TOKEN_HEADER, TIME_HEADER)
Record = tuple[bytes | None, bytes | None, Any, int]


class Desk:
    """A sink's table whose newest commit left out what the topic's first records held."""

    def __init__(self, broker: Broker, topic: str, location: Path) -> None:
        self.config: SinkConfig = sink_of(broker, topic)
        self.topic, self._broker = topic, broker
        self.table = append_table(location)
        self._admin = AdminClient(dict(client(broker)))
        self.topic_id = Topics(client(broker)).topic_id(topic)

    def produce(self, *values: bytes, partition: int = 0) -> None:
        producer = Producer({**client(self._broker)})
        for number, value in enumerate(values):
            producer.produce(
                self.topic,
                value,
                b"key-%d" % number,
                partition,
                timestamp=AT_MS + number,
                headers=HEADERS,
            )
        assert producer.flush(20) == 0

    def leave_out(self, *, count: int) -> None:
        """As a sink does: what is read and no JSON is a letter."""
        decode = build_decoder(self.config, pa.schema([("id", pa.int64())]))
        bad = [one for got in self.batches(up_to=count) for one in decode(got).bad]
        write(self.table, self.config, batch([], bad=bad), end=count, topic_id=self.topic_id)

    def batches(self, *, up_to: int, first: int = 0) -> list[Any]:
        settings = consumer_settings(self.config, {})
        consumer = PartitionConsumer(settings, self.topic, 0, wants_keys=False)
        consumer.seek(first)
        consumer.resume()
        try:
            return read(consumer, up_to=up_to)
        finally:
            consumer.close()

    def records(self, *, first: int, up_to: int) -> list[Record]:
        """(key, value, headers without the replay's own, when they were first sent)."""
        return [
            (
                one.key(),
                got.values[at],
                [each for each in one.headers() or () if each[0] not in OWN_HEADERS],
                first_sent(one.headers() or (), int(got.timestamps_ms[at])),
            )
            for got in self.batches(first=first, up_to=up_to)
            for at, one in enumerate(got.records)
        ]

    def replay(
        self,
        choice: DeadLetterSelection | None = None,
        *,
        token: str = "t",
        table: Table | None = None,
    ) -> ReplayResult:
        return replay_letters(
            table or self.table, self.config, {}, self.choose(choice), token=token, by="ada"
        )

    def choose(
        self, choice: DeadLetterSelection | None = None
    ) -> Callable[[Collection[DeadLetterId]], SelectedDeadLetters]:
        own = open_table(self.table.storage.location).table
        names = list_dead_letter_files(own, sink_key=ID_KEY, sink_id=self.config.sink_id)
        directory = f"{own.storage.location}-dead-letters"
        return lambda sent: select_dead_letters(
            directory, names, choice or DeadLetterSelection(), sent
        )

    def end(self, level: Level) -> int:
        """Of partition 0."""
        place = TopicPartition(self.topic, 0)
        latest_offsets = self._admin.list_offsets(
            {place: OffsetSpec.latest()}, isolation_level=level
        )
        return int(latest_offsets[place].result(20).offset)

    @property
    def replays(self) -> list[Replay]:
        return read_replays(self.table.storage, self.config.sink_id)


def first_sent(headers: Iterable[tuple[str, Any]], at_ms: int) -> int:
    return int(dict(headers).get(TIME_HEADER) or at_ms)


@pytest.fixture
def desk(kafka: Broker, topics: Topics, tmp_path: Path) -> Desk:
    """Two records that are letters, and one between them that is none."""
    desk = Desk(kafka, fresh_topic(topics, 2), tmp_path / "t")
    desk.produce(b"{poison", b'{"id": 1}', b"poison}")
    desk.leave_out(count=3)
    return desk


def end_offset(desk: Desk) -> int:
    """When no transaction is open: a broker ends one some time after it took the commit. Without
    the markers of transactions nothing can be counted by offsets, so by records.
    """
    eventually(lambda: desk.end(Level.READ_COMMITTED) == desk.end(Level.READ_UNCOMMITTED))
    return desk.end(Level.READ_COMMITTED)


def test_letters_come_again_with_key_value_headers_partition_and_when_they_were_first_sent(
    desk: Desk, topics: Topics
) -> None:
    done = desk.replay()

    assert done == ReplayResult(sent=2, already=0)
    end = end_offset(desk)
    assert desk.records(first=3, up_to=end) == [
        (b"key-0", b"{poison", HEADERS, AT_MS),
        (b"key-2", b"poison}", HEADERS, AT_MS + 2),
    ]
    sent = [at_ms for got in desk.batches(first=3, up_to=end) for at_ms in got.timestamps_ms]
    assert min(sent) > AT_MS + 3_000_000, "a broker would delete them by their old age"
    assert topics.facts(desk.topic).watermarks[1] == (0, 0)
    (replay,) = desk.replays
    assert (replay.by, replay.is_sent, len(replay.letters)) == ("ada", True, 2)
    assert replay.landed is not None
    assert replay.landed.offsets == ((0, 0, 3), (0, 2, 4))
    assert replay.landed.topic_id == desk.topic_id


def test_a_letter_is_sent_once_however_often_it_is_asked_for(desk: Desk) -> None:
    choice = parse_selection(places=[f"0:{2}"])

    assert desk.replay(choice, token="a") == ReplayResult(sent=1, already=0)
    assert desk.replay(choice, token="b") == ReplayResult(sent=0, already=1)
    assert desk.replay(token="c") == ReplayResult(sent=1, already=1)
    assert desk.replay(token="d") == ReplayResult(sent=0, already=2)

    end = end_offset(desk)
    again = [value for _, value, _, _ in desk.records(first=3, up_to=end)]
    assert again == [b"poison}", b"{poison"]


def test_only_letters_of_the_cause_are_sent(kafka: Broker, topics: Topics, tmp_path: Path) -> None:
    desk = Desk(kafka, fresh_topic(topics, 2), tmp_path / "t")
    bad = [BadRecord(4, b"a", b"x", "too long"), BadRecord(5, b"b", b"y", "too short")]
    write(desk.table, desk.config, batch([], bad=bad))

    assert desk.replay(parse_selection(cause="too short")) == ReplayResult(sent=1, already=0)

    assert [one[0] for one in desk.records(first=0, up_to=1)] == [b"b"]


def test_what_was_sent_before_its_end_was_written_down_is_found_in_the_topic(
    desk: Desk,
) -> None:
    desk.replay(token="died here")
    storage, directory = desk.table.storage, f".hoodie/.sluice/sink/{desk.config.sink_id}/replays"
    storage.delete(f"{directory}/00000001.end")
    end = end_offset(desk)

    assert [one.is_sent for one in desk.replays] == [None]
    assert desk.replay(token="next") == ReplayResult(sent=0, already=2)

    assert [one.is_sent for one in desk.replays] == [True]
    assert end_offset(desk) == end


def test_what_was_claimed_and_never_sent_is_sent_by_the_next(desk: Desk) -> None:
    letters = tuple(DeadLetterId(desk.topic, 0, offset, desk.topic_id) for offset in (0, 2))
    dead = Replay(1, "died before", "bob", AT_MS, letters, ((0, 3), (1, 0)))
    assert claim_letters(desk.table.storage, desk.config.sink_id, dead)

    assert desk.replay(token="next") == ReplayResult(sent=2, already=0)

    assert [(one.number, one.by, one.is_sent) for one in desk.replays] == [
        (1, "bob", False),
        (2, "ada", True),
    ]


class Overtaken(LocalStorage):
    """Somebody else's whole replay comes in between a claim and its sending."""

    def __init__(self, location: str, rival: Callable[[], ReplayResult]) -> None:
        super().__init__(location)
        self._rival: Callable[[], ReplayResult] | None = rival
        self.rival_outcome: ReplayResult | None = None

    def put_if_absent(self, path: str, content: bytes) -> bool:
        is_mine = super().put_if_absent(path, content)
        if "/replays/" in path and self._rival is not None:
            rival, self._rival = self._rival, None
            self.rival_outcome = rival()
        return is_mine


def test_of_two_replays_at_once_the_later_one_sends(desk: Desk) -> None:
    storage = Overtaken(desk.table.storage.location, lambda: desk.replay(token="rival"))

    with pytest.raises(SinkFenced, match="another replay"):
        desk.replay(token="first", table=open_(storage, system_ports()))

    assert storage.rival_outcome == ReplayResult(sent=2, already=0)
    assert [(one.token, one.is_sent) for one in desk.replays] == [
        ("first", False),
        ("rival", True),
    ]
    end = end_offset(desk)
    assert len(desk.records(first=3, up_to=end)) == 2
    assert desk.replay(token="third") == ReplayResult(sent=0, already=2)


def test_of_a_row_that_the_table_refused_the_record_itself_is_sent(
    kafka: Broker, topics: Topics, tmp_path: Path
) -> None:
    desk = Desk(kafka, fresh_topic(topics, 2), tmp_path / "t")
    desk.produce(b"0", b"1", b"2", b"3")
    row = b'{"id": null}'
    bad = [BadRecord(at, None, row, "key is null", AT_MS, is_decoded=True) for at in (1, 3)]
    write(desk.table, desk.config, batch([], bad=bad), topic_id=desk.topic_id)
    topics.delete_records(desk.topic, {0: 2})

    assert desk.replay() == ReplayResult(sent=1, already=0, lost=1)

    end = end_offset(desk)
    assert desk.records(first=4, up_to=end) == [(b"key-3", b"3", HEADERS, AT_MS + 3)]


def test_of_a_topic_that_was_made_anew_no_record_is_sent_in_the_place_of_another(
    kafka: Broker, topics: Topics, tmp_path: Path
) -> None:
    """The letter has the row that was decoded; the record itself was in the topic before."""
    desk = Desk(kafka, fresh_topic(topics, 2), tmp_path / "t")
    desk.produce(b"0", b"1")
    bad = [BadRecord(1, None, b'{"id": null}', "key is null", AT_MS, is_decoded=True)]
    write(desk.table, desk.config, batch([], bad=bad), topic_id="the-topic-before")

    assert desk.replay() == ReplayResult(sent=0, already=0, lost=1)
