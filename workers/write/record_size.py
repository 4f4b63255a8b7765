"""The size of a record of the table, from its newest commits; inserts are sized by it."""

from __future__ import annotations

from itertools import islice

from workers.options.bloom_options import BloomOptions
from workers.options.insert_size import COMMITS_READ_MAX, InsertSizing, estimate_record_bytes
from workers.table.schema_history import find_instant
from workers.table.view import FileSystemView
from workers.timeline.instant import Action
from workers.timeline.metadata import WriteStat

_PLAIN_WRITES = (Action.COMMIT, Action.DELTACOMMIT)
"""A clustering sorts rows, and so makes them smaller than those that are written next."""


def measure_record_bytes(view: FileSystemView, sizing: InsertSizing) -> int:
    """Bytes of one record in the newest files, without their filters, which weigh as much for few
    rows. Commits that were rolled back since the view was loaded are skipped. Raises
    MalformedTable.
    """
    bloom = view.table.config.bloom
    newest = (
        write
        for write in reversed(view.timeline.list_completed_writes())
        if write.action in _PLAIN_WRITES
    )
    written: list[tuple[int, int]] = []
    for instant in islice(newest, COMMITS_READ_MAX):
        metadata = find_instant(view.table, instant)
        if metadata is None:
            continue
        stats = [stat for stat in metadata.stats if not stat.is_log]
        files = [(_bytes_of_rows(stat, bloom), stat.num_writes) for stat in stats]
        if instant.action is Action.DELTACOMMIT:
            written += files
        else:
            written.append((sum(size for size, _ in files), sum(rows for _, rows in files)))
    return estimate_record_bytes(written, sizing)


def _bytes_of_rows(stat: WriteStat, bloom: BloomOptions | None) -> int:
    return max(0, stat.bytes - (bloom.text_bytes(stat.num_writes) if bloom else 0))
