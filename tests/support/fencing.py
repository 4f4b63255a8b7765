"""Ways to take an instant away from a Spark job that runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tests.support.scenario_table import ScenarioTable
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.table_services.attempt import AttemptHeartbeat, read_current_heartbeat
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision

_PATIENCE_S = 180.0
"""A session's first job starts its Python workers, which takes long where others are at work."""


def roll_back(table: ScenarioTable, instant: str) -> None:
    request = RollbackRequest(instant, by="operator", reason="it runs too long", is_forced=True)
    rollback(table.table, request, write_options({"sluice.writer.name": "operator"}))


def only_decide(table: ScenarioTable, instant: str) -> None:
    """As somebody does who then dies, or who took the table lock over."""
    decision = RollbackDecision("takeover", "n1", "it runs too long", "operator")
    assert decisions.decide(table.storage, instant, decision)


def take_over(table: ScenarioTable, instant: str) -> None:
    """As the next one to carry a plan out does, who then dies."""
    options = write_options({"sluice.writer.name": "next"})
    storage, ports = table.storage, table.table.ports
    next_one = AttemptHeartbeat(storage, ports, instant, service="compaction", options=options)
    next_one.start(read_current_heartbeat(storage, instant))
    next_one.stop()


def wait_until(is_so: Callable[[], bool], job: Future[Any]) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert not job.done(), job.result()
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
