"""Each state machine has a badge for every state that it can be in, and for no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from django.contrib.messages import DEFAULT_LEVELS

from controlplane.mirror import health_check, models, timeline_rows
from controlplane.mirror.queries import schema, sinks
from controlplane.monitoring.channels.notifications import MESSAGE_STATES
from controlplane.operations import sink_board, stream_rounds
from controlplane.operations.approvals.queries import WITHDRAWN
from controlplane.operations.models import Approval, MarkerServer, ScheduleRun
from controlplane.operations.states import OperationState
from controlplane.rows import answers
from controlplane.writers import locks, queries
from controlplane.writers.models import Conflict
from web.badges import BADGES, badge

ROOT = Path(__file__).resolve().parents[2]
MACHINE = re.compile(r"""(?:\{% (?:status|tag) "|\|(?:tone|sign):["'])(\w+)""")
STATES: dict[str, set[str]] = {
    "instant": set(timeline_rows.STATES),
    "operation": set(OperationState),
    "decision": {*Approval.Decision.values, WITHDRAWN},
    "turn": set(ScheduleRun.Outcome.values),
    # One that somebody ended is shown as such until the mirror has seen its end.
    "writer": {*get_args(models.Liveness), *get_args(queries.WriterEnding), "rolling_back"}
    - {"", "gone"},
    "stream": set(get_args(stream_rounds.Phase)),
    "sink": set(get_args(sink_board.Phase)),
    "offsets": set(get_args(sinks.Agreement)),
    "lock": set(get_args(locks.LockState)),
    "marker_server": set(MarkerServer.State.values),
    "health": set(get_args(health_check.Verdict)),
    "sending": set(MESSAGE_STATES),
    "conflict": set(Conflict.Kind.values),
    "row_op": set(get_args(answers.Op)),
    "schema_verdict": set(get_args(schema.Verdict)),
    "schema_change": set(get_args(schema.Change)),
    "message": {level.lower() for level in DEFAULT_LEVELS},
}


@pytest.mark.parametrize("machine", STATES)
def test_every_state_of_a_machine_has_a_badge_and_no_badge_is_left_over(machine: str) -> None:
    assert set(BADGES[machine]) == STATES[machine]


def test_templates_name_machines_that_there_are() -> None:
    named = {
        machine
        for path in (ROOT / "templates").rglob("*.html")
        for machine in MACHINE.findall(path.read_text("utf-8"))
    }

    assert named == set(BADGES)


def test_icons_and_tones_of_badges_are_drawn() -> None:
    badges = [shown for states in BADGES.values() for shown in states.values()]
    symbols = (ROOT / "web/static/web/icons.svg").read_text("utf-8")
    sheet = (ROOT / "web/static/web/css/base.css").read_text("utf-8")

    assert [shown.icon for shown in badges if f'id="{shown.icon}"' not in symbols] == []
    assert [shown.tone for shown in badges if f".tone-{shown.tone}" not in sheet] == []


def test_a_state_of_a_newer_version_is_shown_by_its_name() -> None:
    assert badge("transaction", "timed_out").word == "timed out"
