"""Table services in scenarios: run one as another process would, and die in the middle of one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.scenario_table import LONG_AGO_S, ScenarioTable
from workers.clock import InstantTime
from workers.concurrency.heartbeat import heartbeat_path
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.table_services.execution import Claim
from workers.table_services.registry import get_service
from workers.table_services.service import Progress, ServiceOutcome, ServicePlan, ServiceRequest

OPTIONS = write_options({"hoodie.write.markers.type": "direct", "sluice.writer.name": "service"})


class Died(BaseException):
    """The process ends here; no `except Exception` tidies up after it."""


def plan(
    table: ScenarioTable, name: str, parameters: Mapping[str, str] | None = None
) -> ServicePlan:
    return get_service(name).plan(table.table, parameters or {})


def run(
    table: ScenarioTable,
    name: str,
    parameters: Mapping[str, str] | None = None,
    *,
    on_progress: Progress | None = None,
) -> ServiceOutcome:
    """With a storage handle and threads of its own, as in a process."""
    own = open_table(table.location, ports=table.ports()).table
    request = ServiceRequest("test", parameters=parameters or {})
    return get_service(name).run(own, request, OPTIONS, on_progress)


def scheduled(table: ScenarioTable, name: str) -> InstantTime:
    outcome = run(table, name, {"schedule_only": "true"})
    assert outcome.instant is not None
    return outcome.instant


@contextmanager
def dies_before_finishing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In this block an executor dies with all its files written and nothing decided."""

    def die(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(Claim, "finish", die)
        patch.setattr(Claim, "release", lambda _: None)
        yield


def grows_cold(table: ScenarioTable, instant: InstantTime) -> None:
    """The heartbeat's last beat is long ago."""
    beat = Path(table.location) / heartbeat_path(instant)
    last_s = table.clock.now_ms() / 1000 - LONG_AGO_S
    os.utime(beat, (last_s, last_s))
