"""Bounded reads of a topic: the records between settled offsets, each once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.kafka import client
from workers.clock import SystemClock
from workers.errors import InvalidInput, NotFound, OffsetExpired
from workers.sink.bounded_read import OffsetRanges, parse_bounded_read
from workers.sink.bounded_reader import TopicReader, resolve_offsets
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.topics import Topics, produce

_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64()}
SCHEMA = pa.schema(_TYPES)


def send(kafka: Broker, topic: str, partition: int, *texts: str) -> None:
    produce(client(kafka), topic, partition, [(None, text.encode()) for text in texts])


def rows_of(number: int, start: int = 0) -> list[str]:
    return [json.dumps({"id": str(at), "ts": at}) for at in range(start, start + number)]


def source(kafka: Broker, topic: str, **more: Any) -> dict[str, Any]:
    begin = {} if "start_at_ms" in more else {"start": "earliest"}
    return {"topic": topic, "bootstrap": kafka.bootstrap, **begin, **more}


def read(kafka: Broker, given: dict[str, Any], path: Path) -> tuple[OffsetRanges, list[Any]]:
    bounded = parse_bounded_read(given)
    ranges = resolve_offsets(bounded, {})
    TopicReader(bounded, {}, SystemClock()).spool(ranges, SCHEMA, ["id"], path)
    with path.open("rb") as file:
        return ranges, pq.read_table(file).column("id").to_pylist()


def spans(ranges: OffsetRanges) -> dict[int, tuple[int, int]]:
    """Of the partitions of which anything is read."""
    return {at: span for at, span in ranges.of_partition.items() if span[0] < span[1]}


@pytest.mark.slow
def test_records_up_to_the_settled_end_are_read_and_the_same_again(
    kafka: Broker, topic: str, tmp_path: Path
) -> None:
    send(kafka, topic, 0, *rows_of(30))
    send(kafka, topic, 1, *rows_of(5, start=100))
    given = source(kafka, topic)

    ranges = resolve_offsets(parse_bounded_read(given), {})
    send(kafka, topic, 0, *rows_of(10, start=50))
    settled = {**given, "offsets": ranges.encode()}
    again, ids = read(kafka, settled, tmp_path / "a.parquet")

    assert again == ranges
    assert spans(ranges) == {0: (0, 30), 1: (0, 5)}
    assert sorted(map(int, ids)) == [*range(30), *range(100, 105)]
    some, later = read(kafka, {**given, "start": '{"0": 28, "1": 5}'}, tmp_path / "b.parquet")
    assert some.records_max == 12
    assert sorted(map(int, later)) == [28, 29, *range(50, 60)]


@pytest.mark.slow
def test_a_read_from_a_time_on_begins_with_its_first_record(
    kafka: Broker, topic: str, tmp_path: Path
) -> None:
    send(kafka, topic, 0, *rows_of(3))
    time.sleep(0.05)
    at_ms = time.time_ns() // 1_000_000
    time.sleep(0.05)
    send(kafka, topic, 0, *rows_of(2, start=10))

    ranges, ids = read(kafka, source(kafka, topic, start_at_ms=at_ms), tmp_path / "a.parquet")

    assert (spans(ranges), ids) == ({0: (3, 5)}, ["10", "11"])


@pytest.mark.slow
def test_a_record_that_is_no_row_is_named(
    kafka: Broker, topic: str, topics: Topics, tmp_path: Path
) -> None:
    send(kafka, topic, 1, '{"id": "1", "ts": 1}', '{"id": "2", "ts": "soon"}', '{"ts": 3}')

    with pytest.raises(InvalidInput, match="partition=1 offset=1"):
        read(kafka, source(kafka, topic), tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match="offset=2"):
        read(kafka, source(kafka, topic, start='{"1": 2}'), tmp_path / "b.parquet")
    with pytest.raises(NotFound):
        read(kafka, source(kafka, "there-is-none"), tmp_path / "c.parquet")
    with pytest.raises(InvalidInput, match="no such partitions"):
        read(kafka, source(kafka, topic, start='{"7": 0}'), tmp_path / "d.parquet")
    ranges = resolve_offsets(parse_bounded_read(source(kafka, topic)), {})
    topics.delete_records(topic, {1: 2})
    with pytest.raises(OffsetExpired):
        resolve_offsets(parse_bounded_read(source(kafka, topic, offsets=ranges.encode())), {})
    other = OffsetRanges("another", ranges.of_partition)
    with pytest.raises(InvalidInput, match="created again"):
        resolve_offsets(parse_bounded_read(source(kafka, topic, offsets=other.encode())), {})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"librdkafka": "x"}, "unknown keys"),
        ({"sasl.oauthbearer.token.endpoint.url": "http://inside"}, "unknown keys"),
        ({"bootstrap": 5}, "wants a text"),
        ({"topic": "../x"}, "not a name"),
        ({"start": "latest"}, "does not begin there"),
        ({"start": ""}, "one of the two"),
        ({"start_at_ms": 5}, "one of the two"),
        ({"start": "", "start_at_ms": -1}, "milliseconds"),
        ({"format": "avro"}, "json and csv"),
        ({"offsets": "{}"}, "offsets of a bounded read"),
        (
            {"offsets": '{"topic_id": "a", "partitions": {"0": [5, 1]}}'},
            "offsets of a bounded read",
        ),
    ],
)
def test_fields_of_a_read_are_typed_and_no_others_are_taken(
    changes: dict[str, Any], words: str
) -> None:
    """Threat T5."""
    given = {"topic": "trips", "bootstrap": "localhost:9092", "start": "earliest", **changes}

    with pytest.raises(InvalidInput, match=words):
        parse_bounded_read(given)
