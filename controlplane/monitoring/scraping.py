"""Exposition of all metrics, those of processes and those from the database, for Prometheus.

While the database does not answer, a scrape contains the other metrics, failed checks included.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import psutil
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from controlplane.instruments import COUNTED
from controlplane.monitoring.looks import CheckRow
from controlplane.monitoring.other_figures import (
    audit_figures,
    marker_figures,
    operation_figures,
    sink_figures,
)
from controlplane.monitoring.readiness import readiness
from controlplane.monitoring.table_figures import labelled_tables, mirror_figures, table_figures

COUNTS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


class _Given:
    """A collector for a registry, with metrics that are already computed."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def scrape() -> bytes:
    """Return all metrics in Prometheus' text format. Twenty queries, next to those of readiness."""
    registry = CollectorRegistry(auto_describe=False)
    checks = readiness()
    registry.register(_Given(check_figures(checks)))
    if any(check.name == "database" and check.is_well for check in checks):
        registry.register(_Given(database_figures(timezone.now())))
    if directory := os.environ.get(COUNTS_VARIABLE):
        _forget_the_dead(Path(directory))
        MultiProcessCollector(registry, directory)
    else:
        registry.register(_Given(COUNTED.collect()))
    return generate_latest(registry)


def database_figures(now: datetime) -> list[Metric]:
    """Build the metrics from the database. Twenty queries for any number of rows."""
    labelled = labelled_tables()
    return [
        *table_figures(labelled, now),
        *mirror_figures(labelled),
        *operation_figures(now),
        *audit_figures(now),
        *marker_figures(),
        *sink_figures(labelled, now),
    ]


def check_figures(checks: list[CheckRow]) -> Iterable[Metric]:
    """Build the metric of the checks of `/readyz`."""
    well = GaugeMetricFamily(
        "sluice_check_well", "1 where a check of /readyz is well.", labels=["check"]
    )
    for check in checks:
        well.add_metric((check.name,), float(check.is_well))
    yield well


def _forget_the_dead(directory: Path) -> None:
    """Remove the live gauges of dead processes; their counters stay."""
    for file in directory.glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        if not psutil.pid_exists(pid):
            mark_process_dead(pid, str(directory))
