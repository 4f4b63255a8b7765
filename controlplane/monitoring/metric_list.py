"""The list of all metrics as a Markdown table, for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.utils import timezone
from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase

from controlplane import instruments
from controlplane.monitoring.exposition import build_check_metrics, build_database_metrics


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
    lines = ["| metric | type | labels | what it says |", "|---|---|---|---|"]
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
