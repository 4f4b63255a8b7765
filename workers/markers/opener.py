"""The choice of a marker writer by settings, on a driver as on an executor."""

from __future__ import annotations

import logging
from functools import cache

from workers.clock import InstantTime
from workers.markers.base import MarkerSettings, MarkerWriter
from workers.markers.client import RETRY_WINDOW_S, ServerMarkers
from workers.markers.direct import DirectMarkers
from workers.options.write_keys import MarkerKind
from workers.ports import Ports
from workers.storage.base import Storage

_log = logging.getLogger(__name__)


def open_markers(
    settings: MarkerSettings,
    storage: Storage,
    instant: InstantTime,
    *,
    retry_window_s: float = RETRY_WINDOW_S,
    ports: Ports | None = None,
) -> MarkerWriter:
    """Open the writer that `settings` require; without a server's address direct, with a hint.

    A configured server that is away is an error, after the retry window: markers of one instant in
    two places are readable, but a writer must not silently differ from its settings.
    """
    if settings.kind == MarkerKind.DIRECT:
        return DirectMarkers(storage, instant)
    if settings.url is None:
        _hint_once()
        return DirectMarkers(storage, instant)
    return ServerMarkers(
        settings.url,
        settings.token,
        storage.location,
        instant,
        early=settings.early,
        retry_window_s=retry_window_s,
        ports=ports,
    )


@cache
def _hint_once() -> None:
    """Log once per process that markers are written directly because no server is set."""
    _log.warning(
        "no marker server is set, so each marker is a file; set SLUICE_MARKER_URL to a marker "
        "server, or hoodie.write.markers.type=direct to turn this warning off"
    )
