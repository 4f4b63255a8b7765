"""Exposition of all metrics, those of processes and those from the database, for Prometheus, and
their list as a Markdown table, for the documentation.

While the database does not answer, a scrape contains the other metrics, failed checks included.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from controlplane import instruments
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    name: str
    """The name in queries; for histograms without `_bucket`, `_sum` and `_count`."""
    kind: str
    labels: tuple[str, ...]
    about: str


def list_metrics() -> list[MetricRow]:
    """List all metrics by name. Runs the queries of a scrape."""
    figures = [*build_check_metrics([]), *build_database_metrics(timezone.now())]
    return sorted(
        [*_describe_families(figures), *_describe_instruments()], key=lambda row: row.name
    )


def format_markdown(rows: Iterable[MetricRow]) -> str:
    """Format the metrics as a table, one line each."""
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for row in rows:
        labels = ", ".join(f"`{label}`" for label in row.labels)
        lines.append(f"| `{row.name}` | {row.kind} | {labels} | {row.about} |")
    return "\n".join(lines) + "\n"


def _describe_families(figures: Iterable[Metric]) -> Iterator[MetricRow]:
    for family in figures:
        labels = tuple(getattr(family, "_labelnames", ()))
        yield _row(family.name, family.type, labels, family.documentation)


def _describe_instruments() -> Iterator[MetricRow]:
    for instrument in vars(instruments).values():
        if isinstance(instrument, MetricWrapperBase):
            (family,) = instrument.describe()
            labels = tuple(instrument._labelnames)
            yield _row(family.name, family.type, labels, family.documentation)


def _row(name: str, kind: str, labels: tuple[str, ...], about: str) -> MetricRow:
    full = f"{name}_total" if kind == "counter" else name
    return MetricRow(name=full, kind=kind, labels=labels, about=about)
