"""The cleanup before a commit is decided: delete files of attempts that no status names (task
retries, speculation).

Contract: it runs while no other process may be writing for this instant. What a late attempt writes
afterwards is rejected by its marker, because a decision exists by then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from workers.clock import InstantTime
from workers.files.names import parse_name_instant
from workers.files.partition import files_by_partition
from workers.markers.store import read_markers
from workers.storage.base import Storage
from workers.write.status import WriteStatus

_log = logging.getLogger(__name__)


def delete_unreferenced_files(
    storage: Storage, instant: InstantTime, statuses: Iterable[WriteStatus]
) -> list[str]:
    """Delete unreferenced files of the instant. Return their paths, relative to the table,
    including files that were never written.

    Every file that was written had its marker first. Where one of `statuses` has none, markers were
    lost, and the partitions are listed instead.
    """
    referenced = {status.stat.path: status.stat.partition_path for status in statuses}
    markers = [
        marker
        for marker in read_markers(storage, instant)
        if parse_name_instant(marker.data_file_name) == instant  # A wrong marker costs no data.
    ]
    named = {marker.data_path for marker in markers}
    if not referenced.keys() <= named:
        _log.warning("markers were lost, listing instead: instant=%s", instant)
        touched = {*referenced.values(), *(marker.partition for marker in markers)}
        for listed in files_by_partition(storage, sorted(touched)).values():
            for info in listed:
                if parse_name_instant(info.name) == instant:
                    named.add(info.path)
    strays = sorted(named - referenced.keys())
    storage.delete_many(strays)
    return strays
