"""Export of spans to a collector: OTLP, as protobuf over HTTP, in batches from a thread.

The only module that loads OpenTelemetry (`requirements-otel.txt`); `workers.traces` loads it when
traces are enabled. OpenTelemetry's own `OTEL_*` variables configure the address, the headers and
the share of traces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from workers.masking import Masker, secret_values
from workers.traces import Attributes, Kind

_EVERY_MS: Final = 1_000
_TIMEOUT_S: Final = 3.0
"""The limit for one batch; a process that ends waits no longer for a collector that is away."""
_CHARS_MAX: Final = 500
_KINDS: Final[Mapping[Kind, SpanKind]] = {
    "internal": SpanKind.INTERNAL,
    "server": SpanKind.SERVER,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
}
_PARENTS: Final = TraceContextTextMapPropagator()
_PARENT: Final = "traceparent"


class ExportedTracing:
    """The spans of one process, and of those that it forks."""

    def __init__(self, environment: Mapping[str, str], service: str) -> None:
        self._masker = Masker(secret_values(environment))
        facts = {}
        if node := environment.get("SLUICE_NODE"):
            facts["sluice.node"] = node
        if not environment.get("OTEL_SERVICE_NAME"):
            facts["service.name"] = service
        self._provider = TracerProvider(resource=Resource.create(facts))
        is_set = bool(environment.get("OTEL_EXPORTER_OTLP_TIMEOUT"))
        self._provider.add_span_processor(
            BatchSpanProcessor(
                OTLPSpanExporter(timeout=None if is_set else _TIMEOUT_S),
                schedule_delay_millis=_EVERY_MS,
            )
        )
        self._tracer = self._provider.get_tracer("sluice")

    @contextmanager
    def span(self, name: str, attributes: Attributes, kind: Kind, parent: str) -> Iterator[_Noted]:
        """Create a span; see `workers.traces.span`."""
        with self._tracer.start_as_current_span(
            name,
            context=_PARENTS.extract({_PARENT: parent}) if parent else None,
            kind=_KINDS[kind],
            record_exception=False,  # Its text may name keys, values and secrets.
            set_status_on_exception=False,
        ) as current:
            noted = _Noted(current, self._masker)
            noted.note(attributes)
            try:
                yield noted
            except BaseException as error:
                current.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise

    def parent(self) -> str:
        """Return the current span as a `traceparent`."""
        carrier: dict[str, str] = {}
        _PARENTS.inject(carrier)
        return carrier.get(_PARENT, "")

    def flush(self, timeout_ms: int) -> None:
        """Return when everything is sent, or after the time."""
        self._provider.force_flush(timeout_ms)

    def close(self) -> None:
        """Send what is left, and end the thread."""
        self._provider.shutdown()


class _Noted:
    def __init__(self, current: Span, masker: Masker) -> None:
        self._current = current
        self._masker = masker

    def note(self, attributes: Attributes) -> None:
        """Add attributes; texts are masked and cut."""
        for name, fact in attributes.items():
            if isinstance(fact, str):
                self._current.set_attribute(name, self._masker.mask(fact)[:_CHARS_MAX])
            elif fact is not None:
                self._current.set_attribute(name, fact)
