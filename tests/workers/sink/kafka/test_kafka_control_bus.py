"""The control topic on a real broker: seen by all who listen, from when they say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.kafka import client, eventually, sink_of
from workers.clock import SystemClock
from workers.errors import KafkaFailed
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.control_bus import ControlBus
from workers.sink.kafka.topics import Topics, produce

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

Opens = Callable[[str], ControlBus]


@pytest.fixture
def opens(kafka: Broker, topic: str) -> Iterator[Opens]:
    opened = []

    def bus(worker: str) -> ControlBus:
        opened.append(ControlBus(sink_of(kafka, topic), {}, SystemClock(), worker=worker))
        return opened[-1]

    yield bus
    for opened_bus in opened:
        opened_bus.close()


def test_every_worker_sees_every_message_in_order_and_the_sender_too(opens: Opens) -> None:
    buses = [opens("a"), opens("b"), opens("c")]
    sent = [b"%d" % at * 1_000 for at in range(300)]

    buses[0].publish(sent)

    assert [heard(bus, 300) for bus in buses] == [sent] * 3


def test_topic_is_made_with_one_partition_by_whoever_comes_first(
    opens: Opens, topics: Topics, topic: str
) -> None:
    opens("a")
    opens("b")

    assert list(topics.facts(f"{topic}-control").watermarks) == [0]


def test_history_is_not_read_and_nothing_is_missed_from_when_a_bus_is_there(
    opens: Opens, kafka: Broker, topic: str
) -> None:
    opens("a").publish([b"garbage", b"\x00" * 100])

    late = opens("b")
    produce(client(kafka), f"{topic}-control", 0, [(None, b"first"), (None, b"second")])

    assert heard(late, 2) == [b"first", b"second"]


def test_large_message_fits_as_it_is(opens: Opens) -> None:
    bus = opens("a")

    bus.publish([b"x" * 600_000, b"y"])

    assert [len(one) for one in heard(bus, 2)] == [600_000, 1]


def test_wiped_topic_loses_messages_and_nothing_else(
    opens: Opens, topics: Topics, topic: str
) -> None:
    slow, quick = opens("slow"), opens("quick")
    quick.publish([b"lost to one"] * 5)
    assert heard(quick, 5) == [b"lost to one"] * 5
    topics.delete_records(f"{topic}-control", {0: -1})

    quick.publish([b"after"])

    assert heard(quick, 1) == [b"after"]
    eventually(lambda: b"after" in slow.poll(0.2))


def test_deleted_topic_is_made_again_by_who_publishes_and_all_hear_it(
    opens: Opens, topics: Topics, topic: str
) -> None:
    bus, other = opens("one"), opens("other")
    bus.publish([b"before"])
    topics.delete(f"{topic}-control")

    eventually(lambda: is_heard_by_all(bus, [bus, other]))
    eventually(lambda: is_heard_by_all(other, [bus, other]))


def is_heard_by_all(bus: ControlBus, listening: list[ControlBus]) -> bool:
    """Messages may be lost until each consumer has met the new topic; so they are sent again."""
    try:
        bus.publish([b"again"])
    except KafkaFailed:
        return False
    heard_by = [b"again" in one.poll(0.3) for one in listening]
    return all(heard_by)


def heard(bus: ControlBus, count: int) -> list[bytes]:
    messages: list[bytes] = []

    def has_all() -> bool:
        messages.extend(bus.poll(0.2))
        return len(messages) >= count

    eventually(has_all)
    return messages
