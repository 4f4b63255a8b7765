"""From settings to a writer of markers, on a driver as on an executor."""

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
    """The writer that `settings` ask for; without a server's address direct, with a hint.

    A server that is named but away is an error, after the retry window: markers of one instant in
    two places are readable, but a writer that silently went another way than it was told is not
    what anybody wants to find out later.
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
