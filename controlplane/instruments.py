"""What the processes of a node count by themselves, for `/metrics`; the database is asked for the
rest at each scrape.

A node sets PROMETHEUS_MULTIPROC_DIR: then each process counts in files of its own there, and the
web process adds them up. Without it a process counts for itself alone. Counts begin anew with `up`.
"""

from __future__ import annotations

from datetime import datetime

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

disable_created_metrics()

COUNTED = CollectorRegistry()
"""Of this process alone."""
_MINUTE_S, _HOUR_S = 60, 3600

HTTP_REQUESTS = Counter(
    "sluice_http_requests",
    "Requests by the name of their route, never by their path.",
    ["route", "method", "status"],
    registry=COUNTED,
)
HTTP_SECONDS = Histogram(
    "sluice_http_request_duration_seconds",
    "Time until the answer began.",
    ["route"],
    registry=COUNTED,
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
LIVE_STREAMS = Gauge(
    "sluice_live_streams",
    "Live streams (server-sent events) that are open.",
    registry=COUNTED,
    multiprocess_mode="livesum",
)
MIRROR_ROUNDS = Counter(
    "sluice_mirror_rounds",
    "Rounds of the mirror over all tables that ended.",
    registry=COUNTED,
)
MIRROR_ROUND_SECONDS = Histogram(
    "sluice_mirror_round_duration_seconds",
    "How long a round of the mirror took.",
    registry=COUNTED,
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30, 60),
)
MIRROR_LOOKS = Counter(
    "sluice_mirror_looks",
    "Tables that a cheap look saw unchanged.",
    registry=COUNTED,
)
MIRROR_SYNCS = Counter(
    "sluice_mirror_syncs",
    "Tables that were read because they had changed, or were due.",
    registry=COUNTED,
)
MIRROR_LEFT = Counter(
    "sluice_mirror_left",
    "Changed tables that a round left to the next one, because its time was over.",
    registry=COUNTED,
)
OPERATION_SECONDS = Histogram(
    "sluice_operation_duration_seconds",
    "From the start of an operation to its end, by its kind and the state that it ended in.",
    ["kind", "state"],
    registry=COUNTED,
    buckets=(
        *(0.5, 1, 2.5, 5, 10, 30),
        *(_MINUTE_S, 2 * _MINUTE_S, 5 * _MINUTE_S, 15 * _MINUTE_S),
        *(_HOUR_S, 4 * _HOUR_S, 24 * _HOUR_S),
    ),
)
OPERATION_WAIT_SECONDS = Histogram(
    "sluice_operation_wait_seconds",
    "From the request of an operation to its start.",
    ["kind"],
    registry=COUNTED,
    buckets=(0.1, 0.5, 1, 2.5, 5, 10, 30, _MINUTE_S, 5 * _MINUTE_S, _HOUR_S),
)
ALERT_DELIVERIES = Counter(
    "sluice_alert_deliveries",
    "Attempts to send word of alerts, by the kind of channel and how they ended: sent, failed, "
    "lost, or dead, which is the last one of a message that was never taken.",
    ["kind", "state"],
    registry=COUNTED,
)


def count_delivery(kind: str, state: str) -> None:
    """An attempt to send a message to a channel of this kind has ended so."""
    ALERT_DELIVERIES.labels(kind, state).inc()


def count_round(*, looked_at: int, synced: int, left: int, took_s: float) -> None:
    """A round of the mirror has ended."""
    MIRROR_ROUNDS.inc()
    MIRROR_ROUND_SECONDS.observe(took_s)
    MIRROR_LOOKS.inc(looked_at)
    MIRROR_SYNCS.inc(synced)
    MIRROR_LEFT.inc(left)


def count_ended(
    kind: str,
    state: str,
    *,
    requested_at: datetime,
    started_at: datetime | None,
    finished_at: datetime,
) -> None:
    """An operation has come to a final state; one that never started took no time."""
    began = started_at or finished_at
    OPERATION_SECONDS.labels(kind, state).observe((finished_at - began).total_seconds())
    OPERATION_WAIT_SECONDS.labels(kind).observe((began - requested_at).total_seconds())
