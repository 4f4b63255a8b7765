"""The crash tests run quietly, and what they tried is counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.harness import Trial
from tests.support.crash_count import CASES
from tests.support.quiet import quiet_engine

__all__ = ["quiet_engine"]


@pytest.fixture(autouse=True)
def _quiet(quiet_engine: None) -> None:
    """For every test here."""


@pytest.fixture
def run_trial(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> Callable[[Trial], int]:
    """Runs a trial, lets hudi-rs judge what it left, and counts its cases, for the run as well."""

    def run(trial: Trial) -> int:
        trial.run()
        trial.judge(tmp_path)
        record_property(CASES, list(trial.cases))
        return len(trial.cases)

    return run
