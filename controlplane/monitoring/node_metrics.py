"""Figures of operations, audit, marker server and sinks, from the database. Eleven queries."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Count, F, Min, Q, Sum
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from controlplane.audit.queries import load_chain_state
from controlplane.mirror.models import ServerSample, SinkRecord
from controlplane.mirror.queries.sinks import OVER, silent_sinks
from controlplane.monitoring.table_metrics import BY_TABLE, Labels
from controlplane.operations.models import MarkerServer, Operation
from controlplane.operations.states import OPEN, OperationState

SINKS_MAX = 1_000
_KNOWN = Q(participants__broker_offset__isnull=False, participants__table_offset__isnull=False)


def build_operation_metrics(now: datetime) -> Iterable[Metric]:
    """Those that are open; what has ended is counted where it ends. One query."""
    open_now = GaugeMetricFamily(
        "sluice_operations_open", "Operations that have not ended.", labels=["kind", "state"]
    )
    waiting: list[datetime] = []
    rows = Operation.objects.filter(state__in=sorted(OPEN)).order_by().values("kind", "state")
    for row in rows.annotate(n=Count("pk"), oldest=Min("requested_at")):
        open_now.add_metric((row["kind"], row["state"]), row["n"])
        if row["state"] == OperationState.QUEUED.value:
            waiting.append(row["oldest"])
    yield open_now
    yield GaugeMetricFamily(
        "sluice_operations_queue_age_seconds",
        "How long the oldest operation has waited for a worker; 0 where none waits.",
        value=max(0.0, (now - min(waiting)).total_seconds()) if waiting else 0.0,
    )


def build_audit_metrics(now: datetime) -> Iterable[Metric]:
    """Whether its chain is as the page says. Five queries."""
    yield GaugeMetricFamily(
        "sluice_audit_well",
        "0 where the audit does not verify, or was not verified for ten minutes.",
        value=float(load_chain_state(now).verdict in ("good", "quiet")),
    )


def build_marker_metrics() -> Iterable[Metric]:
    """The marker server's own, as its newest sample has them. Two queries."""
    server = MarkerServer.objects.order_by(F("started_at").desc(nulls_last=True)).first()
    sample = ServerSample.objects.order_by("-at").first()
    yield GaugeMetricFamily(
        "sluice_marker_server_up",
        "1 while the marker server answers.",
        value=float(sample is not None and sample.up),
    )
    yield CounterMetricFamily(
        "sluice_marker_server_restarts",
        "How often it was started again.",
        value=server.restarts if server else 0,
    )
    up = sample if sample is not None and sample.up else ServerSample()
    yield GaugeMetricFamily(
        "sluice_marker_queue_depth", "Markers that wait for their batch.", value=up.queue_depth
    )
    yield CounterMetricFamily(
        "sluice_marker_batches", "Batches made durable since it started.", value=up.batches
    )
    yield CounterMetricFamily(
        "sluice_marker_requests", "Requests answered since it started.", value=up.requests
    )
    yield CounterMetricFamily(
        "sluice_markers_created", "Markers made since it started.", value=up.markers
    )
    latency = GaugeMetricFamily(
        "sluice_marker_latency_seconds",
        "How long the newest 2,000 markers took, as a quantile.",
        labels=["quantile"],
    )
    for quantile, taken_ms in (("0.5", up.p50_ms), ("0.95", up.p95_ms)):
        if taken_ms is not None:
            latency.add_metric((quantile,), taken_ms / 1000)
    yield latency


def build_sink_metrics(labelled: dict[int, Labels], now: datetime) -> Iterable[Metric]:
    """The first `SINKS_MAX` sinks of labelled tables; the rest is counted. Three queries."""
    labels = [*BY_TABLE, "sink"]
    lag = GaugeMetricFamily(
        "sluice_sink_lag_records", "Records of the topic that the table lacks.", labels=labels
    )
    epoch = GaugeMetricFamily(
        "sluice_sink_epoch", "The highest epoch that a coordinator took.", labels=labels
    )
    transactions = GaugeMetricFamily(
        "sluice_sink_open_transactions", "1 while a transaction is open.", labels=labels
    )
    spoke = GaugeMetricFamily(
        "sluice_sink_spoke_timestamp_seconds",
        "When its coordinator last said its state.",
        labels=labels,
    )
    records = SinkRecord.objects.defer("trace", "transactions", "counters").annotate(
        broker=Sum("participants__broker_offset", filter=_KNOWN),
        stored=Sum("participants__table_offset", filter=_KNOWN),
    )
    for record in records.filter(table__in=labelled).order_by("pk")[:SINKS_MAX]:
        named = (*labelled[record.table_id], record.sink_id)
        counted = vars(record)  # Annotations, which the model does not declare.
        if counted["broker"] is not None and counted["stored"] is not None:
            lag.add_metric(named, max(0, counted["broker"] - counted["stored"]))
        epoch.add_metric(named, max(record.epoch, record.taken_epoch))
        is_open = bool(record.instant) and record.state not in OVER
        transactions.add_metric(named, float(is_open))
        if record.updated_at is not None:
            spoke.add_metric(named, record.updated_at.timestamp())
    yield from (lag, epoch, transactions, spoke)
    yield GaugeMetricFamily(
        "sluice_sinks", "Sinks of all tables.", value=SinkRecord.objects.count()
    )
    yield GaugeMetricFamily(
        "sluice_sinks_silent",
        "Sinks whose coordinator should speak and does not.",
        value=silent_sinks(now).count(),
    )
