"""What the coordinator shows of its participants and of the topic."""

from __future__ import annotations

from pathlib import Path

from workers.clock import SystemClock
from workers.sink.coordinator_state import CoordinatorName, CoordinatorState, Seen, Transaction
from workers.sink.messages import Outcome, ParticipantName, Report
from workers.sink.runtime.shown import SinkShown
from workers.sink.state_file import read_state
from workers.storage.local import LocalStorage

INSTANT = "20261122100426622"


def members(storage: LocalStorage) -> dict[int, bool]:
    state = read_state(storage, "orders")
    assert state is not None
    return {one.partition: one.is_member for one in state.participants}


def test_a_partition_that_was_added_is_no_member_until_the_next_transaction(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    shown = SinkShown(storage, "orders", "orders", "c", SystemClock())
    shown.topic({0: (0, 5), 1: (0, 3)})
    state = CoordinatorState("c", 1, "run", transaction=Transaction(INSTANT, {0: 0}, "{}", ""))

    shown.state(state, 1_000)
    assert members(storage) == {0: True, 1: False}

    between = CoordinatorState("c", 1, "run")
    shown.state(between, 9_000)
    assert members(storage) == {0: True, 1: True}


def test_the_topics_end_is_never_behind_what_was_committed_of_it(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    shown = SinkShown(storage, "orders", "orders", "c", SystemClock())
    shown.topic({0: (0, 100), 1: (0, 50)})
    report = Report(1, INSTANT, "p-0", 0, Outcome.PREPARED, 90, 110, records=20)

    shown.committed(INSTANT, (report,), 1_000)
    shown.table({0: 110, 1: 50})
    shown.state(CoordinatorState("c", 1, "run", name=CoordinatorName.STOPPED), 1_000)

    assert ends(storage) == [(110, 110), (50, 50)]


def test_the_topics_end_is_never_behind_what_was_read_since_the_last_look(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    shown = SinkShown(storage, "orders", "orders", "c", SystemClock())
    shown.table({0: 90, 1: 50})
    shown.topic({0: (0, 100), 1: (0, 50)})

    def state(read: int, now_ms: int) -> CoordinatorState:
        seen = {0: Seen("p-0", 0, ParticipantName.OPEN, INSTANT, read, now_ms)}
        return CoordinatorState("c", 1, "run", name=CoordinatorName.STOPPED, participants=seen)

    shown.state(state(120, 1_000), 1_000)
    assert ends(storage) == [(90, 120), (50, 50)]

    # The topic was deleted and made again: what was read of the other one proves nothing.
    shown.topic({0: (0, 7), 1: (0, 0)})
    shown.state(state(120, 2_000), 2_000)
    assert ends(storage) == [(90, 7), (50, 0)]


def ends(storage: LocalStorage) -> list[tuple[int | None, int | None]]:
    """Of each partition in the table and of the topic."""
    state = read_state(storage, "orders")
    assert state is not None
    return [(one.table_offset, one.broker_offset) for one in state.participants]
