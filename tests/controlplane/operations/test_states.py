"""The state machine of an operation, as the table that it is."""

from __future__ import annotations

import pytest

from controlplane.operations.states import ALLOWED, FINAL, OPEN, OperationState, may_move

# From, then every state that may follow; what is not listed is refused. `ends` is any end but lost
# and refused.
ENDS = "succeeded failed conflicted rolled_back cancelled fenced"
TABLE = """
awaiting    queued cancelled refused
queued      starting running cancelling refused unknown ends
starting    queued running stopping cancelling lost unknown ends
running     stopping cancelling lost unknown ends
stopping    cancelling lost unknown ends
cancelling  unknown ends
unknown     ends lost
lost        succeeded failed cancelled fenced
failed      succeeded conflicted rolled_back
cancelled   succeeded rolled_back
succeeded
conflicted  succeeded
rolled_back succeeded
fenced
refused     succeeded conflicted rolled_back
"""


@pytest.mark.parametrize("line", TABLE.strip().splitlines())
def test_moves_are_exactly_those_of_the_table(line: str) -> None:
    current, *reachable = line.replace("ends", ENDS).split()

    allowed = {state for state in OperationState if may_move(OperationState(current), state)}

    assert allowed == {OperationState(state) for state in reachable}


def test_every_state_is_either_open_or_final() -> None:
    assert set(ALLOWED) == set(OperationState) == OPEN | FINAL
    assert not OPEN & FINAL


def test_nothing_final_opens_again() -> None:
    assert not [(state, to) for state in FINAL for to in ALLOWED[state] if to in OPEN]
