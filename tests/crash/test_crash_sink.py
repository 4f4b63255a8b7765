"""A sink's transaction dies at every storage call, or meets another coordinator there: offsets and
rows agree in every state, another coordinator goes on, and in the end each record is there once.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.crash.digests import digest
from tests.crash.harness import State
from tests.crash.sink_trials import (
    EARLIER,
    LATER,
    NOW,
    Flow,
    abort,
    after_ingest,
    assert_offsets_and_rows_agree,
    commit_and_settle,
    deaths,
    ingest,
    made,
    meet,
    settle,
)
from tests.support.crash_ports import StillClock
from tests.support.memory_storage import MemoryStorage
from tests.support.referee import referee_rows

FLOWS: dict[str, Flow] = {
    "commit": ingest,
    "abort": abort,
    "settle": settle,
    "commit and settle": commit_and_settle,
}
DEATHS_LEAST = 20
CALLS_LEAST = 70
NEVER = 1 << 60
RECOVERIES_CRASHED_EVERY = 6


@cache
def start() -> State:
    return made()


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_offsets_and_rows_agree_wherever_a_coordinator_dies_and_another_goes_on(
    flow: Flow, tmp_path: Path
) -> None:
    left = deaths(start(), flow, "first-")
    assert len(left) >= DEATHS_LEAST

    ends: dict[str, State] = {}
    for crashed in left:
        assert assert_offsets_and_rows_agree(crashed) in (EARLIER.records, NOW.records)
        end = after_ingest(crashed, "second-")
        assert assert_offsets_and_rows_agree(end) == NOW.records
        ends[digest(end.files)] = end

    judged = list(ends.values())[:: max(1, len(ends) // 4)]
    for number, end in enumerate(judged):
        _judge(end, tmp_path / str(number))


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
@pytest.mark.slow
def test_the_next_coordinator_may_die_everywhere_as_well(flow: Flow) -> None:
    left = deaths(start(), flow, "first-")[::RECOVERIES_CRASHED_EVERY]

    for crashed in left:
        for again in deaths(crashed, ingest, "second-"):
            assert_offsets_and_rows_agree(again)
            assert assert_offsets_and_rows_agree(after_ingest(again, "third-")) == NOW.records


@pytest.mark.slow
def test_two_coordinators_meet_at_every_storage_call_and_each_record_is_there_once() -> None:
    _, calls = meet(start(), NEVER)
    assert calls >= CALLS_LEAST

    for at in range(1, calls + 1):
        end, _ = meet(start(), at)
        assert assert_offsets_and_rows_agree(end) == NOW.records, at
        # What a participant wrote while it was taken back goes with the next transaction.
        assert assert_offsets_and_rows_agree(after_ingest(end, "third-", LATER)) == LATER.records


def _judge(state: State, place: Path) -> None:
    MemoryStorage(StillClock(state.now_ms), state.files).dump(place)
    columns = ["_kafka_partition", "_kafka_offset"]
    assert sorted(tuple(row.values()) for row in referee_rows(place, columns)) == NOW.records
