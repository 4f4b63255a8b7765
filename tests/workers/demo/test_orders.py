"""What the demo produces: new orders, changes, some taken back, now and then poison; repeatable."""

from __future__ import annotations

import json
from collections import Counter

from tests.workers.sink.decoding.raw import raw_batch, sink
from workers.demo.orders import KEY, ORDERING, PARTITION_BY, SCHEMA, Event, Orders
from workers.sink.decoding.decoder import build_decoder

AT_MS = 1_700_000_000_000


def events(count: int, *, seed: int = 7, run: int = 1) -> list[Event]:
    orders = Orders(seed, run)
    return [orders.event(number, AT_MS + number) for number in range(count)]


def test_orders_are_new_changed_taken_back_and_sometimes_poison() -> None:
    made = events(3_000)
    batch = raw_batch([one.value for one in made], keys=[one.key for one in made])

    decoded = build_decoder(sink(), SCHEMA, required=(KEY, PARTITION_BY, ORDERING))(batch)

    assert len(decoded.bad) == 3_000 // 150
    assert 50 < len(decoded.tombstones) < 200
    times = Counter(decoded.rows.column(KEY).to_pylist())
    assert len(times) > 1_500
    assert max(times.values()) >= 3
    assert len({one.cause for one in decoded.bad}) == 3


def test_tombstones_name_the_order_as_its_record_does() -> None:
    keys = {one.key for one in events(2_000) if one.value is not None}
    taken_back = [one.key for one in events(2_000) if one.value is None]

    assert taken_back
    for key in taken_back:
        assert set(json.loads(key)) == {KEY, PARTITION_BY}
    assert len([key for key in taken_back if key in keys]) > len(taken_back) / 3


def test_events_depend_on_seed_run_and_number_alone() -> None:
    assert events(200) == events(200)
    assert events(200) != events(200, seed=8)
    assert not {one.key for one in events(200)} & {one.key for one in events(200, run=2)}
