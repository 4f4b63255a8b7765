"""A few of the files that a commit wrote, read to their last row: whether each holds as many as the
commit states. A page asks this, so a large commit is read in part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.operations.own_instants import OwnInstant
from workers.clock import InstantTime
from workers.errors import MalformedTable, NotFound, UnsupportedTable
from workers.files.base_file import iterate_base_file
from workers.files.log_block import AvroData, ParquetData
from workers.files.log_file import read_log_file
from workers.files.meta_columns import RECORD_KEY
from workers.files.names import parse_name_instant
from workers.table.table import Table
from workers.timeline.metadata import WriteStat

FILES_READ_MAX = 5
BYTES_READ_MAX = 24 * 1024 * 1024
"""Together; a larger base file is read in its keys alone, a larger log not at all."""


@dataclass(frozen=True, slots=True)
class WrittenSample:
    files: int
    """That were read."""
    rows: int
    gaps: tuple[str, ...]


def written_sample(table: Table, own: OwnInstant) -> WrittenSample:
    """Files that are missing are passed over: another check names them, or says who took them.

    Raises StorageFailed.
    """
    at = own.instant.requested_at
    files, rows, bytes_left = 0, 0, BYTES_READ_MAX
    gaps: list[str] = []
    for stat in _chosen(own.commit.stats, at):
        is_whole = stat.bytes <= bytes_left
        if stat.is_log and not is_whole:
            continue
        bytes_left -= stat.bytes if is_whole else 0
        try:
            held = _rows_of(table, stat, at, is_whole=is_whole)
        except NotFound:
            continue
        except (MalformedTable, UnsupportedTable) as error:
            gaps.append(f"{stat.path} cannot be read: {error.message}")
            continue
        files, rows = files + 1, rows + held
        if held != stat.num_writes:
            gaps.append(f"{stat.path} holds {held:,} rows instead of {stat.num_writes:,}")
    return WrittenSample(files, rows, tuple(gaps))


def _chosen(stats: Sequence[WriteStat], at: InstantTime) -> list[WriteStat]:
    """Of the files under the commit's own name, from the first to the last in equal steps."""
    own = [stat for stat in stats if parse_name_instant(stat.file_name) == at]
    if len(own) <= FILES_READ_MAX:
        return own
    return [own[one * (len(own) - 1) // (FILES_READ_MAX - 1)] for one in range(FILES_READ_MAX)]


def _rows_of(table: Table, stat: WriteStat, at: InstantTime, *, is_whole: bool) -> int:
    if not stat.is_log:
        columns = None if is_whole else [RECORD_KEY]
        parts = iterate_base_file(table.storage, stat.path, columns)
        return sum(part.num_rows for part in parts)
    blocks = read_log_file(table.storage, stat.path)
    return sum(
        block.table().num_rows
        for block in blocks
        if isinstance(block, ParquetData | AvroData) and block.instant == at
    )
