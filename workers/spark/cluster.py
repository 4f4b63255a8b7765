"""A Spark cluster that executes the jobs of a driver on this machine: standalone, YARN, Kubernetes.

The driver stays on this machine (client mode), so executors must reach it at `driver_host`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from workers.errors import InvalidInput

SUBMITTED_VARIABLE: Final = "PYSPARK_GATEWAY_PORT"
"""`spark-submit` starts a driver program with it."""

_MASTER: Final = re.compile(
    r"spark://[A-Za-z0-9_.:,\[\]-]+|yarn|k8s://(https?://)?[A-Za-z0-9_.:\[\]/-]+"
)
_HOST: Final = re.compile(r"[A-Za-z0-9_.:\[\]-]{1,253}")
_KEY: Final = re.compile(r"spark\.[A-Za-z0-9_./-]{1,200}")
_OWN: Final = frozenset(
    {
        "spark.master",
        "spark.submit.deployMode",
        "spark.driver.host",
        "spark.driver.bindAddress",
        "spark.pyspark.python",
        "spark.sql.session.timeZone",
    }
)
"""The cluster's fields set them, and the engine needs UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What a driver needs to know of a cluster. Raises InvalidInput for a master that is not one of
    a cluster, and for a setting that the engine sets.
    """

    master: str
    """`spark://host:port`, `yarn` or `k8s://https://host:port`."""
    driver_host: str
    """Name or address at which executors reach this machine."""
    python: str = "python3"
    """The executors' Python; on Kubernetes the one of their image."""
    bind_address: str = ""
    """Address at which the driver listens; `driver_host` when empty."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark, trusted as the program itself is."""

    def __post_init__(self) -> None:
        if not _MASTER.fullmatch(self.master):
            raise InvalidInput(
                "Spark master must be spark://host:port, yarn or k8s://https://host:port",
                master=self.master,
            )
        for name, value in (("driver_host", self.driver_host), ("bind_address", self.bind_address)):
            if (value or name == "driver_host") and not _HOST.fullmatch(value):
                raise InvalidInput("expected the name or address of a host", field=name, got=value)
        if not self.python or "\n" in self.python:
            raise InvalidInput("expected the path of a Python program", got=repr(self.python))
        for key in self.settings:
            if not _KEY.fullmatch(key):
                raise InvalidInput("Spark setting must begin with 'spark.'", key=repr(key)[:120])
            if key in _OWN:
                raise InvalidInput("Spark setting is set by the engine; leave it out", key=key)

    @property
    def is_kubernetes(self) -> bool:
        """Check whether executors are Pods."""
        return self.master.startswith("k8s://")

    def driver_settings(self) -> dict[str, str]:
        """Return all settings of an application on this cluster, without its master and name."""
        return {
            "spark.driver.memory": "1g",
            "spark.scheduler.mode": "FAIR",
            # So that a session's first check reaches each executor that was requested.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.ui.enabled": "false",
            **self.settings,
            "spark.driver.host": self.driver_host,
            "spark.driver.bindAddress": self.bind_address or self.driver_host,
            "spark.pyspark.python": self.python,
            "spark.sql.session.timeZone": "UTC",
        }


def is_submitted(environment: Mapping[str, str]) -> bool:
    """Check whether `spark-submit` started this program: it chose the master and the settings."""
    return SUBMITTED_VARIABLE in environment
