"""Run directories are forgotten by age and by number, never while their operation is open."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.operations import retention
from controlplane.operations.actions import do_request_write
from controlplane.operations.models import Operation
from controlplane.operations.run_dirs import run_dir
from tests.controlplane.lake import Lake

DAY_S = 86_400


def folder(operation_id: uuid.UUID, *, days_old: float) -> Path:
    path = Path(run_dir(operation_id))
    path.mkdir(parents=True)
    (path / "driver.log").write_text("a line\n")
    at = timezone.now().timestamp() - days_old * DAY_S
    os.utime(path, (at, at))
    return path


def test_old_ones_go_and_those_of_open_operations_stay(lake: Lake, admin: User) -> None:
    parameters = {"source": {"kind": "csv", "path": "/data/weather.csv"}}
    still_open = do_request_write(table=lake.row, parameters=parameters, by=admin)
    ended = do_request_write(table=lake.row, parameters=parameters, by=admin)
    Operation.objects.filter(pk=ended.pk).update(state="succeeded")
    kept = [folder(still_open.pk, days_old=30), folder(uuid.uuid4(), days_old=6)]
    gone = [folder(ended.pk, days_old=8), folder(uuid.uuid4(), days_old=8)]

    assert retention.forget_run_dirs() == 2

    assert all(path.is_dir() for path in kept)
    assert not any(path.exists() for path in gone)


def test_the_oldest_above_the_limit_go(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "KEPT_MAX", 4)
    paths = [folder(uuid.uuid4(), days_old=age / 24) for age in range(6)]

    assert retention.forget_run_dirs() == 2

    assert [path.exists() for path in paths] == [True] * 4 + [False] * 2


def test_what_is_not_named_like_an_operation_is_left_alone(lake: Lake, tmp_path: Path) -> None:
    foreign = folder(uuid.uuid4(), days_old=30).parent / "notes"
    foreign.mkdir()
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    link = foreign.parent / str(uuid.uuid4())
    link.symlink_to(outside)
    os.utime(foreign, (0, 0))

    assert retention.forget_run_dirs() == 1

    assert foreign.is_dir()
    assert link.is_symlink()
    assert outside.is_dir()
