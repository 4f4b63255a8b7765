"""Counters of one marker server process, for `/metrics`. Only the event loop touches them."""

from __future__ import annotations

from collections import Counter, deque

_LATENCIES_KEPT = 2_000


class Statistics:
    """Counters that only grow, since `since_ms` (UTC)."""

    def __init__(self, *, since_ms: int) -> None:
        self.since_ms = since_ms
        self.requests: Counter[str] = Counter()
        """By result: created, exists, fenced, conflict, busy, failed, denied, invalid, read,
        deleted.
        """
        self.markers_created = 0
        self.batches = 0
        self.flush_errors = 0
        self._batch_sizes: Counter[int] = Counter()
        self._latencies_ms: deque[float] = deque(maxlen=_LATENCIES_KEPT)

    def batch_flushed(self, size: int) -> None:
        """Count a flush that made `size` new markers durable."""
        self.batches += 1
        self.markers_created += size
        self._batch_sizes[max(1, size).bit_length() - 1] += 1

    def record_answer(self, latency_ms: float) -> None:
        """Record how long a create took, in ms; the last 2000 make the percentiles."""
        self._latencies_ms.append(latency_ms)

    def summary(self) -> dict[str, object]:
        """Return the statistics for `/metrics`, ready for JSON: batch sizes by ranges of powers of
        two such as `4-7`, latencies as percentiles in ms, None before the first.
        """
        latencies = sorted(self._latencies_ms)
        return {
            "since_ms": self.since_ms,
            "requests_total": self.requests.total(),
            "requests": dict(sorted(self.requests.items())),
            "markers_created": self.markers_created,
            "batches": self.batches,
            "flush_errors": self.flush_errors,
            "batch_sizes": {
                _span(power): count for power, count in sorted(self._batch_sizes.items())
            },
            "latency_ms": {
                "count": len(latencies),
                "p50": _percentile(latencies, 50),
                "p95": _percentile(latencies, 95),
                "p99": _percentile(latencies, 99),
            },
        }


def _span(power: int) -> str:
    least, most = 1 << power, (1 << (power + 1)) - 1
    return str(least) if least == most else f"{least}-{most}"


def _percentile(ordered: list[float], percent: int) -> float | None:
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], 3)
