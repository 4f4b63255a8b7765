"""A process that does not answer yet is awaited, whatever its client raises."""

from __future__ import annotations

import pytest
from kombu.exceptions import OperationalError

from controlplane.celery import app
from controlplane.node.readiness import worker_answers


def test_redis_that_still_loads_its_data_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    def ping(**_options: object) -> None:
        raise OperationalError("Redis is loading the dataset in memory")

    monkeypatch.setattr(app.control, "ping", ping)

    assert worker_answers("worker") == "no answer from the queue: OperationalError"
