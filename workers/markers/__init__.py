"""Markers: what an instant may have written, durable before it is written."""

from workers.markers.base import CreateResult, MarkerSettings, MarkerWriter
from workers.markers.client import ServerMarkers
from workers.markers.direct import DirectMarkers
from workers.markers.fence import is_fenced
from workers.markers.marker import (
    MARKERS_TYPE_FILE,
    IOType,
    Marker,
    markers_directory,
    parse_marker,
)
from workers.markers.opener import open_markers
from workers.markers.store import delete_markers, pending_marker_instants, read_markers
from workers.markers.tokens import check_token, mint_admin_token, mint_token

__all__ = [
    "MARKERS_TYPE_FILE",
    "CreateResult",
    "DirectMarkers",
    "IOType",
    "Marker",
    "MarkerSettings",
    "MarkerWriter",
    "ServerMarkers",
    "check_token",
    "delete_markers",
    "is_fenced",
    "markers_directory",
    "mint_admin_token",
    "mint_token",
    "open_markers",
    "parse_marker",
    "pending_marker_instants",
    "read_markers",
]
