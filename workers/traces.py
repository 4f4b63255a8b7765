"""Optional spans for OpenTelemetry: the time between a request and the file that a commit
publishes.

Off, and nothing of OpenTelemetry is loaded, unless `OTEL_EXPORTER_OTLP_ENDPOINT` or `SLUICE_TRACES`
is set. Attributes are names, times and numbers: no path of a request, no text of an error, no value
of a row; text that resembles a secret is masked anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Literal, Protocol

from workers.installation import IS_CHECKOUT, format_installation

TRACES_VARIABLE: Final = "SLUICE_TRACES"
"""`0`: no traces; anything else: traces, to the address in OpenTelemetry's own variables."""
ENDPOINT_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
OTEL_PREFIX: Final = "OTEL_"
"""The prefix of the variables that OpenTelemetry reads itself."""
PARENT_VARIABLE: Final = "TRACEPARENT"
"""By which a process learns which span it was started in."""
PARENT: Final = "sluice_traceparent"
"""The header of a job's message with the same value; the message's signature covers it."""

Kind = Literal["internal", "server", "producer", "consumer"]
Attributes = Mapping[str, str | int | float | bool | None]

_PARENT_CHARS_MAX = 64
_log = logging.getLogger(__name__)


class Span(Protocol):
    """A measured span."""

    def note(self, attributes: Attributes) -> None:
        """Add attributes; those that are None are left out."""


class Tracing(Protocol):
    """A source of spans that sends them away; one in a process."""

    def span(
        self, name: str, attributes: Attributes, kind: Kind, parent: str
    ) -> AbstractContextManager[Span]:
        """Create a span; see `span` below."""

    def parent(self) -> str:
        """Return the parent; see `current_parent`."""

    def flush(self, timeout_ms: int) -> None:
        """Send what is left; see `flush_traces`."""


class _Silent:
    def note(self, attributes: Attributes) -> None:
        """Ignore the attributes."""


_SILENT: Final = _Silent()
_of_process: list[Tracing] = []
"""Empty as long as no traces are wanted; one at most."""


def are_wanted(environment: Mapping[str, str]) -> bool:
    """Return True if the environment enables traces."""
    if setting := environment.get(TRACES_VARIABLE, ""):
        return setting != "0"
    return any(environment.get(name) for name in ENDPOINT_VARIABLES)


def configure_traces(environment: Mapping[str, str], service: str) -> None:
    """Trace from now on as the service of this name, if traces are enabled. Without OpenTelemetry
    it logs that and continues without traces.
    """
    if _of_process or not are_wanted(environment):
        return
    try:
        from workers.trace_export import ExportedTracing
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("opentelemetry"):
            raise
        _log.warning(
            "no traces: OpenTelemetry is not installed; run `%s` in the node's environment, or set"
            " %s=0",
            "pip install -r requirements-otel.txt" if IS_CHECKOUT else format_installation("otel"),
            TRACES_VARIABLE,
        )
        return
    _of_process.append(ExportedTracing(environment, service))


@contextmanager
def span(
    name: str,
    attributes: Attributes | None = None,
    *,
    kind: Kind = "internal",
    parent: str = "",
) -> Iterator[Span]:
    """Create a span around the block; below the current one, or below `parent`, the
    `current_parent` of another process. An error that leaves the block is named by its class alone.
    """
    if not _of_process:
        yield _SILENT
        return
    with _of_process[0].span(name, attributes or {}, kind, parent) as entered:
        yield entered


def current_parent() -> str:
    """Return the current span, in the form of the W3C's `traceparent`; empty if there is none."""
    return _of_process[0].parent() if _of_process else ""


def sent_parent(header: object) -> str:
    """Return the parent in a message's header, which is not trusted."""
    return header if isinstance(header, str) and len(header) <= _PARENT_CHARS_MAX else ""


def flush_traces(timeout_ms: int = 3_000) -> None:
    """Send what is left, in a process that ends without Python's own way of ending."""
    for tracing in _of_process:
        tracing.flush(timeout_ms)
