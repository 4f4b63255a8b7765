"""Apache Hudi's side of a comparison that makes no sense without it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from bench.engine import Engine, JobFailed, engine
from bench.support.hudi_environment import HudiMissing, hudi_environment


def hudi_engine(driver: str, folder: Path) -> AbstractContextManager[Engine]:
    """A driver in Hudi's own environment; raises JobFailed where there is none."""
    environment = hudi_environment()
    if isinstance(environment, HudiMissing):
        raise JobFailed(f"without Apache Hudi: {environment.reason}")
    return engine(driver, folder, python=str(environment.python), arguments=(str(environment.jar),))
