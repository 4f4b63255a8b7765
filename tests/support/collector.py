"""What a collector of OpenTelemetry gets: the spans in the requests that a receiver noted, decoded
by OpenTelemetry's own protobuf.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from tests.support.receivers import Receiver

PATH = "/v1/traces"


@dataclass(frozen=True, slots=True)
class SentSpan:
    name: str
    service: str
    trace: str
    span: str
    parent: str
    """Empty of a root."""
    attributes: Mapping[str, str | int]
    failed_with: str
    """What its status says; empty of one that went well."""


def spans_of(receiver: Receiver) -> list[SentSpan]:
    """All that came so far, in the order in which they ended in their process."""
    sent: list[SentSpan] = []
    for request in list(receiver.received):
        assert request.path == PATH, request
        batch = ExportTraceServiceRequest.FromString(request.body)
        for resource in batch.resource_spans:
            service = _attributes(resource.resource.attributes).get("service.name", "")
            sent += [
                SentSpan(
                    name=span.name,
                    service=str(service),
                    trace=span.trace_id.hex(),
                    span=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    attributes=_attributes(span.attributes),
                    failed_with=span.status.message,
                )
                for scope in resource.scope_spans
                for span in scope.spans
            ]
    return sent


def wait_for_spans(receiver: Receiver, names: set[str], timeout_s: float = 20.0) -> list[SentSpan]:
    """Until a span of each name has come. Raises AssertionError."""
    deadline_s = time.monotonic() + timeout_s
    while missing := names - {span.name for span in spans_of(receiver)}:
        assert time.monotonic() < deadline_s, f"no span came: {sorted(missing)}"
        time.sleep(0.02)
    return spans_of(receiver)


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, str | int]:
    named: dict[str, str | int] = {}
    for pair in pairs:
        which = pair.value.WhichOneof("value")
        named[pair.key] = getattr(pair.value, which) if which else ""
    return named
