"""The process that reads rows of one table: `python -m controlplane.rows.child`.

It is bounded as `workers.bounded_process` says. Masked columns are compared with nothing, filtered
by nothing, and leave this process as the mark.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any, Final

import pyarrow as pa

from controlplane.rows.jobs import GROUPS, GROUPS_MAX, KEY, NULLS, PARTITION, ROW_MARKS, TYPES
from controlplane.tables.masks import MASK, masked_rows, masks_part
from workers.bounded_process import cut_rows, failure, peak_bytes, say, take_limits
from workers.errors import (
    InvalidInput,
    LakehouseError,
    SnapshotChanged,
    SnapshotExpired,
    StorageFailed,
)
from workers.ports import system_ports
from workers.read.differences import (
    AFTER,
    BEFORE,
    CHANGED,
    DifferencePlan,
    difference_schema,
    image_type,
    of_group,
    one_image,
    plan_commit,
    plan_moments,
    read_commit,
    unit_differences,
)
from workers.read.explained import plan_lines
from workers.read.null_counts import count_nulls
from workers.read.request import moment
from workers.read.row_history import RowHistory, row_history
from workers.read.scan import Scan
from workers.read.scan_plan import plan_scan
from workers.read.sorted_rows import RowOrder, check_order, first_rows
from workers.schema.table_schema import TableSchema
from workers.storage.opener import open_storage
from workers.table.table import Table, open_
from workers.timeline.metadata import STREAM_COLUMNS_KEY, CommitMetadata

_BATCH_ROWS: Final = 500
_DIGEST_CHARS: Final = 16
_READING_SHARE: Final = 0.7
"""Of the time: after that a history begins no further read, and says so."""
_SLICES: Final = pa.schema(
    (
        ("partition", pa.string()),
        ("file_id", pa.string()),
        ("left_out_by", pa.string()),
        ("groups_read", pa.int64()),
        ("groups", pa.int64()),
        ("logs", pa.int64()),
        ("bytes", pa.int64()),
    )
)
_Answer = tuple[dict[str, Any], pa.Table]


class _Refused(Exception):
    """What is asked does not fit; `head` says which field, and why."""

    def __init__(self, field: str, error: InvalidInput) -> None:
        values = {name: str(given)[:200] for name, given in error.values.items()}
        self.head = {"failed": "refused", "field": field, "why": error.message, "values": values}
        super().__init__(error.message)


class _Masked(Exception):
    """A masked column is filtered by."""

    def __init__(self, column: str) -> None:
        self.head = {"failed": "masked", "column": column}
        super().__init__(column)


def main() -> None:
    """Read what the job asks for and say what came of it; never an exit code but 0 of its own."""
    job = json.load(sys.stdin)
    take_limits(job)
    try:
        table = open_(open_storage(job["location"]), system_ports())
        head, rows = READERS[job["kind"]](table, job)
        say({**head, "peak_bytes": peak_bytes()}, rows)
    except (_Refused, _Masked) as refusal:
        say(refusal.head)
    except MemoryError:
        say({"failed": "memory"})
    except (SnapshotExpired, SnapshotChanged) as error:
        say({"failed": "gone", "why": error.message})
    except StorageFailed:
        say({"failed": "storage"})
    except (LakehouseError, pa.ArrowException, ValueError, KeyError) as error:
        say(failure(error))
    os._exit(0)


def _scan(table: Table, job: Mapping[str, Any]) -> _Answer:
    masked = frozenset(job["masked"])
    scan = _planned_scan(table, job)
    _check_filter(scan, masked)
    batches: Iterable[pa.RecordBatch] = scan.to_batches()
    hidden: tuple[str, ...] = ()
    if (order := _order(job)) is not None:
        if masks_part(order.column, masked):
            raise _Masked(order.column)
        scan, batches, hidden = _in_order(scan, order, job)
    schema = masked_rows(scan.schema.empty_table().drop_columns(list(hidden)), masked).schema
    reader = pa.RecordBatchReader.from_batches(
        schema,
        (
            part
            for batch in batches
            for part in masked_rows(
                pa.Table.from_batches([batch]).drop_columns(list(hidden)), masked
            ).to_batches(max_chunksize=_BATCH_ROWS)
        ),
    )
    place = _place(scan, job)
    reader = _behind(reader, job["after"])
    answer = cut_rows(reader, rows_max=job["rows_max"], bytes_max=job["answer_bytes"])
    head = {
        **place,
        "cut_by": answer.cut_by,
        "slices_read": len(scan.slices),
        "slices": len(scan.planned),
    }
    return head, _with_types(answer.rows, scan.table_schema)


def _check_filter(scan: Scan, masked: frozenset[str]) -> None:
    if scan.predicate is not None:
        for column in sorted(scan.predicate.columns or ()):
            if masks_part(column, masked):
                raise _Masked(column)


def _order(job: Mapping[str, Any]) -> RowOrder | None:
    return RowOrder(job["order_by"], job["descending"]) if job["order_by"] else None


def _in_order(
    scan: Scan, order: RowOrder, job: Mapping[str, Any]
) -> tuple[Scan, Iterable[pa.RecordBatch], tuple[str, ...]]:
    """Return the scan without its limit, its first rows in this order, and the columns that are
    read for the order alone.
    """
    hidden = () if order.column in scan.columns else (order.column,)
    whole = replace(scan, limit=None, threads=1, columns=(*scan.columns, *hidden))
    try:
        check_order(order, scan.table_schema.arrow)
    except InvalidInput as error:
        raise _Refused("order_by", error) from error
    rows = first_rows(whole.to_batches(), whole.schema, order, job["after"] + job["rows_max"] + 1)
    return whole, rows.to_batches(), hidden


def _place(scan: Scan, job: Mapping[str, Any]) -> dict[str, Any]:
    """What the next page needs to go on behind this one. Raises SnapshotChanged where this one
    cannot go on behind the page before it.
    """
    order = [f"{job['order_by']} {job['descending']}"] if job["order_by"] else []
    chosen = [job["where"] or "", *order, *(path for one in scan.slices for path in one.files)]
    files = sha256("\n".join(chosen).encode()).hexdigest()[:_DIGEST_CHARS]
    if job["files"] not in (None, files):
        raise SnapshotChanged("the files of these rows were replaced: start at the first page")
    newest = max((done.completed_at for done in scan.timeline.list_completed_writes()), default="")
    as_of = job["as_of"]
    return {"moment": moment(as_of) if as_of else newest, "newest": newest, "files": files}


def _behind(reader: pa.RecordBatchReader, rows: int) -> pa.RecordBatchReader:
    """The reader without its first rows."""

    def batches() -> Iterator[pa.RecordBatch]:
        left = rows
        for batch in reader:
            if left < batch.num_rows:
                yield batch.slice(left)
            left = max(0, left - batch.num_rows)

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def _planned_scan(table: Table, job: Mapping[str, Any]) -> Scan:
    as_of, columns = job["as_of"], job["columns"]
    if as_of is not None:
        try:
            as_of = moment(as_of)
        except InvalidInput as error:
            raise _Refused("as_of", error) from error
    limit = job["after"] + job["rows_max"] + 1
    named = None if columns is None else _with_marks(columns)
    try:
        scan = plan_scan(table, columns=named, where=job["where"], limit=limit, as_of=as_of)
        return scan if named else replace(scan, columns=_with_marks(scan.columns))
    except InvalidInput as error:
        is_column = error.message == "table has no such column"
        raise _Refused("columns" if is_column else "where", error) from error


def _with_marks(columns: Iterable[str]) -> tuple[str, ...]:
    return (*ROW_MARKS, *(name for name in columns if name not in ROW_MARKS))


def _plan(table: Table, job: Mapping[str, Any]) -> _Answer:
    """Return the file slices that a read with this filter opens, and the columns' null counts."""
    masked = frozenset(job["masked"])
    scan = _planned_scan(table, {**job, "columns": None, "after": 0})
    _check_filter(scan, masked)
    lines = plan_lines(scan)
    counts = count_nulls(
        table.storage,
        scan.table_schema.arrow,
        [slice_ for planned in scan.planned for slice_ in planned.slices],
    )
    head = {
        "slices": len(lines),
        "slices_read": sum(line.is_read for line in lines),
        "bytes": sum(line.bytes for line in lines),
        "left_out": dict(Counter(line.left_out_by for line in lines if line.left_out_by)),
        "rows": counts.rows,
        "files_read": counts.files_read,
        "files": counts.files,
        "log_files": counts.log_files,
    }
    listed = sorted(lines, key=lambda line: not line.is_read)[: job["rows_max"]]
    rows = pa.Table.from_pylist([asdict(line) for line in listed], schema=_SLICES)
    nulls = {
        name: None if masks_part(name, masked) else count for name, count in counts.nulls.items()
    }
    metadata = {
        TYPES: scan.table_schema.arrow.serialize().to_pybytes(),
        NULLS: json.dumps(nulls).encode(),
    }
    return head, rows.replace_schema_metadata(metadata)


def _history(table: Table, job: Mapping[str, Any]) -> _Answer:
    masked = frozenset(job["masked"])
    ends_at_s = time.monotonic() + job["wall_s"] * _READING_SHARE
    try:
        history = row_history(
            table,
            job["key"],
            partition=job["partition"],
            compared=_seen(masked),
            versions_max=job["rows_max"],
            may_go_on=lambda: time.monotonic() < ends_at_s,
        )
    except InvalidInput as error:
        raise _Refused("key", error) from error
    rows = _masked_images(_versions(history), masked)
    answer = cut_rows(rows.to_reader(1), rows_max=job["rows_max"], bytes_max=job["answer_bytes"])
    head = {"cut_by": answer.cut_by or history.cut_by}
    return head, _with_types(answer.rows, history.schema)


def _versions(history: RowHistory) -> pa.Table:
    image = image_type(history.schema)
    empty = history.schema.arrow.empty_table()
    text = pa.string()
    rows = [
        pa.table(
            [
                pa.array([version.instant], text),
                pa.array([version.completed_at], text),
                pa.array([version.partition], text),
                *(
                    one_image(empty if side is None else side, history.schema)
                    for side in (version.before, version.after)
                ),
                pa.array([list(version.changed)], pa.list_(text)),
                pa.array([version.knows_before]),
            ],
            schema=pa.schema(
                [
                    ("instant", text),
                    ("completed_at", text),
                    ("partition", text),
                    (BEFORE, image),
                    (AFTER, image),
                    (CHANGED, pa.list_(text)),
                    ("knows_before", pa.bool_()),
                ]
            ),
        )
        for version in history.versions
    ]
    return pa.concat_tables(rows) if rows else pa.table({})


def _commit(table: Table, job: Mapping[str, Any]) -> _Answer:
    try:
        _, metadata = read_commit(table, job["instant"])
        plan = plan_commit(table, job["instant"])
    except InvalidInput as error:
        raise _Refused("instant", error) from error
    if job["file_id"]:
        plan = of_group(plan, (job["partition"], job["file_id"]))
    head, rows = _differences(plan, job)
    groups = _groups(metadata)
    head |= {
        "group_count": len(groups),
        "counts": {
            name: sum(group[name] for group in groups) for name in ("inserts", "updates", "deletes")
        },
    }
    names = metadata.extra_metadata.get(STREAM_COLUMNS_KEY, "")
    facts = {
        "groups": groups[:GROUPS_MAX],
        "stream_columns": [name for name in names.split(",") if name],
    }
    return head, rows.replace_schema_metadata(
        {**(rows.schema.metadata or {}), GROUPS: json.dumps(facts).encode()}
    )


def _groups(metadata: CommitMetadata) -> list[dict[str, Any]]:
    """File groups of a commit with what its writer counted, the most rows first."""
    by_key: dict[tuple[str, str], dict[str, Any]] = {}
    for stat in metadata.stats:
        group = by_key.setdefault(
            (stat.partition_path, stat.file_id),
            {"inserts": 0, "updates": 0, "deletes": 0, "bytes": 0, "is_replaced": False},
        )
        group["inserts"] += stat.num_inserts
        group["updates"] += stat.num_updates
        group["deletes"] += stat.num_deletes
        group["bytes"] += stat.bytes
    for key in metadata.replaced_groups:
        none = {"inserts": 0, "updates": 0, "deletes": 0, "bytes": 0}
        by_key.setdefault(key, none)["is_replaced"] = True
    groups = [
        {"partition": partition, "file_id": file_id, **facts}
        for (partition, file_id), facts in by_key.items()
    ]
    return sorted(
        groups,
        key=lambda group: (
            -(group["inserts"] + group["updates"] + group["deletes"]),
            group["partition"],
            group["file_id"],
        ),
    )


def _moments(table: Table, job: Mapping[str, Any]) -> _Answer:
    times = {}
    for name in ("earlier", "later"):
        try:
            times[name] = moment(job[name])
        except InvalidInput as error:
            raise _Refused(name, error) from error
    try:
        plan = plan_moments(table, times["earlier"], times["later"])
    except InvalidInput as error:
        raise _Refused("later", error) from error
    return _differences(plan, job)


def _differences(plan: DifferencePlan, job: Mapping[str, Any]) -> _Answer:
    masked = frozenset(job["masked"])
    compared = frozenset(filter(_seen(masked), plan.columns))
    left, is_whole = job["rows_max"], True
    parts = [difference_schema(plan.schema).empty_table()]
    for unit in plan.units:
        if not left:
            is_whole = False
            break
        differing = unit_differences(plan, unit, compared, left)
        parts.append(differing.rows)
        left -= differing.rows.num_rows
        is_whole = is_whole and differing.is_whole
    rows = _masked_images(pa.concat_tables(parts), masked)
    answer = cut_rows(
        rows.to_reader(_BATCH_ROWS), rows_max=job["rows_max"], bytes_max=job["answer_bytes"]
    )
    cut_by = answer.cut_by or ("" if is_whole else "rows")
    return {"cut_by": cut_by}, _with_types(answer.rows, plan.schema)


def _seen(masked: frozenset[str]) -> Callable[[str], bool]:
    """A difference in a masked column would say something of its values."""
    return lambda column: not masks_part(column, masked)


def _masked_images(rows: pa.Table, masked: frozenset[str]) -> pa.Table:
    if not masked or not rows.num_columns:
        return rows
    for at, name in enumerate(rows.column_names):
        column = pa.concat_arrays(rows.column(name).chunks) if rows.num_rows else None
        if name in (BEFORE, AFTER) and isinstance(column, pa.StructArray):
            fields = [field.name for field in column.type]
            flat = masked_rows(pa.table(column.flatten(), names=fields), masked)
            images = pa.StructArray.from_arrays(
                [pa.concat_arrays(one.chunks) for one in flat.columns],
                names=fields,
                mask=column.is_null(),
            )
            rows = rows.set_column(at, name, images)
        elif column is not None and _is_masked_mark(name, masked):
            rows = rows.set_column(at, name, pa.repeat(pa.scalar(MASK), rows.num_rows))
    return rows


def _is_masked_mark(name: str, masked: frozenset[str]) -> bool:
    mark = {"key": KEY, "partition": PARTITION}.get(name)
    return mark is not None and masks_part(mark, masked)


def _with_types(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """With the columns' types in the answer: those of masked columns are not what they hold."""
    return rows.replace_schema_metadata({TYPES: schema.arrow.serialize().to_pybytes()})


READERS: Mapping[str, Callable[[Table, Mapping[str, Any]], _Answer]] = {
    "scan": _scan,
    "plan": _plan,
    "history": _history,
    "commit": _commit,
    "moments": _moments,
}


if __name__ == "__main__":
    main()
