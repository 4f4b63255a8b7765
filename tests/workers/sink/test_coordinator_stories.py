"""What the coordinator's state machine must never do again: the stories behind its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.workers.sink.coordinators import (
    ANSWERS,
    DONE,
    NOW,
    OFFSETS,
    OPEN,
    PREPARED,
    SETTINGS,
    TO_STATE,
    after,
    committed,
    effect_text,
    heard,
    new,
    ready,
    report,
)
from workers.sink.coordinator import step
from workers.sink.coordinator_events import (
    Abort,
    AbortEnded,
    Begin,
    BeginFailed,
    Begun,
    Commit,
    CoordinatorEvent,
    EvolveSchema,
    Fenced,
    NothingToRead,
    SchemaRefused,
    Started,
    StopRequested,
)
from workers.sink.coordinator_state import CoordinatorState
from workers.sink.coordinator_transitions import REFUSED_FIELDS_MAX
from workers.sink.messages import EndCommit, Outcome, Report, Send, StartCommit, Tick


def ticks(state: CoordinatorState, from_ms: int, to_ms: int) -> tuple[CoordinatorState, list[str]]:
    """A tick each 100 ms until something is asked for or published."""
    for now_ms in range(from_ms, to_ms, 100):
        state, effects = step(state, Tick(now_ms))
        if effects:
            return state, [str(now_ms), *map(effect_text, effects)]
    return state, []


def test_times_are_those_of_the_rfc() -> None:
    """S1-08 to S1-10: 100 ms, 60 s, 300 s, 500 ms."""
    both = [ready(0, now_ms=0), ready(1, now_ms=0)]
    state, _ = after([Started(0), *both], new(replace(SETTINGS, interval_ms=60_000)))
    state = replace(state, settings=replace(state.settings, write_timeout_ms=300_000))

    state, first = ticks(state, 0, 1_000)
    assert first == ["100", "begin"]
    state, _ = step(state, Begun("t1", OFFSETS, "{}", "", 200))
    for partition in OFFSETS:
        state, _ = step(state, ready(partition, OPEN, now_ms=300, instant="t1"))
    state, second = ticks(state, 300, 100_000)
    assert second == ["60200", "END(t1)"]
    state = replace(state, settings=replace(state.settings, resend_ms=10**9))
    state, third = ticks(state, 60_300, 500_000)
    assert third == ["360200", "abort(no report: 0, 1)"]
    state, _ = step(state, AbortEnded(360_200))
    assert ticks(state, 360_200, 400_000)[1] == ["360700", "begin"]


def test_after_an_ack_the_next_transaction_begins_in_100_ms() -> None:
    state, _ = after(TO_STATE["acked"])

    assert ticks(state, NOW, NOW + 1_000)[1] == [str(NOW + 100), "begin"]


def test_failures_in_a_row_wait_longer_and_never_longer_than_a_bound() -> None:
    state, waits = after([Started(0)])[0], list[int]()
    for _ in range(12):
        state, _ = step(state, Tick(state.deadline_ms))
        began_ms = state.deadline_ms
        state, _ = step(state, BeginFailed("disk", began_ms))
        waits.append(state.deadline_ms - began_ms)

    assert waits == [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000] + [30_000] * 5
    assert after([Tick(10**6), NothingToRead(10**6)], state)[0].failures == 0


def commits_under_deaths(every_ms: int, until_ms: int) -> list[int]:
    """When a sink of 60 s commits, whose partition 1 has another process every so often."""
    state, _ = after([Started(0)], new(replace(SETTINGS, interval_ms=60_000)))
    commits: list[int] = []
    lives, number = 0, 0
    for now_ms in range(0, until_ms, 200):
        if now_ms % every_ms == 0:
            lives += 1
        who = f"a{lives:05d}"
        instant = state.transaction.instant if state.transaction else ""
        told_of: list[CoordinatorEvent] = [
            ready(0, OPEN, now_ms=now_ms, instant=instant),
            ready(1, OPEN, now_ms=now_ms, instant=instant, who=who, since_ms=5 + lives),
            Tick(now_ms),
        ]
        for event in told_of:
            waiting: list[CoordinatorEvent] = [event]
            while waiting:
                state, effects = step(state, waiting.pop(0))
                for effect in effects:
                    match effect:
                        case Begin():
                            number += 1
                            waiting.append(Begun(f"t{number:05d}", OFFSETS, "{}", "", now_ms))
                        case Abort():
                            waiting.append(AbortEnded(now_ms))
                        case Send(EndCommit(instant=ended)):
                            waiting += [
                                report(0, instant=ended),
                                report(1, instant=ended, who=who),
                            ]
                        case Commit():
                            commits.append(now_ms)
                            waiting.append(committed(now_ms))
                        case _:
                            pass
    return commits


@pytest.mark.parametrize("every_s", [5, 10, 40])
def test_a_sink_commits_though_a_worker_dies_again_and_again(every_s: int) -> None:
    """Each death costs the transaction of all; as long as ever, none would see its end."""
    commits = commits_under_deaths(every_s * 1000, 400_000)

    gaps = [later - sooner for sooner, later in pairwise([0, *commits, 400_000])]
    assert max(gaps) < 130_000, commits


def test_deaths_of_participants_are_not_waited_out() -> None:
    """START waits for all of them anyway; what fails for other reasons waits longer each time."""
    state = replace(after(TO_STATE["started"])[0], failures=6, deaths=6)

    state, _ = after([ready(1, who="b", since_ms=6), AbortEnded(NOW)], state)

    assert state.deadline_ms == NOW + SETTINGS.restart_delay_ms
    assert (state.failures, state.deaths) == (7, 7)


def test_a_start_is_repeated_for_whoever_missed_it_and_not_for_those_who_followed() -> None:
    """3.4 no. 9: in Hudi one lost START costs the whole transaction, six minutes later."""
    missed = after(TO_STATE["not joined"])[0]
    followed = after(TO_STATE["started"])[0]

    assert ticks(missed, 1_100, 9_000)[1] == ["3000", "START(t1 p0-a p1-a)"]
    assert ticks(followed, 1_100, 11_000)[1] == []


def test_start_and_end_are_repeated_together_for_whoever_missed_both() -> None:
    state, _ = after([*TO_STATE["not joined"], Tick(11_000)])

    assert ticks(state, 11_000, 20_000)[1] == ["13000", "START(t1 p0-a p1-a)", "END(t1)"]


def test_a_lost_report_of_a_failure_is_asked_for_before_the_end() -> None:
    state, _ = after([*TO_STATE["started"], ready(1, PREPARED, now_ms=1_200, instant="t1")])

    assert ticks(state, 1_200, 9_000)[1] == ["3000", "START(t1 p0-a p1-a)"]


def test_no_transaction_starts_without_a_participant_for_each_partition() -> None:
    """In Hudi and Iceberg it does, and times out."""
    state, effects = after(TO_STATE["waits"])
    assert effects == []

    state, effects = step(state, ready(1))

    assert [effect_text(one) for one in effects] == ["START(t1 p0-a p1-a)"]


def test_a_participant_that_fell_silent_is_not_counted_on() -> None:
    _, effects = after([*TO_STATE["waits"], ready(1, now_ms=22_000)])

    assert effects == []


def test_partitions_that_are_not_of_the_transaction_replace_none_that_is() -> None:
    """3.4 no. 5: Hudi counts reports; here partition 7 is not partition 1."""
    state, _ = after(TO_STATE["half"])
    assert state.transaction is not None

    stray = Report(2, "t1", "p7-a", 7, Outcome.PREPARED, 0, 5)
    state, effects = step(state, heard(stray))

    assert (effects, state.list_missing()) == ([], [1])


def test_the_first_report_of_a_participant_counts() -> None:
    state, effects = after([*TO_STATE["half"], report(0, end=99), report(1)])

    assert state.transaction is not None
    assert state.transaction.reports[0].end == DONE[0]
    assert [effect_text(one) for one in effects] == ["commit(t1 p0-a p1-a)"]


def test_a_participant_that_dies_after_its_report_is_not_missed() -> None:
    state, _ = after([*TO_STATE["half"], ready(0, who="b", since_ms=9)])

    assert [effect_text(one) for one in step(state, report(1))[1]] == ["commit(t1 p0-a p1-a)"]


EMPTY = [report(one, end=OFFSETS[one]) for one in OFFSETS]


def test_a_transaction_that_moved_no_offset_is_not_committed() -> None:
    """3.4 no. 8."""
    state, effects = after([*TO_STATE["ended"], *EMPTY])

    assert [effect_text(one) for one in effects] == ["abort(nothing was read)"]
    state, _ = step(state, AbortEnded(NOW))
    assert ticks(state, NOW, NOW + 1_000)[1] == [str(NOW + 100), "begin"]


def test_empty_transactions_are_committed_where_that_is_asked_for() -> None:
    state = new(replace(SETTINGS, commits_empty=True))

    _, effects = after([*TO_STATE["ended"], *EMPTY], state)

    assert [effect_text(one) for one in effects] == ["commit(t1 p0-a p1-a)"]


def test_offsets_without_records_are_committed() -> None:
    """Transaction markers at the end of the topic: the lag must become nothing."""
    _, effects = after([*TO_STATE["ended"], EMPTY[0], report(1, end=22)])

    assert [effect_text(one) for one in effects] == ["commit(t1 p0-a p1-a)"]


def test_a_commit_that_storage_refused_is_tried_again_and_not_for_ever() -> None:
    """3.4 no. 7: Hudi waits for its timeout of 300 s."""
    state, effect_texts = after(TO_STATE["retries"])[0], list[str]()
    for _ in range(SETTINGS.commit_tries - 1):
        state, effects = step(state, Tick(state.deadline_ms))
        effect_texts += map(effect_text, effects)
        state, effects = step(state, ANSWERS["commit failed for now"])
        effect_texts += map(effect_text, effects)

    assert effect_texts == ["commit(t1 p0-a p1-a)", "commit(t1 p0-a p1-a)", "abort(disk)"]


def test_a_commit_of_unknown_outcome_is_settled_before_anything_else() -> None:
    """K5: Hudi starts again from the old offsets, though the commit may be there."""
    state, _ = after(TO_STATE["unsettled"])
    effect_texts = []
    for _ in range(5):
        state, effects = step(state, Tick(state.deadline_ms))
        effect_texts += [effect_text(one) for one in effects]
        state, _ = step(state, ANSWERS["not settled"])
    assert effect_texts == ["settle(t1)"] * 5

    state, _ = step(state, Tick(state.deadline_ms))
    state, effects = step(state, ANSWERS["settled, committed"])

    assert [effect_text(one) for one in effects] == ["ACK(t1)"]
    assert state.offsets == DONE


def test_fields_that_the_table_never_takes_are_named_in_the_next_start() -> None:
    refused = SchemaRefused(("a-b",), "not a name", NOW)
    state, _ = after([*TO_STATE["evolves"], refused, Tick(NOW + 100)])

    _, effects = step(state, Begun("t2", OFFSETS, "{}", "", NOW + 100))

    [start] = [one.message for one in effects if isinstance(one, Send)]
    assert isinstance(start, StartCommit)
    assert start.refused_fields == ("a-b",)


def test_records_that_bring_ever_new_impossible_fields_stop_the_sink() -> None:
    fields = tuple(f"f-{one}" for one in range(REFUSED_FIELDS_MAX + 1))

    state, _ = after([*TO_STATE["evolves"], SchemaRefused(fields, "not names", NOW)])
    _, effects = step(state, Tick(state.deadline_ms))

    assert [effect_text(one) for one in effects] == [
        "error(records bring too many fields that the table cannot take)"
    ]


def test_the_schema_evolves_only_when_the_transaction_that_needs_it_is_gone() -> None:
    state, effects = after([*TO_STATE["ended"], report(0, Outcome.NEEDS_SCHEMA)])
    assert [effect_text(one) for one in effects] == ["abort(records bring new fields)"]

    assert step(state, AbortEnded(NOW))[1] == [EvolveSchema("fff")]


ENDS: dict[str, Sequence[CoordinatorEvent]] = {
    "fenced": [Fenced("lost", NOW), committed()],
    "stopped": [StopRequested(True, "asked", NOW), committed(), Tick(NOW + 60_000)],
}


@pytest.mark.parametrize("end", ENDS)
def test_a_coordinator_that_has_ended_says_nothing_any_more(end: str) -> None:
    """K3: in Hudi the scheduler of a closed coordinator went on."""
    state, _ = after([*TO_STATE["commits"], *ENDS[end]])
    assert state.is_over

    for name, events in TO_STATE.items():
        assert after(events, state) == (state, []), name


def test_a_graceful_stop_commits_what_was_read() -> None:
    stop = StopRequested(True, "asked", 2_000)
    state, effects = after([*TO_STATE["started"], stop])
    assert [effect_text(one) for one in effects] == ["END(t1)"]

    state, _ = after([report(0), report(1)], state)
    state, effects = step(state, committed())

    assert [effect_text(one) for one in effects] == ["ACK(t1 last)"]


def test_participants_that_are_only_starting_hear_that_it_is_over() -> None:
    state, effects = after([Started(0), StopRequested(True, "asked", 0)])
    assert [effect_text(one) for one in effects] == ["ACK(- last)"]

    state, effects = step(state, ready(0, now_ms=2_500))

    assert [effect_text(one) for one in effects] == ["ACK(- last)"]
