"""File groups, their slices and their partitions as the last sync saw them, as plain rows. Never
touches storage.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from django.db.models import Count, Exists, Max, Min, OuterRef, Q, QuerySet, Sum

from controlplane.errors import InvalidRequest
from controlplane.mirror.models import FileGroupRecord, InstantRecord, LeftOutFiles, SyncMark
from controlplane.paging import PAGE_ROWS, PAGE_ROWS_MAX, Page
from controlplane.read_together import read_together
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from workers.clock import InstantTime
from workers.json_text import read_json

Order = Literal["partition", "-bytes", "-log_files"]
SMALL_FILE_BYTES = 100 * 1024 * 1024
"""Hudi's own limit (`hoodie.parquet.small.file.limit`)."""
PARTITIONS_MAX = 5_000
SEARCH_CHARS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroupRow:
    partition: str
    file_id: str
    base_instant: InstantTime | None
    base_file: str
    base_bytes: int
    log_files: int
    log_bytes: int
    bytes: int
    log_share_pct: float
    """How much of the latest slice waits for a compaction."""
    slices: int
    old_files: int
    old_bytes: int
    first_instant: InstantTime
    last_instant: InstantTime
    is_replaced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRow:
    base_instant: InstantTime | None
    base_file: str
    base_bytes: int
    log_files: int
    log_bytes: int
    instants: list[InstantTime]
    """The newest that wrote into it, oldest first."""
    instant_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroupDetail:
    row: FileGroupRow
    slices: list[SliceRow]
    """Newest first; the newest few of a long history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    partition: str
    file_groups: int
    bytes: int
    log_files: int
    log_bytes: int
    old_files: int
    small_files: int
    largest_bytes: int
    """Of its largest file group that is not replaced."""
    last_instant: InstantTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What table services have left to do."""

    file_groups: int
    partitions: int
    bytes: int
    log_files: int
    log_bytes: int
    file_groups_with_logs: int
    delta_commits: int
    """Since the last compaction."""
    oldest_log_at: InstantTime | None
    """When the first of those completed."""
    commits_since_clean: int
    old_files: int
    old_bytes: int
    replaced_file_groups: int
    small_files: int
    active_instants: int
    archived_instants: int
    left_out: int
    """File groups without a row of their own, because the table has too many. The figures above
    count them.
    """


def file_groups_page(
    table: Table,
    *,
    partition: str | None = None,
    search: str = "",
    order: Order = "partition",
    cursor: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[FileGroupRow]:
    """One partition's file groups, or those of all, `limit` at a time; `search` is a part of the
    file id or of the partition.

    Raises InvalidRequest for a cursor that is none.
    """
    limit = max(1, min(limit, PAGE_ROWS_MAX))
    records = FileGroupRecord.objects.filter(table=table)
    if partition is not None:
        records = records.filter(partition=partition)
    if text := search.strip()[:SEARCH_CHARS_MAX]:
        records = records.filter(Q(file_id__icontains=text) | Q(partition__icontains=text))
    keys = ("partition", "file_id") if order == "partition" else (order, "-pk")
    rows = list(_after(records, order, cursor).defer("history").order_by(*keys)[: limit + 1])
    page = rows[:limit]
    more = len(rows) > limit
    return Page([_row(record) for record in page], _cursor(page[-1], order) if more else None)


def file_group(table: Table, *, partition: str, file_id: str) -> FileGroupDetail | None:
    record = FileGroupRecord.objects.filter(
        table=table, partition=partition, file_id=file_id
    ).first()
    if record is None:
        return None
    return FileGroupDetail(row=_row(record), slices=[_slice(one) for one in record.history])


def partitions(table: Table) -> list[PartitionRow]:
    """Return the partitions by path; of more than `PARTITIONS_MAX` those with the newest writes."""
    newest = sorted(all_partitions(table), key=lambda row: row.last_instant, reverse=True)
    return sorted(newest[:PARTITIONS_MAX], key=lambda row: row.partition)


def all_partitions(table: Table) -> list[PartitionRow]:
    """Return every partition by path. Two queries."""
    counted = (
        FileGroupRecord.objects.filter(table=table)
        .order_by()
        .values("partition")
        .annotate(
            file_groups=Count("pk", filter=Q(is_replaced=False)),
            total=Sum("bytes"),
            logs=Sum("log_files"),
            logged=Sum("log_bytes"),
            old=Sum("old_files"),
            small=Count("pk", filter=_is_small()),
            largest=Max("bytes", filter=Q(is_replaced=False), default=0),
            last=Max("last_instant"),
        )
    )
    rows = {
        row["partition"]: PartitionRow(
            partition=row["partition"],
            file_groups=row["file_groups"],
            bytes=row["total"],
            log_files=row["logs"],
            log_bytes=row["logged"],
            old_files=row["old"],
            small_files=row["small"],
            largest_bytes=row["largest"],
            last_instant=row["last"],
        )
        for row in counted
    }
    for sums in LeftOutFiles.objects.filter(table=table):
        rows[sums.partition] = _add_sums(rows.get(sums.partition), sums)
    return sorted(rows.values(), key=lambda row: row.partition)


def count_left_out(table: Table) -> int:
    """Return how many file groups have no row, because the table has too many. One query."""
    counts = SyncMark.objects.filter(table=table).values_list("file_groups_left_out", flat=True)
    return counts.first() or 0


def _add_sums(row: PartitionRow | None, sums: LeftOutFiles) -> PartitionRow:
    """Return the row of a partition with the file groups that have no row."""
    others = PartitionRow(
        partition=sums.partition,
        file_groups=0 if sums.is_replaced else sums.file_groups,
        bytes=sums.bytes,
        log_files=sums.log_files,
        log_bytes=sums.log_bytes,
        old_files=sums.old_files,
        small_files=0 if sums.is_replaced else sums.small_files,
        largest_bytes=0 if sums.is_replaced else sums.largest_bytes,
        last_instant=sums.last_instant,
    )
    if row is None:
        return others
    return PartitionRow(
        partition=row.partition,
        largest_bytes=max(row.largest_bytes, others.largest_bytes),
        last_instant=max(row.last_instant, others.last_instant),
        **{name: getattr(row, name) + getattr(others, name) for name in _ADDED},
    )


_ADDED: Final = ("file_groups", "bytes", "log_files", "log_bytes", "old_files", "small_files")
_OF_GROUPS: Final = (
    "n_file_groups", "n_partitions", "n_bytes", "n_log_files", "n_log_bytes",
    "n_file_groups_with_logs", "n_old_files", "n_old_bytes", "n_replaced_file_groups",
    "n_small_files",
)  # fmt: skip


class BacklogQueries(NamedTuple):
    """What `backlog` reads first; each has one row or none."""

    groups: QuerySet[FileGroupRecord, Any]
    left_out: QuerySet[LeftOutFiles, Any]
    marks: QuerySet[InstantRecord, Any]
    mark: QuerySet[SyncMark, Any]


def backlog_queries(table: Table) -> BacklogQueries:
    """Build the queries, for a page that reads them together with others."""
    live = Q(is_replaced=False)
    # An aggregate must not be named like a column that another one reads.
    groups = FileGroupRecord.objects.filter(table=table).order_by().values("table")
    summed = groups.annotate(
        n_file_groups=Count("pk", filter=live),
        n_partitions=Count("partition", distinct=True),
        n_bytes=Sum("bytes", filter=live, default=0),
        n_log_files=Sum("log_files", filter=live, default=0),
        n_log_bytes=Sum("log_bytes", filter=live, default=0),
        n_file_groups_with_logs=Count("pk", filter=live & Q(log_files__gt=0)),
        n_old_files=Sum("old_files", default=0),
        n_old_bytes=Sum("old_bytes", default=0),
        n_replaced_file_groups=Count("pk", filter=Q(is_replaced=True)),
        n_small_files=Count("pk", filter=live & _is_small()),
    )
    has_rows = FileGroupRecord.objects.filter(table=table, partition=OuterRef("partition"))
    sums = LeftOutFiles.objects.filter(table=table).order_by().values("table")
    left_out = sums.annotate(
        n_file_groups=Sum("file_groups", filter=live, default=0),
        n_partitions=Count("partition", distinct=True, filter=~Exists(has_rows)),
        n_bytes=Sum("bytes", filter=live, default=0),
        n_log_files=Sum("log_files", filter=live, default=0),
        n_log_bytes=Sum("log_bytes", filter=live, default=0),
        n_file_groups_with_logs=Sum("file_groups_with_logs", filter=live, default=0),
        n_old_files=Sum("old_files", default=0),
        n_old_bytes=Sum("old_bytes", default=0),
        n_replaced_file_groups=Sum("file_groups", filter=Q(is_replaced=True), default=0),
        n_small_files=Sum("small_files", filter=live, default=0),
    )
    done = InstantRecord.objects.filter(table=table, state="completed").order_by().values("table")
    marks = done.annotate(
        compacted=Max("requested_at", filter=Q(action="commit")),
        cleaned=Max("requested_at", filter=Q(action="clean")),
        archived=Count("pk", filter=Q(is_archived=True)),
    )
    mark = SyncMark.objects.filter(table=table).values_list("file_groups_left_out", flat=True)
    return BacklogQueries(summed, left_out, marks, mark)


def backlog(table: Table, queries: BacklogQueries | None = None) -> Backlog:
    """Count what waits for table services. Two queries, one of them the caller's where it has read
    `queries` before.
    """
    queries = queries or backlog_queries(table)
    read_together(*queries)
    no_groups = dict.fromkeys(_OF_GROUPS, 0)
    groups: dict[str, Any] = next(iter(queries.groups), no_groups)
    others: dict[str, Any] = next(iter(queries.left_out), no_groups)
    nothing = {"compacted": None, "cleaned": None, "archived": 0}
    marks: dict[str, Any] = next(iter(queries.marks), nothing)
    since_compaction = Q(action="deltacommit", requested_at__gt=marks["compacted"] or "")
    since_clean = Q(action__in=DATA_ACTIONS, requested_at__gt=marks["cleaned"] or "")
    unmerged = since_compaction & Q(state="completed", files__gt=0)
    counts = InstantRecord.objects.filter(table=table).aggregate(
        delta_commits=Count("pk", filter=unmerged),
        oldest_log_at=Min("completed_at", filter=unmerged),
        commits_since_clean=Count("pk", filter=since_clean & Q(state="completed", files__gt=0)),
        active_instants=Count("pk", filter=Q(is_archived=False)),
    )
    return Backlog(
        **{name.removeprefix("n_"): groups[name] + others[name] for name in _OF_GROUPS},
        **counts,
        archived_instants=marks["archived"],
        left_out=next(iter(queries.mark), 0),
    )


def _is_small() -> Q:
    return Q(is_replaced=False, base_bytes__gt=0, base_bytes__lt=SMALL_FILE_BYTES)


def _row(record: FileGroupRecord) -> FileGroupRow:
    return FileGroupRow(
        partition=record.partition,
        file_id=record.file_id,
        base_instant=record.base_instant,
        base_file=record.base_file,
        base_bytes=record.base_bytes,
        log_files=record.log_files,
        log_bytes=record.log_bytes,
        bytes=record.bytes,
        log_share_pct=100 * record.log_bytes / record.bytes if record.bytes else 0.0,
        slices=record.slices,
        old_files=record.old_files,
        old_bytes=record.old_bytes,
        first_instant=record.first_instant,
        last_instant=record.last_instant,
        is_replaced=record.is_replaced,
    )


def _slice(columns: dict[str, Any]) -> SliceRow:
    return SliceRow(
        base_instant=columns["base_instant"],
        base_file=columns["base_file"],
        base_bytes=columns["base_bytes"],
        log_files=columns["log_files"],
        log_bytes=columns["log_bytes"],
        instants=columns["instants"],
        instant_count=columns["instant_count"],
    )


def _cursor(last: FileGroupRecord, order: Order) -> str:
    """Opaque, because a partition's path may hold any separator."""
    if order == "partition":
        key: list[str | int] = [order, last.partition, last.file_id]
    else:
        key = [order, int(getattr(last, order[1:])), last.pk]
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def _after(
    records: QuerySet[FileGroupRecord], order: Order, cursor: str | None
) -> QuerySet[FileGroupRecord]:
    if not cursor:
        return records
    try:
        given, value, tie = read_json(base64.urlsafe_b64decode(cursor))
    except (ValueError, TypeError) as error:
        raise InvalidRequest("invalid cursor", cursor=cursor[:64]) from error
    kind = str if order == "partition" else int
    if given != order or not isinstance(value, kind) or not isinstance(tie, kind):
        raise InvalidRequest("the cursor is from another sort order", cursor=cursor[:64])
    if order == "partition":
        return records.filter(Q(partition__gt=value) | Q(partition=value, file_id__gt=tie))
    column = order[1:]
    return records.filter(Q((f"{column}__lt", value)) | Q((column, value), ("pk__lt", tie)))
