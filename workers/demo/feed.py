"""Produces the demo's orders, so many a second, until it has produced them all:
`python -m workers.demo.feed <directory of the broker>`.

A broker that is away for a while only delays it. It ends with 0 when it is done.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, Producer

from workers.clock import Clock, SystemClock
from workers.demo.orders import Event, Orders
from workers.demo.ports import read_ports
from workers.errors import InvalidInput, KafkaFailed
from workers.installation import format_command
from workers.sink.config import SinkConfig, sink_config
from workers.sink.kafka.client_config import producer_settings
from workers.sink.kafka.failures import build_failure

TOPIC: Final = "shop-orders"
PARTITIONS: Final = 3
PER_SECOND: Final = 15
RECORDS: Final = 15 * 60 * 30
"""Half an hour."""
_SEED: Final = 7
_DELIVERY_S: Final = 120.0


class Feed:
    """Produces orders to the sink's topic; its producer tries for `delivery_s` to get each
    delivered.
    """

    def __init__(
        self, config: SinkConfig, orders: Orders, clock: Clock, *, delivery_s: float = _DELIVERY_S
    ) -> None:
        self._topic = config.topic
        self._delivery_s = delivery_s
        self._orders = orders
        self._clock = clock
        self._producer = Producer(dict(producer_settings(config, {}, timeout_s=delivery_s)))
        self._refused: list[KafkaError] = []

    def run(self, records: int, per_second: int) -> int:
        """Returns how many the broker has; raises KafkaFailed when it did not take one."""
        began_s = self._clock.monotonic_s()
        for number in range(records):
            self._send(self._orders.event(number, self._clock.now_ms()))
            due_s = began_s + (number + 1) / per_second
            self._clock.sleep(max(0.0, due_s - self._clock.monotonic_s()))
        waiting = self._producer.flush(self._delivery_s + 1)
        self._check()
        if waiting:
            raise KafkaFailed("orders not sent in time", topic=self._topic, waiting=waiting)
        return records

    def _send(self, event: Event) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, event.value, event.key, on_delivery=self._delivered
                )
            except BufferError:
                self._producer.poll(0.5)
            else:
                break
        self._producer.poll(0)
        self._check()

    def _delivered(self, error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            self._refused.append(error)

    def _check(self) -> None:
        if self._refused:
            raise build_failure("an order was not sent", self._refused[0], topic=self._topic)


def main(directory: Path) -> None:
    """Produce the demo's orders to this directory's broker. Raises InvalidInput, KafkaFailed."""
    ports = read_ports(directory)
    if ports is None:
        raise InvalidInput("the demo's broker has no ports yet", directory=str(directory))
    clock = SystemClock()
    config = sink_config(
        {"hoodie.kafka.topic": TOPIC, "bootstrap.servers": f"127.0.0.1:{ports[0]}"}
    )
    sent = Feed(config, Orders(_SEED, clock.now_ms() // 1000), clock).run(RECORDS, PER_SECOND)
    sys.stdout.write(f"{sent} orders produced; `{format_command('demo --start')}` produces more\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
