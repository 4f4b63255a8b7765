"""The context of a write, made from the snapshot that it starts from.

Every process that knows the snapshot builds the same one: the driver when it begins the write, and
a process that takes part in it without having received the context.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import groupby, islice
from typing import TypedDict

import pyarrow as pa

from workers.clock import InstantTime
from workers.concurrency.new_partitions import PartitionsAtStart
from workers.errors import InvalidInput
from workers.files.names import parse_bucket_number
from workers.markers.base import MarkerSettings
from workers.markers.tokens import mint_token
from workers.merge.rule import MergeRule
from workers.options.bloom_options import BloomOptions
from workers.options.insert_size import COMMITS_READ_MAX, InsertSizing, estimate_record_bytes
from workers.options.write_keys import MarkerKind
from workers.options.write_options import WriteOptions
from workers.options.writer_modes import ConcurrencyMode
from workers.processes import ProcessName
from workers.schema.table_schema import TableSchema
from workers.table.file_group import FileSlice
from workers.table.schema_history import find_instant
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.timeline.instant import Action
from workers.timeline.metadata import WriteStat
from workers.timeline.pending_plans import pending_file_groups
from workers.write.columns import has_delete_marks, list_written_columns
from workers.write.context import WriteContext
from workers.write.request import WriteRequest

_PLAIN_WRITES = (Action.COMMIT, Action.DELTACOMMIT)
"""A clustering sorts rows, and so makes them smaller than those that are written next."""


def build_snapshot_context(
    view: FileSystemView,
    options: WriteOptions,
    request: WriteRequest,
    *,
    instant: InstantTime,
    writer: str,
    schema: TableSchema,
    batch_schema: pa.Schema | None,
    begun_in: ProcessName | None = None,
) -> WriteContext:
    """Build the context that tasks need to write files of this instant, from a view of the table.
    Raises InvalidInput for file groups that no bucket of the table has.
    """
    table = view.table
    appends_only = options.mode is ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL
    return WriteContext(
        location=table.storage.location,
        instant=instant,
        operation=request.operation,
        config=table.config,
        schema=schema,
        columns=list_written_columns(table, request, batch_schema, schema),
        slices=_slices(table, view),
        replaced_at=dict(view.replaced_at),
        partitions=PartitionsAtStart.of(view, schema),
        markers=_marker_settings(table, options, instant),
        writer=writer,
        appends_only=appends_only,
        options=options,
        rule=MergeRule.of(table.config),
        marks_deletes=has_delete_marks(request, batch_schema),
        emptied=request.partitions,
        keeps_read_rows=appends_only and request.takes_along,
        needs_rows=appends_only and request.needs_rows,
        begun_in=begun_in,
        **_build_lookup_fields(view, options),
    )


class _LookupFields(TypedDict, total=False):
    sizing: InsertSizing
    kept_apart: frozenset[tuple[str, int]]


def _build_lookup_fields(view: FileSystemView, options: WriteOptions) -> _LookupFields:
    """Build the fields that only an index that looks up keys needs."""
    if not view.table.config.looks_up:
        return {}
    busy = pending_file_groups(view.table.storage, view.timeline)
    return {
        "sizing": replace(options.sizing, record_bytes=measure_record_bytes(view, options.sizing)),
        "kept_apart": frozenset(
            at
            for at, slice_ in _number_file_groups(view).items()
            if (slice_.partition, slice_.file_id) in busy
        ),
    }


def _marker_settings(table: Table, options: WriteOptions, instant: InstantTime) -> MarkerSettings:
    if options.marker_kind is MarkerKind.DIRECT:
        return MarkerSettings(MarkerKind.DIRECT, early=options.early)
    url = options.marker_url or os.environ.get("SLUICE_MARKER_URL") or None
    secret = os.environ.get("SLUICE_MARKER_SECRET")
    token = mint_token(secret, table.storage.location, instant) if secret else None
    return MarkerSettings(MarkerKind.TIMELINE_SERVER_BASED, url, token, options.early)


def _slices(table: Table, view: FileSystemView) -> dict[tuple[str, int], FileSlice]:
    if table.config.looks_up:
        return _number_file_groups(view)
    slices: dict[tuple[str, int], FileSlice] = {}
    for slice_ in view.slices:
        bucket = parse_bucket_number(slice_.file_id)
        if bucket is None or bucket >= table.config.buckets:
            raise InvalidInput(
                "a file group is outside the table's buckets",
                file_id=slice_.file_id,
                buckets=table.config.buckets,
            )
        if (slice_.partition, bucket) in slices:
            raise InvalidInput(
                "two file groups share one bucket", partition=slice_.partition, bucket=bucket
            )
        slices[slice_.partition, bucket] = slice_
    return slices


def _number_file_groups(view: FileSystemView) -> dict[tuple[str, int], FileSlice]:
    """Number the file groups of each partition in the order of their ids, the same in every process
    that knows the snapshot.
    """
    numbered: dict[tuple[str, int], FileSlice] = {}
    for partition, slices in groupby(view.slices, lambda file_slice: file_slice.partition):
        numbered |= {(partition, slot): slice_ for slot, slice_ in enumerate(slices)}
    return numbered


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
