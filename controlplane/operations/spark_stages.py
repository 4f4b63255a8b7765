"""The Spark stages of an operation: what its driver says of them, checked and kept, and when the
one at work may be through.

A hint, as all reports are: it moves no state. The address of Spark's own pages is never of a
report; it is the node's setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.utils import timezone

from controlplane.errors import InvalidRequest
from controlplane.operations.models import Operation
from controlplane.operations.states import FINAL, OperationState

STAGES_MAX: Final = 20
STAGE_STATES: Final = ("running", "done", "ended")
_NAME_CHARS_MAX: Final = 80
_TASKS_MAX: Final = 2**31
_BYTES_MAX: Final = 2**62
_ENOUGH_TASKS: Final = 3
_ENOUGH_MS: Final = 2_000
"""Of a stage's work before anybody guesses when it is through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    id: int
    name: str
    """What its job is for; empty where nobody has named it."""
    state: str
    """running, done, or ended: its job is over, and Spark had not said that it was done."""
    tasks: int
    done: int
    running: int | None
    """None where Spark does not say of which stage the tasks are that run."""
    failed: int | None
    """None where Spark does not say: a Connect server never does."""
    bytes_read: int
    pct: float | None
    left_s: float | None
    """Until it is through, at the rate at which its tasks were done so far; None while nobody
    knows.
    """


def reported_stages(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that a report's stages set; none where it has none. Raises InvalidRequest."""
    given = payload.get("stages")
    if not given:
        return {}
    if not isinstance(given, list) or len(given) > STAGES_MAX:
        raise InvalidRequest("the stages of a report must be a short list", most=STAGES_MAX)
    stages = [_stage(stage) for stage in given]
    return {"stages": {"at": timezone.now().isoformat(), "stages": stages}}


def stage_rows(operation: Operation, now: datetime) -> list[StageRow]:
    """As the driver saw them last, oldest first; nothing runs any more of an operation that
    ended.
    """
    if not operation.stages:
        return []
    is_final = OperationState(operation.state) in FINAL
    age_ms = max(0.0, (now - datetime.fromisoformat(operation.stages["at"])).total_seconds() * 1000)
    return [_row(stage, age_ms, is_final=is_final) for stage in operation.stages["stages"]]


def left_ms(*, tasks: int, done: int, running: int, elapsed_ms: float) -> float | None:
    """Until a stage is through that took so long for what it has done.

    None before three tasks and two seconds, and before as many tasks are done as run beside each
    other: until then a rate says how long the first ones take to begin, and nothing else.
    """
    if done < max(_ENOUGH_TASKS, running) or elapsed_ms < _ENOUGH_MS or done >= tasks:
        return None
    return (tasks - done) * elapsed_ms / done


def spark_ui_url(operation: Operation) -> str:
    """The node's `SLUICE_SPARK_UI_URL` for what runs on the node's Spark; empty for a Spark
    application of its own, which serves no pages, and where nothing is set.
    """
    job = operation.parameters.get("job", {})
    is_at_node = bool(operation.stages) and job.get("application", "connect") == "connect"
    return str(settings.SLUICE_SPARK_UI_URL) if is_at_node else ""


def _row(stage: Mapping[str, Any], age_ms: float, *, is_final: bool) -> StageRow:
    is_running = stage["state"] == "running" and not is_final
    tasks, done = stage["tasks"], min(stage["done"], stage["tasks"])
    # A stage of which nothing is heard takes longer; it does not go on at its old rate.
    left = left_ms(
        tasks=tasks,
        done=done,
        running=stage["running"] or 0,
        elapsed_ms=stage["elapsed_ms"] + age_ms,
    )
    return StageRow(
        id=stage["id"],
        name=stage["name"],
        state="ended" if is_final and stage["state"] == "running" else stage["state"],
        tasks=tasks,
        done=done,
        running=stage["running"] if is_running else 0,
        failed=stage["failed"],
        bytes_read=stage["bytes_read"],
        pct=100 * done / tasks if tasks else None,
        left_s=left / 1000 if is_running and left is not None else None,
    )


def _stage(given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping) or given.get("state") not in STAGE_STATES:
        raise InvalidRequest("invalid state of a stage", known=list(STAGE_STATES))
    return {
        "id": _count(given.get("id")),
        "name": str(given.get("name") or "")[:_NAME_CHARS_MAX].replace("\x00", ""),
        "state": given["state"],
        "tasks": _count(given.get("tasks")),
        "done": _count(given.get("done")),
        "running": None if given.get("running") is None else _count(given["running"]),
        "failed": None if given.get("failed") is None else _count(given["failed"]),
        "bytes_read": _count(given.get("bytes_read", 0), below=_BYTES_MAX),
        "elapsed_ms": _count(given.get("elapsed_ms", 0), below=_BYTES_MAX),
    }


def _count(number: object, *, below: int = _TASKS_MAX) -> int:
    if type(number) is not int or not 0 <= number < below:
        raise InvalidRequest("invalid number of a stage", given=str(number)[:40])
    return number
