"""Direct markers: one empty file per data file, created by the writer of the data file.

Better than the server where files are few; one file per data file, so worse where they are many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workers.clock import InstantTime
from workers.errors import LakehouseError, MarkerRefused
from workers.markers.base import CreateResult
from workers.markers.fence import raise_if_fenced
from workers.markers.marker import Marker, markers_directory
from workers.storage.base import Storage


class DirectMarkers:
    """MarkerWriter on the table's own storage."""

    def __init__(self, storage: Storage, instant: InstantTime) -> None:
        self._storage = storage
        self._instant = instant
        self._directory = markers_directory(instant)

    def create(self, marker: Marker) -> CreateResult:
        """Create a marker by a conditional write, with a check of the fence before and after."""
        raise_if_fenced(self._storage, self._instant)
        result = self._put(marker)
        raise_if_fenced(self._storage, self._instant)
        return result

    def create_all(self, markers: Iterable[Marker]) -> None:
        """Create all files in one call of the storage. An existing one is not an error."""
        raise_if_fenced(self._storage, self._instant)
        self._put_all(list(markers))
        raise_if_fenced(self._storage, self._instant)

    def confirm(self) -> None:
        """Do nothing: no process searches for rivals."""

    def _put_all(self, markers: Sequence[Marker]) -> None:
        try:
            self._storage.put_empty([self._path(marker) for marker in markers])
        except (OSError, LakehouseError) as error:
            raise MarkerRefused(
                "markers could not be written",
                markers=len(markers),
                first=markers[0].name,
                instant=self._instant,
            ) from error

    def _put(self, marker: Marker) -> CreateResult:
        try:
            created = self._storage.put_if_absent(self._path(marker), b"")
        except (OSError, LakehouseError) as error:
            raise MarkerRefused(
                "marker could not be written", marker=marker.name, instant=self._instant
            ) from error
        return "created" if created else "exists"

    def _path(self, marker: Marker) -> str:
        return f"{self._directory}/{marker.name}"
