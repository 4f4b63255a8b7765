"""The files that a sink keeps beside the table: epoch, stop request, state."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import MemoryStorage
from workers.durability import Durability
from workers.errors import MalformedTable
from workers.ports import system_ports
from workers.sink.epoch import acquire_epoch, read_epoch
from workers.sink.sink_paths import SinkPaths, list_sink_ids
from workers.sink.state_file import (
    TEXT_MAX,
    TRACE_MAX,
    TRANSACTIONS_MAX,
    ParticipantSnapshot,
    SinkState,
    TraceEntry,
    TransactionSnapshot,
    put_state,
    read_state,
)
from workers.sink.stop_request import StopKind, StopRequest, clear_stop, read_stop, request_stop
from workers.storage.base import Storage
from workers.storage.local import LocalStorage

SINK = "orders"


@pytest.fixture
def storage() -> Storage:
    return MemoryStorage(StillClock())


def test_each_coordinator_gets_an_epoch_of_its_own_and_a_higher_one(storage: Storage) -> None:
    ports = still_ports(StillClock(), prefix="e")
    assert read_epoch(storage, SINK) is None

    first = acquire_epoch(storage, SINK, ports, owner="one")
    second = acquire_epoch(storage, SINK, ports, owner="two")

    assert (first.number, second.number) == (1, 2)
    assert read_epoch(storage, SINK) == second
    assert list_sink_ids(storage) == [SINK]


def test_of_many_that_raise_the_epoch_at_once_no_two_get_the_same(tmp_path: Path) -> None:
    def raised(number: int) -> list[int]:
        mine = LocalStorage(tmp_path)
        ports = system_ports()
        return [acquire_epoch(mine, SINK, ports, owner=str(number)).number for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        epochs = [one for part in pool.map(raised, range(4)) for one in part]

    assert sorted(epochs) == list(range(1, 21))


@pytest.mark.parametrize("content", [b"", b"[]", b'{"number": 1}', b"no json"])
def test_a_damaged_epoch_is_no_first_epoch(storage: Storage, content: bytes) -> None:
    storage.put(SinkPaths(SINK).epoch, content)

    with pytest.raises(MalformedTable, match=r"sink/orders/epoch"):
        read_epoch(storage, SINK)
    with pytest.raises(MalformedTable):
        acquire_epoch(storage, SINK, still_ports(StillClock(), prefix="e"), owner="me")


def test_a_hard_stop_is_not_softened_and_both_can_be_cleared(storage: Storage) -> None:
    graceful = StopRequest(StopKind.GRACEFUL, "ann", 1)
    hard = StopRequest(StopKind.HARD, "bob", 2)
    assert read_stop(storage, SINK) is None

    assert request_stop(storage, SINK, graceful) == graceful
    assert request_stop(storage, SINK, hard) == hard
    again = request_stop(storage, SINK, replace(graceful, at_ms=3))
    assert read_stop(storage, SINK) == again == StopRequest(StopKind.HARD, "ann", 3)

    clear_stop(storage, SINK, requested_before_ms=4)
    clear_stop(storage, SINK, requested_before_ms=4)
    assert read_stop(storage, SINK) is None
    assert request_stop(storage, SINK, graceful) == graceful


def test_a_stop_that_was_asked_for_while_the_sink_starts_is_not_cleared(storage: Storage) -> None:
    """Also where a hard one of an earlier launch lies there still."""
    request_stop(storage, SINK, StopRequest(StopKind.HARD, "bob", 2))
    wanted_at_ms = 5
    stop_request = request_stop(storage, SINK, StopRequest(StopKind.GRACEFUL, "ann", 6))

    clear_stop(storage, SINK, requested_before_ms=wanted_at_ms)

    assert read_stop(storage, SINK) == stop_request


def test_a_damaged_stop_request_is_cleared_by_the_next_launch(storage: Storage) -> None:
    storage.put(SinkPaths(SINK).stop, b"no json")

    clear_stop(storage, SINK, requested_before_ms=1)

    assert read_stop(storage, SINK) is None


class MeanwhileStorage(LocalStorage):
    """Somebody asks for a stop between a look at the old request and its removal."""

    def replace_if_match(
        self, path: str, content: bytes, tag: str, durability: Durability = Durability.DURABLE
    ) -> str | None:
        if path.endswith("/stop") and b"ann" not in self.read(path):
            other = LocalStorage(self.location)
            request_stop(other, SINK, StopRequest(StopKind.GRACEFUL, "ann", 6))
        return super().replace_if_match(path, content, tag, durability)


def test_a_stop_that_is_asked_for_while_an_old_one_is_cleared_stays(tmp_path: Path) -> None:
    storage = MeanwhileStorage(tmp_path)
    request_stop(storage, SINK, StopRequest(StopKind.GRACEFUL, "bob", 2))

    clear_stop(storage, SINK, requested_before_ms=5)

    assert read_stop(storage, SINK) == StopRequest(StopKind.GRACEFUL, "ann", 6)


class ClearedStorage(LocalStorage):
    """The next launch clears an old request while another one replaces it."""

    def replace_if_match(
        self, path: str, content: bytes, tag: str, durability: Durability = Durability.DURABLE
    ) -> str | None:
        if b"ann" in content:
            clear_stop(LocalStorage(self.location), SINK, requested_before_ms=5)
        return super().replace_if_match(path, content, tag, durability)


def test_a_stop_that_is_asked_for_while_an_old_one_is_replaced_stays(tmp_path: Path) -> None:
    """The old hard request is cleared meanwhile, so the new one is not made hard."""
    request_stop(LocalStorage(tmp_path), SINK, StopRequest(StopKind.HARD, "bob", 2))
    graceful = StopRequest(StopKind.GRACEFUL, "ann", 6)

    assert request_stop(ClearedStorage(tmp_path), SINK, graceful) == graceful

    assert read_stop(LocalStorage(tmp_path), SINK) == graceful


@pytest.mark.parametrize("content", [b"", b"[]", b'{"kind": "soft", "by": "x", "at_ms": 1}'])
def test_a_damaged_stop_request_is_an_error(storage: Storage, content: bytes) -> None:
    storage.put(SinkPaths(SINK).stop, content)

    with pytest.raises(MalformedTable, match=r"sink/orders/stop"):
        read_stop(storage, SINK)


def state(epoch: int = 1, **changes: object) -> SinkState:
    known: dict[str, object] = {
        "participants": (ParticipantSnapshot(0, "p-1", state="OPEN", local_offset=7),),
        "transactions": (TransactionSnapshot("20260101000000000", "committed", 1, 2, 3),),
        "trace": (TraceEntry(5, "START_COMMIT", "coordinator", None, "20260101000000000"),),
        "counters": {"bad_signature": 2},
    }
    return SinkState(SINK, "orders", epoch, "STARTED_COMMIT", **(known | changes))  # type: ignore[arg-type]


def test_a_state_comes_back_as_it_was_put(storage: Storage) -> None:
    assert read_state(storage, SINK) is None

    assert put_state(storage, state())

    assert read_state(storage, SINK) == state()


def test_a_fenced_coordinator_does_not_overwrite_its_successors_state(storage: Storage) -> None:
    put_state(storage, state(epoch=2))

    assert not put_state(storage, state(epoch=1))

    assert read_state(storage, SINK) == state(epoch=2)


def test_a_state_stays_within_bounds_and_keeps_the_newest(storage: Storage) -> None:
    long = state(
        reason="r" * 9999,
        transactions=tuple(
            TransactionSnapshot(str(n), "aborted", n, n, reason="x" * 9999) for n in range(999)
        ),
        trace=tuple(TraceEntry(n, "READY", "p", detail="x" * 9999) for n in range(9999)),
    )

    put_state(storage, long)

    sink_state = read_state(storage, SINK)
    assert sink_state is not None
    assert len(sink_state.reason) == TEXT_MAX
    assert [one.instant for one in sink_state.transactions] == [
        str(n) for n in range(999 - TRANSACTIONS_MAX, 999)
    ]
    assert len(sink_state.transactions[0].reason) == TEXT_MAX
    assert [sink_state.trace[0].at_ms, sink_state.trace[-1].at_ms] == [9999 - TRACE_MAX, 9998]
    assert len(storage.read(SinkPaths(SINK).state)) < 1 << 20


@pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 9}', b'{"version": 1}'])
def test_a_damaged_state_is_told_and_replaced_by_the_next(storage: Storage, content: bytes) -> None:
    storage.put(SinkPaths(SINK).state, content)
    with pytest.raises(MalformedTable, match=r"sink/orders/state\.json"):
        read_state(storage, SINK)

    assert put_state(storage, state())

    assert read_state(storage, SINK) == state()
