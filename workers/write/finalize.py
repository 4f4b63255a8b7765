"""Before a commit is decided: delete what attempts wrote that no status names (task retries,
speculation).

Contract: runs while nobody else may be writing for this instant; what a late attempt writes
afterwards is refused by its marker, because a decision exists by then.
"""

from __future__ import annotations

from collections.abc import Iterable

from workers.clock import InstantTime
from workers.files.names import instant_of
from workers.markers.store import read_markers
from workers.storage.base import Storage
from workers.write.status import WriteStatus


def drop_strays(
    storage: Storage, instant: InstantTime, statuses: Iterable[WriteStatus]
) -> list[str]:
    """The paths that were deleted (or never written), relative to the table."""
    kept = {status.stat.path for status in statuses}
    named = {
        marker.data_path
        for marker in read_markers(storage, instant)
        if instant_of(marker.data_file_name) == instant  # A wrong marker costs nobody's data.
    }
    strays = sorted(named - kept)
    for path in strays:
        storage.delete(path)
    return strays
