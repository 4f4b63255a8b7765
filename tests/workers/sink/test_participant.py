"""The participant's state machine: what it does in every state with every event."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.workers.sink.participants import EVENTS, TO_STATE, after, effect_text
from workers.sink.messages import ParticipantName

TABLE = """
IDLE     START t1 again       -> OPEN seek(10 #1) open(t1) resume ready(t1 10 e2)
IDLE     START t0             -> OPEN seek(10 #1) open(t0) resume ready(t0 10 e2)
IDLE     START t2             -> OPEN seek(20 #1) open(t2) resume ready(t2 20 e2)
IDLE     START t2 elsewhere   -> OPEN seek(7 #1) open(t2) resume ready(t2 7 e2)
IDLE     START t2 for another -> IDLE ready(- 0 e2)
IDLE     START epoch 1        -> OPEN seek(10 #1) open(t9) resume ready(t9 10 e1)
IDLE     START epoch 3        -> OPEN seek(20 #1) open(t0) resume ready(t0 20 e3)
IDLE     END t1               -> IDLE
IDLE     END t2               -> IDLE
IDLE     END epoch 1          -> IDLE
IDLE     END epoch 3          -> IDLE
IDLE     ACK t1               -> IDLE
IDLE     ACK t1 elsewhere     -> IDLE
IDLE     ACK t2               -> IDLE
IDLE     ACK epoch 3          -> IDLE
IDLE     ACK t1, last         -> STOPPED pause ready(- 0 e2) finished
IDLE     ACK t2, last         -> STOPPED pause ready(- 0 e2) finished
IDLE     ACK of another run   -> IDLE
IDLE     ACK last, epoch 1    -> STOPPED pause ready(- 0 e1) finished
IDLE     batch                -> IDLE
IDLE     batch from before    -> IDLE
IDLE     closed t1            -> IDLE
IDLE     closed t0            -> IDLE
IDLE     write failed t1      -> IDLE
IDLE     write failed t0      -> IDLE
IDLE     fields t1            -> IDLE
IDLE     leave                -> STOPPED pause ready(- 0 e0) finished
IDLE     report of another    -> IDLE
IDLE     tick                 -> IDLE ready(- 0 e0)
IDLE     early tick           -> IDLE
OPEN     START t1 again       -> OPEN ready(t1 20 e2)
OPEN     START t0             -> OPEN
OPEN     START t2             -> OPEN drop(t1) seek(20 #2) open(t2) resume ready(t2 20 e2)
OPEN     START t2 elsewhere   -> OPEN drop(t1) seek(7 #2) open(t2) resume ready(t2 7 e2)
OPEN     START t2 for another -> IDLE drop(t1) pause ready(t1 20 e2)
OPEN     START epoch 1        -> OPEN
OPEN     START epoch 3        -> OPEN drop(t1) seek(20 #2) open(t0) resume ready(t0 20 e3)
OPEN     END t1               -> CLOSING pause close(t1) ready(t1 20 e2)
OPEN     END t2               -> OPEN
OPEN     END epoch 1          -> OPEN
OPEN     END epoch 3          -> OPEN
OPEN     ACK t1               -> OPEN
OPEN     ACK t1 elsewhere     -> OPEN
OPEN     ACK t2               -> OPEN
OPEN     ACK epoch 3          -> OPEN
OPEN     ACK t1, last         -> STOPPED pause drop(t1) ready(t1 20 e2) finished
OPEN     ACK t2, last         -> STOPPED pause drop(t1) ready(t1 20 e2) finished
OPEN     ACK of another run   -> OPEN
OPEN     ACK last, epoch 1    -> OPEN
OPEN     batch                -> OPEN write(20)
OPEN     batch from before    -> OPEN
OPEN     closed t1            -> OPEN
OPEN     closed t0            -> OPEN
OPEN     write failed t1      -> PREPARED pause drop(t1) failed(10-20 full)
OPEN     write failed t0      -> OPEN
OPEN     fields t1            -> PREPARED pause drop(t1) needs_schema(10-20 f)
OPEN     leave                -> STOPPED failed(10-20 lost) pause drop(t1) ready(t1 20 e2) finished
OPEN     report of another    -> OPEN
OPEN     tick                 -> OPEN ready(t1 20 e2)
OPEN     early tick           -> OPEN
CLOSING  START t1 again       -> CLOSING ready(t1 20 e2)
CLOSING  START t0             -> CLOSING
CLOSING  START t2             -> OPEN drop(t1) seek(20 #2) open(t2) resume ready(t2 20 e2)
CLOSING  START t2 elsewhere   -> OPEN drop(t1) seek(7 #2) open(t2) resume ready(t2 7 e2)
CLOSING  START t2 for another -> IDLE drop(t1) pause ready(t1 20 e2)
CLOSING  START epoch 1        -> CLOSING
CLOSING  START epoch 3        -> OPEN drop(t1) seek(20 #2) open(t0) resume ready(t0 20 e3)
CLOSING  END t1               -> CLOSING ready(t1 20 e2)
CLOSING  END t2               -> CLOSING
CLOSING  END epoch 1          -> CLOSING
CLOSING  END epoch 3          -> CLOSING
CLOSING  ACK t1               -> CLOSING
CLOSING  ACK t1 elsewhere     -> CLOSING
CLOSING  ACK t2               -> CLOSING
CLOSING  ACK epoch 3          -> CLOSING
CLOSING  ACK t1, last         -> STOPPED pause drop(t1) ready(t1 20 e2) finished
CLOSING  ACK t2, last         -> STOPPED pause drop(t1) ready(t1 20 e2) finished
CLOSING  ACK of another run   -> CLOSING
CLOSING  ACK last, epoch 1    -> CLOSING
CLOSING  batch                -> CLOSING
CLOSING  batch from before    -> CLOSING
CLOSING  closed t1            -> PREPARED prepared(10-20 file)
CLOSING  closed t0            -> CLOSING
CLOSING  write failed t1      -> PREPARED pause drop(t1) failed(10-20 full)
CLOSING  write failed t0      -> CLOSING
CLOSING  fields t1            -> PREPARED pause drop(t1) needs_schema(10-20 f)
CLOSING  leave                -> STOPPED failed(10-20 lost) pause drop(t1) ready(t1 20 e2) finished
CLOSING  report of another    -> CLOSING
CLOSING  tick                 -> CLOSING ready(t1 20 e2)
CLOSING  early tick           -> CLOSING
PREPARED START t1 again       -> PREPARED prepared(10-20 file)
PREPARED START t0             -> PREPARED
PREPARED START t2             -> OPEN open(t2) resume ready(t2 20 e2)
PREPARED START t2 elsewhere   -> OPEN seek(7 #2) open(t2) resume ready(t2 7 e2)
PREPARED START t2 for another -> IDLE ready(t1 20 e2)
PREPARED START epoch 1        -> PREPARED
PREPARED START epoch 3        -> OPEN open(t0) resume ready(t0 20 e3)
PREPARED END t1               -> PREPARED prepared(10-20 file)
PREPARED END t2               -> PREPARED
PREPARED END epoch 1          -> PREPARED
PREPARED END epoch 3          -> PREPARED
PREPARED ACK t1               -> IDLE store(20) ready(t1 20 e2)
PREPARED ACK t1 elsewhere     -> IDLE store(15) ready(t1 15 e2)
PREPARED ACK t2               -> PREPARED
PREPARED ACK epoch 3          -> PREPARED
PREPARED ACK t1, last         -> STOPPED store(20) pause ready(t1 20 e2) finished
PREPARED ACK t2, last         -> STOPPED pause ready(t1 20 e2) finished
PREPARED ACK of another run   -> PREPARED
PREPARED ACK last, epoch 1    -> PREPARED
PREPARED batch                -> PREPARED
PREPARED batch from before    -> PREPARED
PREPARED closed t1            -> PREPARED
PREPARED closed t0            -> PREPARED
PREPARED write failed t1      -> PREPARED
PREPARED write failed t0      -> PREPARED
PREPARED fields t1            -> PREPARED
PREPARED leave                -> STOPPED pause ready(t1 20 e2) finished
PREPARED report of another    -> PREPARED
PREPARED tick                 -> PREPARED ready(t1 20 e2)
PREPARED early tick           -> PREPARED
STOPPED  START t1 again       -> STOPPED ready(- 0 e0)
STOPPED  START t0             -> STOPPED ready(- 0 e0)
STOPPED  START t2             -> STOPPED ready(- 0 e0)
STOPPED  START t2 elsewhere   -> STOPPED ready(- 0 e0)
STOPPED  START t2 for another -> STOPPED ready(- 0 e0)
STOPPED  START epoch 1        -> STOPPED ready(- 0 e0)
STOPPED  START epoch 3        -> STOPPED ready(- 0 e0)
STOPPED  END t1               -> STOPPED
STOPPED  END t2               -> STOPPED
STOPPED  END epoch 1          -> STOPPED
STOPPED  END epoch 3          -> STOPPED
STOPPED  ACK t1               -> STOPPED ready(- 0 e0)
STOPPED  ACK t1 elsewhere     -> STOPPED ready(- 0 e0)
STOPPED  ACK t2               -> STOPPED ready(- 0 e0)
STOPPED  ACK epoch 3          -> STOPPED ready(- 0 e0)
STOPPED  ACK t1, last         -> STOPPED ready(- 0 e0)
STOPPED  ACK t2, last         -> STOPPED ready(- 0 e0)
STOPPED  ACK of another run   -> STOPPED ready(- 0 e0)
STOPPED  ACK last, epoch 1    -> STOPPED ready(- 0 e0)
STOPPED  batch                -> STOPPED
STOPPED  batch from before    -> STOPPED
STOPPED  closed t1            -> STOPPED
STOPPED  closed t0            -> STOPPED
STOPPED  write failed t1      -> STOPPED
STOPPED  write failed t0      -> STOPPED
STOPPED  fields t1            -> STOPPED
STOPPED  leave                -> STOPPED
STOPPED  report of another    -> STOPPED
STOPPED  tick                 -> STOPPED
STOPPED  early tick           -> STOPPED
"""


def rows() -> Iterable[tuple[str, str, str]]:
    for line in TABLE.strip().splitlines():
        cell, _, result = line.partition("->")
        name, _, event = cell.strip().partition(" ")
        yield name, event.strip(), result.strip()


@pytest.mark.parametrize("name", TO_STATE)
def test_every_state_with_every_event(name: str) -> None:
    wanted = {event: result for state, event, result in rows() if state == name}

    shown_by_event = {}
    for event in EVENTS:
        state, effects = after([*TO_STATE[name], EVENTS[event]])
        shown_by_event[event] = " ".join([state.name, *map(effect_text, effects)])

    assert shown_by_event == wanted


def test_the_table_has_every_cell() -> None:
    assert [(name, event) for name, event, _ in rows()] == [
        (name, event) for name in TO_STATE for event in EVENTS
    ]
    assert TO_STATE.keys() == set(ParticipantName)
