"""Files of an earlier state of the table that cleans deleted since.

A savepoint of that state, a restore to it and a rollback down to it need this list: deleted files
cannot be brought back.
"""

from __future__ import annotations

from collections.abc import Iterator

from workers.clock import InstantTime
from workers.errors import MalformedTable, NotFound
from workers.files.names import parse_base_file, parse_log_file
from workers.storage.base import join
from workers.table.commit_lookup import find_archived_file
from workers.table.table import Table
from workers.table.view import FileSystemView, GroupKey, VisibleFiles
from workers.timeline.clean_metadata import read_clean_metadata, read_clean_plan
from workers.timeline.instant import Action, Instant
from workers.timeline.pending_plans import plan_content
from workers.timeline.timeline import Timeline


def find_cleaned_files(table: Table, timeline: Timeline, as_of: InstantTime) -> list[str]:
    """Return the files of the snapshot at the completion time `as_of` that cleans deleted or will
    delete.

    Only cleans planned later count: an earlier plan deletes no file that was in use. Raises
    MalformedTable.
    """
    cleans = [instant for instant in timeline.instants if _is_later_clean(instant, as_of)]
    deleted = sorted({path for clean in cleans for path in _list_cleaned(table, clean)})
    if not deleted:
        return []
    view = FileSystemView.load(table, timeline=timeline, as_of=as_of)
    bases = {(slice_.partition, slice_.file_id): slice_.base_instant for slice_ in view.slices}
    read_files = {path for slice_ in view.slices for path in slice_.files}
    then = VisibleFiles(table, timeline, as_of)
    replaced = then.find_replaced_groups()
    return [
        path for path in deleted if path in read_files or _was_read(path, then, bases, replaced)
    ]


def _is_later_clean(instant: Instant, as_of: InstantTime) -> bool:
    return instant.action is Action.CLEAN and instant.requested_at > as_of


def _list_cleaned(table: Table, clean: Instant) -> Iterator[str]:
    if not clean.is_completed:
        plan = read_clean_plan(plan_content(table.storage, clean))
        yield from plan.paths if plan else ()
        return
    try:
        content = table.storage.read(table.layout.path(clean))
    except NotFound as error:
        archived = find_archived_file(table, clean)
        if not archived:
            raise MalformedTable(
                "the metadata of a clean is missing", instant=clean.requested_at
            ) from error
        content = archived
    for partition, names in read_clean_metadata(content).deleted_by_partition.items():
        yield from (join(partition, name) for name in names)


def _was_read(
    path: str,
    then: VisibleFiles,
    bases: dict[GroupKey, InstantTime | None],
    replaced: dict[GroupKey, InstantTime],
) -> bool:
    """Check whether the snapshot would have read the file, which is missing now."""
    partition, _, name = path.rpartition("/")
    base, log = parse_base_file(name), parse_log_file(name)
    file_name = base or log
    if file_name is None or (partition, file_name.file_id) in replaced:
        return False
    completed_at = then.find_completion(file_name.instant)
    if completed_at is None:
        return False
    base_instant = bases.get((partition, file_name.file_id))
    if base_instant is None:
        return True
    return (file_name.instant if base else completed_at) > base_instant
