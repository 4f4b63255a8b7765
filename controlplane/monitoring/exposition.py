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
from controlplane.monitoring.check_runner import CheckRow
from controlplane.monitoring.node_metrics import (
    build_audit_metrics,
    build_marker_metrics,
    build_operation_metrics,
    build_sink_metrics,
)
from controlplane.monitoring.readiness import check_readiness
from controlplane.monitoring.table_metrics import (
    build_mirror_metrics,
    build_table_metrics,
    load_table_labels,
)

COUNTS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


class _FixedCollector:
    """A collector for a registry, with metrics that are already computed."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def scrape() -> bytes:
    """Return all metrics in Prometheus' text format. Twenty queries, next to those of readiness."""
    registry = CollectorRegistry(auto_describe=False)
    checks = check_readiness()
    registry.register(_FixedCollector(build_check_metrics(checks)))
    if any(check.name == "database" and check.is_well for check in checks):
        registry.register(_FixedCollector(build_database_metrics(timezone.now())))
    if directory := os.environ.get(COUNTS_VARIABLE):
        _remove_dead_processes(Path(directory))
        MultiProcessCollector(registry, directory)
    else:
        registry.register(_FixedCollector(COUNTED.collect()))
    return generate_latest(registry)


def build_database_metrics(now: datetime) -> list[Metric]:
    """Build the metrics from the database. Twenty queries for any number of rows."""
    labelled = load_table_labels()
    return [
        *build_table_metrics(labelled, now),
        *build_mirror_metrics(labelled),
        *build_operation_metrics(now),
        *build_audit_metrics(now),
        *build_marker_metrics(),
        *build_sink_metrics(labelled, now),
    ]


def build_check_metrics(checks: list[CheckRow]) -> Iterable[Metric]:
    """Build the metric of the checks of `/readyz`."""
    well = GaugeMetricFamily(
        "sluice_check_well", "1 where a check of /readyz is well.", labels=["check"]
    )
    for check in checks:
        well.add_metric((check.name,), float(check.is_well))
    yield well


def _remove_dead_processes(directory: Path) -> None:
    """Remove the live gauges of dead processes; their counters stay."""
    for file in directory.glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        if not psutil.pid_exists(pid):
            mark_process_dead(pid, str(directory))
