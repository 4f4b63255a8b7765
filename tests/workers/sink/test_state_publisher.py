"""What the coordinator shows of its participants and of the topic."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from workers.clock import SystemClock
from workers.sink.coordinator_state import (
    CoordinatorName,
    CoordinatorState,
    ParticipantStatus,
    Transaction,
    Work,
)
from workers.sink.messages import Ignored, Outcome, ParticipantName, Report
from workers.sink.runtime.state_publisher import VOICE, StatePublisher
from workers.sink.state_file import read_state
from workers.storage.local import LocalStorage

INSTANT = "20261122100426622"


def members(storage: LocalStorage) -> dict[int, bool]:
    state = read_state(storage, "orders")
    assert state is not None
    return {one.partition: one.is_member for one in state.participants}


def test_a_partition_that_was_added_is_no_member_until_the_next_transaction(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    shown = StatePublisher(storage, "orders", "orders", "c", SystemClock())
    shown.set_topic_ends({0: (0, 5), 1: (0, 3)})
    state = CoordinatorState("c", 1, "run", transaction=Transaction(INSTANT, {0: 0}, "{}", ""))

    shown.update_state(state, 1_000)
    assert members(storage) == {0: True, 1: False}

    between = CoordinatorState("c", 1, "run")
    shown.update_state(between, 9_000)
    assert members(storage) == {0: True, 1: True}


def test_the_topics_end_is_never_behind_what_was_committed_of_it(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    shown = StatePublisher(storage, "orders", "orders", "c", SystemClock())
    shown.set_topic_ends({0: (0, 100), 1: (0, 50)})
    report = Report(1, INSTANT, "p-0", 0, Outcome.PREPARED, 90, 110, records=20)

    shown.record_commit(INSTANT, (report,), 1_000)
    shown.set_table_offsets({0: 110, 1: 50})
    shown.update_state(CoordinatorState("c", 1, "run", name=CoordinatorName.STOPPED), 1_000)

    assert ends(storage) == [(110, 110), (50, 50)]


def test_the_topics_end_is_never_behind_what_was_read_since_the_last_look(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    shown = StatePublisher(storage, "orders", "orders", "c", SystemClock())
    shown.set_table_offsets({0: 90, 1: 50})
    shown.set_topic_ends({0: (0, 100), 1: (0, 50)})

    def state(read: int, now_ms: int) -> CoordinatorState:
        seen = {0: ParticipantStatus("p-0", 0, ParticipantName.OPEN, INSTANT, read, now_ms)}
        return CoordinatorState("c", 1, "run", name=CoordinatorName.STOPPED, participants=seen)

    shown.update_state(state(120, 1_000), 1_000)
    assert ends(storage) == [(90, 120), (50, 50)]

    # The topic was deleted and created again: what was read of the other one proves nothing.
    shown.set_topic_ends({0: (0, 7), 1: (0, 0)})
    shown.update_state(state(120, 2_000), 2_000)
    assert ends(storage) == [(90, 7), (50, 0)]


def ends(storage: LocalStorage) -> list[tuple[int | None, int | None]]:
    """Of each partition in the table and of the topic."""
    state = read_state(storage, "orders")
    assert state is not None
    return [(one.table_offset, one.broker_offset) for one in state.participants]


def test_a_commit_that_hangs_blames_no_partition(tmp_path: Path) -> None:
    """The last reports and the commit come within one breath, and then nothing is told."""
    storage = LocalStorage(tmp_path)
    shown = StatePublisher(storage, "orders", "orders", "c", SystemClock())
    shown.set_topic_ends({0: (0, 5), 1: (0, 3)})
    begun = Transaction(INSTANT, {0: 0, 1: 0}, "{}", "", members={0: "p-0", 1: "p-1"})
    ended = CoordinatorState(
        "c", 1, "run", name=CoordinatorName.ENDED_COMMIT, transaction=begun, deadline_ms=9_000
    )
    shown.update_state(ended, 1_000)
    reports = {one: Report(1, INSTANT, "p", one, Outcome.PREPARED, 0, 3) for one in (0, 1)}

    committing = replace(
        ended,
        name=CoordinatorName.WRITE_STATUS_RCVD,
        transaction=replace(begun, reports=reports),
        work=Work.COMMIT,
    )
    shown.update_state(committing, 1_001)

    state = read_state(storage, "orders")
    assert state is not None
    assert state.state == "WRITE_STATUS_RCVD"
    assert [one.has_reported for one in state.participants] == [True, True]
    assert "the commit is under way" in state.reason


def test_while_a_commit_hangs_the_last_word_is_said_again(tmp_path: Path) -> None:
    """The thread that tells the state is the one that waits for the table's lock."""
    storage = LocalStorage(tmp_path)
    shown = StatePublisher(storage, "orders", "orders", "c", SystemClock())
    shown.update_state(replace(COMMITTING, work=Work.COMMIT), 1_000)
    at_first = said(storage)
    assert "the commit is under way" in at_first[1]

    with shown.repeat_state():
        eventually(lambda: said(storage)[0] > at_first[0])
        last = said(storage)

    assert re.fullmatch(rf"{re.escape(at_first[1])}, for \d+ s", last[1])
    assert voices() == [], "nobody speaks for a thread that speaks itself"


def test_what_hangs_for_too_long_falls_silent(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    shown = StatePublisher(storage, "orders", "orders", "c", SystemClock(), work_shown_s_max=1)
    shown.update_state(replace(COMMITTING, work=Work.COMMIT), 1_000)

    with shown.repeat_state():
        eventually(lambda: voices() == [])

        assert said(storage)[0] == 1_000


COMMITTING = CoordinatorState(
    "c",
    1,
    "run",
    name=CoordinatorName.WRITE_STATUS_RCVD,
    transaction=Transaction(INSTANT, {0: 0}, "{}", ""),
)


def said(storage: LocalStorage) -> tuple[int, str]:
    """When the last word was said, and what it is."""
    state = read_state(storage, "orders")
    assert state is not None
    return state.updated_ms, state.reason


def voices() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == VOICE]


def eventually(is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_what_the_control_topic_has_besides_is_shown(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    shown = StatePublisher(storage, "orders", "orders", "c", SystemClock())
    shown.update_state(CoordinatorState("c", 1, "run"), 1_000)

    shown.set_ignored_records({Ignored.MALFORMED: 7})
    shown.update_state(CoordinatorState("c", 1, "run"), 2_000)

    state = read_state(storage, "orders")
    assert state is not None
    assert state.counters["control_topic_malformed"] == 7
