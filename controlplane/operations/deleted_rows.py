"""Whether rows that a delete was to take are gone: the file groups that its plan names, read as of
the moment at which the delete became visible.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from workers.errors import InvalidInput
from workers.read.file_slice import read_slice
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.table_services.deletes.selection import parse_selection
from workers.table_services.input_rows import PATH_KEY
from workers.timeline.instant import Instant

GROUPS_READ_MAX = 32
BYTES_READ_MAX = 64 * 1024 * 1024
"""A page asks this too, so that of a large delete only its first file groups are read."""


def rows_left(
    table: Table, deleted_by: Instant, parameters: Mapping[str, str], groups: Collection[str]
) -> dict[str, int]:
    """File group (`partition/file id`) -> rows of it that match still. Keys of a file are not
    looked at: it may be gone or another one by now.
    """
    schema = load_schema(table)
    if schema is None or parameters.get(PATH_KEY, "").strip():
        return {}
    try:
        selection = parse_selection(table.config, schema, parameters)
    except InvalidInput:
        return {}  # The condition names a column that was dropped since.
    left: dict[str, int] = {}
    bytes_read = 0
    view = FileSystemView.load(table, as_of=deleted_by.completed_at)
    named = {"/".join(filter(None, (one.partition, one.file_id))): one for one in view.slices}
    for name in sorted(set(groups) & set(named))[:GROUPS_READ_MAX]:
        infos = table.storage.at_once(table.storage.info, list(named[name].files))
        bytes_read += sum(info.size for info in infos if info is not None)
        if bytes_read > BYTES_READ_MAX:
            break
        if not all(infos):
            continue  # Cleaned since, or missing, which another check says.
        rows = read_slice(table.storage, table.config.showing_unmatched, schema, named[name])
        if count := selection.of(rows).num_rows:
            left[name] = count
    return left
