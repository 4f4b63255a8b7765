"""The coordinator's state machine: what it does in every state with every event.

A line with `==` says which state of RFC-32 it is, and what the runtime is at. What is not listed
changes nothing; answers to what was not asked are mistakes of the runtime.
"""

from __future__ import annotations

import pytest

from tests.workers.sink.coordinators import ANSWERS, EVENTS, TO_STATE, after, effect_text, shown
from workers.sink.coordinator import step
from workers.sink.coordinator_state import CoordinatorName, Work

TABLE = """
new                                       == INIT
new               tick in 2 s             -> INIT/begin begin
new               tick in 20 s            -> INIT/begin begin
new               tick at the timeout     -> INIT/begin begin
new               ready p1, epoch 3       -> FENCED stopped(p1-a speaks of epoch 3)
new               END of epoch 3          -> FENCED stopped(c3 speaks of epoch 3)
new               stop                    -> INIT ACK(- last)
new               stop hard               -> INIT ACK(- last)
new               fenced                  -> FENCED stopped(lost)
begins                                    == INIT/begin
begins            ready p1, epoch 3       -> FENCED/begin
begins            END of epoch 3          -> FENCED/begin
begins            fenced                  -> FENCED/begin
begins            begun t2                -> STARTED_COMMIT
begins            nothing to read         -> INIT
begins            begin failed            -> FAILED_COMMIT
begins            begin refused           -> FAILED_COMMIT ACK(- last)
waits                                     == STARTED_COMMIT
waits             tick at the timeout     -> WRITE_STATUS_TIMEDOUT/abort abort(no participant: 0, 1)
waits             ready p1                -> STARTED_COMMIT START(t1 p0-a p1-a)
waits             ready p1 in t1          -> STARTED_COMMIT START(t1 p0-a p1-a)
waits             ready p1, younger       -> STARTED_COMMIT START(t1 p0-a p1-b)
waits             ready p1, older         -> STARTED_COMMIT START(t1 p0-a p1-z)
waits             ready p1, epoch 3       -> FENCED/abort abort(p1-a speaks of epoch 3)
waits             ready p1, epoch 0       -> STARTED_COMMIT START(t1 p0-a p1-a)
waits             END of epoch 3          -> FENCED/abort abort(c3 speaks of epoch 3)
waits             stop                    -> INIT/abort abort(asked)
waits             stop hard               -> INIT/abort abort(now)
waits             fenced                  -> FENCED/abort abort(lost)
started                                   == STARTED_COMMIT
started           tick soon               -> ENDED_COMMIT END(t1)
started           tick in 2 s             -> ENDED_COMMIT END(t1)
started           tick in 20 s            -> ENDED_COMMIT END(t1)
started           tick at the timeout     -> ENDED_COMMIT END(t1)
started           ready p1, younger       -> FAILED_COMMIT/abort abort(partition 1: replaced)
started           ready p1, after silence -> FAILED_COMMIT/abort abort(partition 1: replaced)
started           ready p1, stopped       -> FAILED_COMMIT/abort abort(partition 1: stopped)
started           ready p1, epoch 3       -> FENCED/abort abort(p1-a speaks of epoch 3)
started           report p1, failed       -> FAILED_COMMIT/abort abort(partition 1: full)
started           report p1, new fields   -> FAILED_COMMIT/abort abort(records bring new fields)
started           END of epoch 3          -> FENCED/abort abort(c3 speaks of epoch 3)
started           stop                    -> ENDED_COMMIT END(t1)
started           stop hard               -> INIT/abort abort(now)
started           fenced                  -> FENCED/abort abort(lost)
not joined                                == STARTED_COMMIT
not joined        tick soon               -> ENDED_COMMIT END(t1)
not joined        tick in 2 s             -> ENDED_COMMIT END(t1)
not joined        tick in 20 s            -> ENDED_COMMIT END(t1)
not joined        tick at the timeout     -> ENDED_COMMIT END(t1)
not joined        ready p1, younger       -> FAILED_COMMIT/abort abort(partition 1: replaced)
not joined        ready p1, after silence -> FAILED_COMMIT/abort abort(partition 1: replaced)
not joined        ready p1, stopped       -> FAILED_COMMIT/abort abort(partition 1: stopped)
not joined        ready p1, epoch 3       -> FENCED/abort abort(p1-a speaks of epoch 3)
not joined        report p1, failed       -> FAILED_COMMIT/abort abort(partition 1: full)
not joined        report p1, new fields   -> FAILED_COMMIT/abort abort(records bring new fields)
not joined        END of epoch 3          -> FENCED/abort abort(c3 speaks of epoch 3)
not joined        stop                    -> ENDED_COMMIT END(t1)
not joined        stop hard               -> INIT/abort abort(now)
not joined        fenced                  -> FENCED/abort abort(lost)
ended                                     == ENDED_COMMIT
ended             tick in 2 s             -> ENDED_COMMIT END(t1)
ended             tick in 20 s            -> ENDED_COMMIT END(t1)
ended             tick at the timeout     -> WRITE_STATUS_TIMEDOUT/abort abort(no report: 0, 1)
ended             ready p1, younger       -> FAILED_COMMIT/abort abort(partition 1: replaced)
ended             ready p1, after silence -> FAILED_COMMIT/abort abort(partition 1: replaced)
ended             ready p1, stopped       -> FAILED_COMMIT/abort abort(partition 1: stopped)
ended             ready p1, epoch 3       -> FENCED/abort abort(p1-a speaks of epoch 3)
ended             report p1, failed       -> FAILED_COMMIT/abort abort(partition 1: full)
ended             report p1, new fields   -> FAILED_COMMIT/abort abort(records bring new fields)
ended             END of epoch 3          -> FENCED/abort abort(c3 speaks of epoch 3)
ended             stop hard               -> INIT/abort abort(now)
ended             fenced                  -> FENCED/abort abort(lost)
half                                      == ENDED_COMMIT
half              tick in 2 s             -> ENDED_COMMIT END(t1)
half              tick in 20 s            -> ENDED_COMMIT END(t1)
half              tick at the timeout     -> WRITE_STATUS_TIMEDOUT/abort abort(no report: 1)
half              ready p1, younger       -> FAILED_COMMIT/abort abort(partition 1: replaced)
half              ready p1, after silence -> FAILED_COMMIT/abort abort(partition 1: replaced)
half              ready p1, stopped       -> FAILED_COMMIT/abort abort(partition 1: stopped)
half              ready p1, epoch 3       -> FENCED/abort abort(p1-a speaks of epoch 3)
half              report p1               -> WRITE_STATUS_RCVD/commit commit(t1 p0-a p1-a)
half              report p1, failed       -> FAILED_COMMIT/abort abort(partition 1: full)
half              report p1, new fields   -> FAILED_COMMIT/abort abort(records bring new fields)
half              END of epoch 3          -> FENCED/abort abort(c3 speaks of epoch 3)
half              stop hard               -> INIT/abort abort(now)
half              fenced                  -> FENCED/abort abort(lost)
commits                                   == WRITE_STATUS_RCVD/commit
commits           ready p1, epoch 3       -> FENCED/commit
commits           END of epoch 3          -> FENCED/commit
commits           fenced                  -> FENCED/commit
commits           committed               -> ACKED_COMMIT ACK(t1)
commits           commit failed           -> FAILED_COMMIT/abort abort(conflict)
commits           commit failed for now   -> WRITE_STATUS_RCVD
commits           commit unknown          -> WRITE_STATUS_RCVD/settle settle(t1)
commits           stale epoch             -> FENCED/abort abort(stale epoch)
commits           stale offsets           -> FAILED_COMMIT/abort abort(stale offsets)
commits           stale topic             -> FAILED_COMMIT/abort abort(stale topic)
retries                                   == WRITE_STATUS_RCVD
retries           tick in 2 s             -> WRITE_STATUS_RCVD/commit commit(t1 p0-a p1-a)
retries           tick in 20 s            -> WRITE_STATUS_RCVD/commit commit(t1 p0-a p1-a)
retries           tick at the timeout     -> WRITE_STATUS_RCVD/commit commit(t1 p0-a p1-a)
retries           ready p1, epoch 3       -> FENCED/abort abort(p1-a speaks of epoch 3)
retries           END of epoch 3          -> FENCED/abort abort(c3 speaks of epoch 3)
retries           stop hard               -> INIT/abort abort(now)
retries           fenced                  -> FENCED/abort abort(lost)
settles                                   == WRITE_STATUS_RCVD/settle
settles           ready p1, epoch 3       -> FENCED/settle
settles           END of epoch 3          -> FENCED/settle
settles           fenced                  -> FENCED/settle
settles           settled, committed      -> ACKED_COMMIT ACK(t1)
settles           settled, not committed  -> FAILED_COMMIT/abort abort(rolled back)
settles           not settled             -> WRITE_STATUS_RCVD
unsettled                                 == WRITE_STATUS_RCVD
unsettled         tick in 2 s             -> WRITE_STATUS_RCVD/settle settle(t1)
unsettled         tick in 20 s            -> WRITE_STATUS_RCVD/settle settle(t1)
unsettled         tick at the timeout     -> WRITE_STATUS_RCVD/settle settle(t1)
unsettled         ready p1, epoch 3       -> FENCED stopped(p1-a speaks of epoch 3)
unsettled         END of epoch 3          -> FENCED stopped(c3 speaks of epoch 3)
unsettled         stop hard               -> WRITE_STATUS_RCVD ACK(t1 last)
unsettled         fenced                  -> FENCED stopped(lost)
aborts                                    == FAILED_COMMIT/abort
aborts            ready p1, epoch 3       -> FENCED/abort
aborts            END of epoch 3          -> FENCED/abort
aborts            fenced                  -> FENCED/abort
aborts            abort ended             -> FAILED_COMMIT
failed                                    == FAILED_COMMIT
failed            tick in 2 s             -> FAILED_COMMIT/begin begin
failed            tick in 20 s            -> FAILED_COMMIT/begin begin
failed            tick at the timeout     -> FAILED_COMMIT/begin begin
failed            ready p1, epoch 3       -> FENCED stopped(p1-a speaks of epoch 3)
failed            END of epoch 3          -> FENCED stopped(c3 speaks of epoch 3)
failed            stop                    -> FAILED_COMMIT ACK(t1 last)
failed            stop hard               -> FAILED_COMMIT ACK(t1 last)
failed            fenced                  -> FENCED stopped(lost)
evolves                                   == FAILED_COMMIT/evolve
evolves           ready p1, epoch 3       -> FENCED/evolve
evolves           END of epoch 3          -> FENCED/evolve
evolves           fenced                  -> FENCED/evolve
evolves           schema evolved          -> FAILED_COMMIT
evolves           schema refused          -> FAILED_COMMIT
evolves           schema not evolved      -> FAILED_COMMIT
acked                                     == ACKED_COMMIT
acked             tick in 2 s             -> ACKED_COMMIT/begin begin
acked             tick in 20 s            -> ACKED_COMMIT/begin begin
acked             tick at the timeout     -> ACKED_COMMIT/begin begin
acked             ready p1, epoch 3       -> FENCED stopped(p1-a speaks of epoch 3)
acked             END of epoch 3          -> FENCED stopped(c3 speaks of epoch 3)
acked             stop                    -> ACKED_COMMIT ACK(t1 last)
acked             stop hard               -> ACKED_COMMIT ACK(t1 last)
acked             fenced                  -> FENCED stopped(lost)
leaves                                    == ACKED_COMMIT
leaves            tick in 2 s             -> ACKED_COMMIT ACK(t1 last)
leaves            tick in 20 s            -> STOPPED stopped(asked)
leaves            tick at the timeout     -> STOPPED stopped(asked)
leaves            ready p1, after silence -> STOPPED stopped(asked)
leaves            ready p1, epoch 3       -> FENCED stopped(p1-a speaks of epoch 3)
leaves            END of epoch 3          -> FENCED stopped(c3 speaks of epoch 3)
leaves            fenced                  -> FENCED stopped(lost)
stopped                                   == STOPPED
fenced                                    == FENCED
begins, stopping                          == INIT/begin
begins, stopping  ready p1, epoch 3       -> FENCED/begin
begins, stopping  END of epoch 3          -> FENCED/begin
begins, stopping  fenced                  -> FENCED/begin
begins, stopping  begun t2                -> INIT/abort abort(asked)
begins, stopping  nothing to read         -> INIT ACK(- last)
begins, stopping  begin failed            -> FAILED_COMMIT ACK(- last)
begins, stopping  begin refused           -> FAILED_COMMIT ACK(- last)
commits, stopping                         == WRITE_STATUS_RCVD/commit
commits, stopping ready p1, epoch 3       -> FENCED/commit
commits, stopping END of epoch 3          -> FENCED/commit
commits, stopping fenced                  -> FENCED/commit
commits, stopping committed               -> ACKED_COMMIT ACK(t1 last)
commits, stopping commit failed           -> FAILED_COMMIT/abort abort(conflict)
commits, stopping commit failed for now   -> WRITE_STATUS_RCVD
commits, stopping commit unknown          -> WRITE_STATUS_RCVD/settle settle(t1)
commits, stopping stale epoch             -> FENCED/abort abort(stale epoch)
commits, stopping stale offsets           -> FAILED_COMMIT/abort abort(stale offsets)
commits, stopping stale topic             -> FAILED_COMMIT/abort abort(stale topic)
settles, hard                             == WRITE_STATUS_RCVD/settle
settles, hard     ready p1, epoch 3       -> FENCED/settle
settles, hard     END of epoch 3          -> FENCED/settle
settles, hard     fenced                  -> FENCED/settle
settles, hard     settled, committed      -> ACKED_COMMIT ACK(t1 last)
settles, hard     settled, not committed  -> FAILED_COMMIT/abort abort(rolled back)
settles, hard     not settled             -> WRITE_STATUS_RCVD ACK(t1 last)
aborts, stopping                          == FAILED_COMMIT/abort
aborts, stopping  ready p1, epoch 3       -> FENCED/abort
aborts, stopping  END of epoch 3          -> FENCED/abort
aborts, stopping  fenced                  -> FENCED/abort
aborts, stopping  abort ended             -> FAILED_COMMIT ACK(t1 last)
evolves, stopping                         == FAILED_COMMIT/evolve
evolves, stopping ready p1, epoch 3       -> FENCED/evolve
evolves, stopping END of epoch 3          -> FENCED/evolve
evolves, stopping fenced                  -> FENCED/evolve
evolves, stopping schema evolved          -> FAILED_COMMIT ACK(t1 last)
evolves, stopping schema refused          -> FAILED_COMMIT ACK(t1 last)
evolves, stopping schema not evolved      -> FAILED_COMMIT ACK(t1 last)
begins, fenced                            == FENCED/begin
begins, fenced    begun t2                -> FENCED/abort abort(lost)
begins, fenced    nothing to read         -> FENCED stopped(lost)
begins, fenced    begin failed            -> FENCED stopped(lost)
begins, fenced    begin refused           -> FENCED error(lost)
commits, fenced                           == FENCED/commit
commits, fenced   committed               -> FENCED stopped(lost)
commits, fenced   commit failed           -> FENCED/abort abort(lost)
commits, fenced   commit failed for now   -> FENCED/abort abort(lost)
commits, fenced   commit unknown          -> FENCED stopped(lost)
commits, fenced   stale epoch             -> FENCED/abort abort(stale epoch)
commits, fenced   stale offsets           -> FENCED/abort abort(lost)
commits, fenced   stale topic             -> FENCED/abort abort(lost)
settles, fenced                           == FENCED/settle
settles, fenced   settled, committed      -> FENCED stopped(lost)
settles, fenced   settled, not committed  -> FENCED/abort abort(lost)
settles, fenced   not settled             -> FENCED stopped(lost)
aborts, fenced                            == FENCED/abort
aborts, fenced    abort ended             -> FENCED stopped(lost)
evolves, fenced                           == FENCED/evolve
evolves, fenced   schema evolved          -> FENCED stopped(lost)
evolves, fenced   schema refused          -> FENCED stopped(lost)
evolves, fenced   schema not evolved      -> FENCED stopped(lost)
"""


def rows() -> dict[tuple[str, str], str]:
    transitions = {}
    for line in TABLE.strip().splitlines():
        if "->" in line:
            cell, _, result = line.partition("->")
            transitions[cell[:17].strip(), cell[17:].strip()] = result.strip()
    return transitions


def states() -> dict[str, str]:
    lines = [line.partition("==") for line in TABLE.strip().splitlines() if "==" in line]
    return {cell.strip(): result.strip() for cell, _, result in lines}


@pytest.mark.parametrize("name", TO_STATE)
def test_every_state_with_every_event(name: str) -> None:
    before, _ = after(TO_STATE[name])
    wanted = {event: rows().get((name, event), shown(before)) for event in EVENTS}

    shown_by_event = {}
    for event in EVENTS:
        state, effects = step(before, EVENTS[event])
        shown_by_event[event] = " ".join([shown(state), *map(effect_text, effects)])

    assert shown(before) == states()[name]
    assert shown_by_event == wanted


@pytest.mark.parametrize("name", TO_STATE)
def test_every_state_with_every_answer_of_the_runtime(name: str) -> None:
    before, _ = after(TO_STATE[name])

    for answer, event in ANSWERS.items():
        if before.is_over:
            assert step(before, event) == (before, [])
        elif (name, answer) in rows():
            state, effects = step(before, event)
            assert " ".join([shown(state), *map(effect_text, effects)]) == rows()[name, answer], (
                answer
            )
        else:
            with pytest.raises(AssertionError):
                step(before, event)


def test_the_table_knows_every_state_and_names_no_other() -> None:
    names = {text.split("/")[0] for text in (*states().values(), *rows().values())}

    assert {text.split()[0] for text in names} == set(CoordinatorName)
    assert {after(events)[0].work for events in TO_STATE.values()} == set(Work)
    assert {name for name, _ in rows()} <= states().keys() == TO_STATE.keys()
    assert {event for _, event in rows()} <= EVENTS.keys() | ANSWERS.keys()
    assert ANSWERS.keys() <= {event for _, event in rows()}
