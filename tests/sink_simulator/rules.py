"""What a simulation runs: the engine's machines, or ones with a planted bug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.sink_simulator.world import Check
from workers.sink import coordinator, participant
from workers.sink.coordinator_events import CoordinatorEffect, CoordinatorEvent
from workers.sink.coordinator_state import CoordinatorState
from workers.sink.offsets import check_commit
from workers.sink.participant import ParticipantState
from workers.sink.participant_events import ParticipantEffect, ParticipantEvent


@dataclass(frozen=True, slots=True)
class Rules:
    participant: Callable[
        [ParticipantState, ParticipantEvent], tuple[ParticipantState, list[ParticipantEffect]]
    ] = participant.step
    coordinator: Callable[
        [CoordinatorState, CoordinatorEvent], tuple[CoordinatorState, list[CoordinatorEffect]]
    ] = coordinator.step
    check: Check = check_commit
