"""Write the file groups of one task: markers first, then one file each, then the statuses.

Runs on executors and in plain processes alike. It reads only the context and its rows. Files are
written in parallel, each by one thread, so their bytes and the order of the statuses are those of a
single thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import count

import pyarrow as pa

from workers.concurrency.late_writers import record_writer
from workers.errors import InstantRolledBack
from workers.files.names import BaseFileName, LogFileName, write_token
from workers.markers.base import MarkerWriter
from workers.markers.detecting_markers import open_detecting
from workers.markers.fence import raise_if_fenced
from workers.markers.opener import open_markers
from workers.ports import system_ports
from workers.storage.base import Storage
from workers.table.table import Table
from workers.threads import beside_each_other, threads_for
from workers.timeline import decisions
from workers.write.base_handle import BaseDelete, BaseWrite
from workers.write.context import WriteContext
from workers.write.duplicates import without_known_keys
from workers.write.groups import RowGroup
from workers.write.log_handle import LogDelete, LogWrite
from workers.write.null_partitions import check_replaced_values, is_shared, partition_values
from workers.write.placement import place_batch
from workers.write.status import TaskIds, WriteStatus

FileWrite = BaseWrite | BaseDelete | LogWrite | LogDelete


def write_file_groups(
    context: WriteContext, prepared: pa.Table, task: TaskIds, storage: Storage
) -> list[WriteStatus]:
    """Write all rows of the write, as `prepare` made them: `write_row_groups` once they are placed.

    Raises as that, and before any file InvalidInput for keys that an insert may not bring.
    """
    placement = place_batch(context, prepared, storage)
    groups = placement.groups(_get_threads_wanted(context, storage))
    return write_row_groups(placement.context, groups, task, storage)


def write_row_groups(
    context: WriteContext, groups: Iterable[RowGroup], task: TaskIds, storage: Storage
) -> list[WriteStatus]:
    """Write one file per file group that is changed. A group must have all rows of its file group.

    Raises EarlyConflict: the whole write will not commit. Raises InvalidInput for partitions that
    nest, InstantRolledBack, MarkerRefused, StorageFailed: the write has failed.
    """
    arrived = list(groups)
    sizes = [_measure_group(context, storage, group) for group in arrived]
    threads = threads_for(sizes, _get_threads_wanted(context, storage))
    planned = beside_each_other(
        lambda group: _plan_write(context, group, task, storage), arrived, threads=threads
    )
    writes = [write for write in planned if write is not None]
    if not writes:
        return []
    with _note_process(context, storage):
        return _write_files(context, writes, task, storage, threads)


def _get_threads_wanted(context: WriteContext, storage: Storage) -> int | None:
    """Return the count of threads; None if cores and memory decide. A task of Spark shares its
    cores with other tasks. On a bucket other threads work while one waits.
    """
    if context.options.threads is not None:
        return context.options.threads
    is_alone = context.begun_in == system_ports().processes.here()
    return None if storage.is_local and is_alone else storage.files_at_once


def _measure_group(context: WriteContext, storage: Storage, group: RowGroup) -> int:
    """Return its minimum size in memory: its rows, and the base file that they are merged into. The
    file of a bucket does not count, because its size costs a request.
    """
    current_slice = context.current_slice(group.partition, group.slot)
    base_file = None if current_slice is None else current_slice.base_file
    if base_file is None or not storage.is_local:
        return group.rows.nbytes
    if context.appends_log(group.partition, group.slot):
        return group.rows.nbytes
    info = storage.info(base_file)  # Missing, if this write was rolled back: see below.
    return group.rows.nbytes + (0 if info is None else info.size)


def _note_process(context: WriteContext, storage: Storage) -> AbstractContextManager[None]:
    ports = system_ports()
    if context.begun_in == ports.processes.here():
        return nullcontext()
    return record_writer(storage, context.instant, ports.processes, ports.ids.token())


def _write_files(
    context: WriteContext,
    writes: Sequence[FileWrite],
    task: TaskIds,
    storage: Storage,
    threads: int,
) -> list[WriteStatus]:
    context.partitions.check({write.marker.partition for write in writes})
    _check_overwritten(context, writes, storage)
    markers = _markers(context, storage)
    markers.create_all(write.marker for write in writes)
    begun = count()

    def look() -> None:
        if next(begun) % storage.files_at_once == 0:
            markers.confirm()
            raise_if_fenced(
                storage, context.instant
            )  # A write that was rolled back stops here (bug C2).

    statuses = beside_each_other(
        lambda write: write.run(context, storage, task), writes, threads=threads, before_each=look
    )
    _delete_if_decided(context, statuses, storage)
    return statuses


def _check_overwritten(
    context: WriteContext, writes: Sequence[FileWrite], storage: Storage
) -> None:
    """Check that an overwrite replaces only its own values: a null and an empty text have one path,
    and the rows of one do not replace those of the other. Raises InvalidInput.
    """
    if context.operation != "insert_overwrite":
        return
    groups = [write.group for write in writes if is_shared(write.group.partition)]
    for path in {group.partition for group in groups} - set(context.emptied):
        rows = pa.concat_tables(
            [row_group.rows for row_group in groups if row_group.partition == path]
        )
        slices = [slice_ for (partition, _), slice_ in context.slices.items() if partition == path]
        values = partition_values(context.config, rows)
        check_replaced_values(context.config, context.schema, storage, slices, values)


def _delete_if_decided(
    context: WriteContext, statuses: Sequence[WriteStatus], storage: Storage
) -> None:
    """Delete the files if the instant was decided after their markers were created: that process
    may have listed before the files were there.

    A commit is decided when its tasks have answered. This task has not, so the decision is another
    attempt's.
    """
    if decisions.is_decided(storage, context.instant):
        storage.delete_many([status.stat.path for status in statuses])
        raise InstantRolledBack("instant was decided under its task", instant=context.instant)


def _markers(context: WriteContext, storage: Storage) -> MarkerWriter:
    if context.markers.early is None:
        return open_markers(context.markers, storage, context.instant)
    table = Table(storage, context.config, system_ports())
    return open_detecting(context.markers, table, context.options, context.instant)


def _plan_write(
    context: WriteContext, group: RowGroup, task: TaskIds, storage: Storage
) -> FileWrite | None:
    """Return the file to write; None when the group changes nothing."""
    current_slice = context.current_slice(group.partition, group.slot)
    file_id = context.file_id(group.partition, group.slot)
    token = write_token(task.partition, task.stage, task.attempt)
    log_name = LogFileName(file_id, context.instant, task.file_version, token).text
    base_name = BaseFileName(file_id, token, context.instant).text
    if group.rows.num_rows == 0 and group.leaving is not None:
        group = replace(group, rows=group.leaving)
    elif context.operation != "delete":
        name = log_name if context.appends_log(group.partition, group.slot) else base_name
        return _plan_row_write(context, group, file_id, name, storage)
    if current_slice is None:
        return None
    if context.config.is_merge_on_read:
        return LogDelete(group, file_id, log_name)
    delete = BaseDelete(group, file_id, base_name, current_slice)
    return delete if group.leaving is not None or delete.has_matches(storage) else None


def _plan_row_write(
    context: WriteContext, group: RowGroup, file_id: str, name: str, storage: Storage
) -> FileWrite | None:
    current_slice = context.current_slice(group.partition, group.slot)
    group = without_known_keys(context, group, current_slice, storage)
    if group.rows.num_rows == 0:
        return None
    if context.appends_log(group.partition, group.slot):
        return LogWrite(group, file_id, name, is_new=current_slice is None)
    return BaseWrite(group, file_id, name, current_slice)
