"""A table for each kind of operation, as it is right before that operation is asked for."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.support.golden import ARCHIVES, golden_archive, unpacked
from controlplane.tables.models import Table as TableRow
from tests.controlplane.lake import Lake
from workers import create_table, open_table
from workers.clock import format_instant
from workers.files.properties import load_properties, store_properties
from workers.markers.marker import markers_directory
from workers.options.write_options import write_options
from workers.table_services import registry
from workers.table_services.service import ServiceRequest

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
NEWER = OSLO | {"ts": 9}
BERGEN = {"id": "2", "ts": 2, "city": "Bergen"}
TURKU = {"id": "7", "ts": 9, "city": "Turku"}
SERVICES = tuple(one for one in registry.list_service_names() if one != "upgrade" or ARCHIVES)
"""A table of an older version comes from beside the checkout."""
Rows = list[dict[str, Any]]

_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64(), "city": pa.string()}
_SCHEMA = pa.schema(_TYPES)
_BUCKETS = "hoodie.bucket.index.num.buckets"
_OF_THE_INDEX = (_BUCKETS, "hoodie.bucket.index.hash.field", "hoodie.index.type")
_ROWS_AFTER: dict[str, Rows] = {
    "rollback": [OSLO, BERGEN],
    "delete": [NEWER],
    "delete_partition": [NEWER],
    "insert_overwrite": [TURKU],
    "insert_overwrite_table": [TURKU],
    "restore": [NEWER, BERGEN],
    "rollback_several": [OSLO, BERGEN],
    "write": [NEWER, BERGEN, TURKU],
}
"""Of what changes rows."""


@dataclass(frozen=True, slots=True)
class Prepared:
    kind: str
    newest: str
    """The instant that a rollback is to undo."""
    parameters: dict[str, str]
    """Of the service, or the source of the write."""
    rows_before: Rows
    rows_after: Rows
    """Once it is done."""


def fresh_lake(location: Path, kind: str) -> Lake:
    """A merge-on-read table, with partitions where the kind needs them; its row is in no database.

    Raises TableExists.
    """
    created = create_table(
        location,
        name=location.name,
        schema=_SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        partition_by=["city"] if kind == "delete_partition" else [],
        table_type="MERGE_ON_READ",
    )
    row = TableRow(location=str(location), slug=location.name, name=location.name)
    return Lake(created.table, row)


def prepare(lake: Lake, kind: str, folder: Path) -> Prepared:
    """Bring an empty table to where an operation of this kind has something to do. `folder` is for
    what it reads.
    """
    location = Path(lake.row.location)
    newest = ""
    if kind == "upgrade":
        _make_older(location, folder)
    else:
        newest = _commit(lake, kind)
    before = rows_of(location)
    after = _ROWS_AFTER.get(kind, before)
    parameters = _parameters(kind, newest, folder)
    return Prepared(kind, newest, parameters, before, sorted(after, key=repr))


def rows_of(location: Path) -> Rows:
    """As our reader shows them now, in an order that depends on nothing else."""
    return sorted(open_table(location).read().to_pylist(), key=repr)


def _commit(lake: Lake, kind: str) -> str:
    for _ in range(3):
        lake.commit(OSLO, BERGEN)
    newest = lake.commit(NEWER)
    if kind in ("delete_savepoint", "restore"):
        _run(lake, "savepoint")
    if kind == "restore":
        lake.commit(BERGEN | {"ts": 10})
    if kind == "rollback_several":
        return ",".join([newest, lake.commit(BERGEN | {"ts": 10}), lake.commit(TURKU)])
    if kind == "clean":
        for ts in (11, 13):
            _run(lake, "compaction")
            lake.commit(OSLO | {"ts": ts})
            lake.commit(OSLO | {"ts": ts + 1})
    if kind == "adopt":
        _forget_the_index(lake)
    if kind == "repair":
        _leave_behind(Path(lake.row.location))
    if kind == "delete_markers":
        for number in range(20):
            instant = format_instant(1_700_000_000_000 + number)
            lake.table.storage.put(f"{markers_directory(instant)}/MARKERS0", b"")
    return newest


def _run(lake: Lake, service: str) -> None:
    registry.get_service(service).run(lake.table, ServiceRequest(by="x"), write_options({}))


def _parameters(kind: str, newest: str, folder: Path) -> dict[str, str]:
    path = folder / "rows.parquet"
    pq.write_table(pa.Table.from_pylist([TURKU], schema=_SCHEMA), path)
    parameters: dict[str, dict[str, str]] = {
        "adopt": {_BUCKETS: "8"},
        "archive": {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"},
        "clean": {"hoodie.clean.commits.retained": "1"},
        "clustering": {"hoodie.clustering.plan.strategy.sort.columns": "city"},
        "delete": {"predicate": "city = 'Bergen'"},
        "delete_partition": {"partitions": "Bergen"},
        "delete_savepoint": {"instant": newest},
        "insert_overwrite": {"path": str(path)},
        "insert_overwrite_table": {"path": str(path)},
        "restore": {"instant": newest},
        "rollback_several": {"instants": newest},
        "write": {"kind": "parquet", "path": str(path)},
    }
    return parameters.get(kind, {})


def _leave_behind(location: Path) -> None:
    """What writes that were cut off long ago leave."""
    for number in range(40):
        left = location / f".sluice-tmp-{number}"
        left.write_bytes(b"half")
        os.utime(left, (0, 0))


def _forget_the_index(lake: Lake) -> None:
    """As Hudi leaves a table with a bucket index: nothing says that it has one."""
    storage = lake.table.storage
    properties = load_properties(storage)
    kept = {key: text for key, text in properties.items() if key not in _OF_THE_INDEX}
    store_properties(storage, {**kept, "hoodie.table.timeline.timezone": "LOCAL"})


def _make_older(location: Path, folder: Path) -> None:
    """A table of version 6 that Apache Hudi wrote, in the place of the empty one."""
    shutil.rmtree(location)
    shutil.copytree(unpacked(golden_archive("mor-avro-v6_trips"), folder), location)
