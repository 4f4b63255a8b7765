"""Writers of wide tables without Spark: one process is one stream, or rewrites whole rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench.drivers.serving import Job, serve
from bench.wide_rows import (
    GROUPS,
    HUNDRED,
    NARROW,
    SCHEMA,
    Versions,
    hundred_rows,
)
from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.options.group_keys import GROUPS_KEY
from workers.options.write_options import write_options
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest

_MODE: Final = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.markers.type": "direct",
}


def created(
    location: str,
    *,
    buckets: int,
    schema: pa.Schema = SCHEMA,
    groups: Sequence[Mapping[str, Any]] = GROUPS,
    ordering: Sequence[str] = (),
) -> LakehouseTable:
    shutil.rmtree(location, ignore_errors=True)
    options = {"hoodie.bucket.index.num.buckets": str(buckets)}
    if groups:
        options[GROUPS_KEY] = json.dumps(list(groups))
    return create_table(
        location,
        name="wide",
        schema=schema,
        record_key=["key"],
        ordering=ordering,
        table_type="MERGE_ON_READ",
        options=options,
    )


def written(table: LakehouseTable, writer: str, rows: Any) -> None:
    outcome = table.write(rows, options={**_MODE, "sluice.writer.name": writer})
    assert isinstance(outcome, Committed), outcome


def compact(location: str) -> None:
    request = ServiceRequest(by="bench", parameters={})
    done = get_service("compaction").run(open_table(location).table, request, write_options({}))
    assert done.instant is not None, "there was nothing to compact"


class Stream:
    """Rows are drawn before the clock starts."""

    def __init__(self) -> None:
        self._batches: list[pa.Table] = []

    def draw(self, stream: str, batches: int, rows: int, keys: int) -> None:
        drawn = [Versions.drawn(stream, n, keys=keys, count=rows) for n in range(batches)]
        self._batches = [one.table(stream) for one in drawn]

    def write(self, table: str, stream: str) -> int:
        opened = open_table(table)
        for batch in self._batches:
            written(opened, stream, batch)
        return len(self._batches)


class Hundred:
    """The same update of a hundred columns' table, three columns of it or all."""

    def __init__(self) -> None:
        self._rows: pa.Table = pa.table({})

    def create(self, folder: str, keys: int) -> None:
        base = hundred_rows(np.arange(keys), 0)
        for name, groups in (("narrow", [NARROW]), ("whole", [])):
            ordering = [] if groups else ["ts"]
            table = created(
                f"{folder}/{name}", buckets=2, schema=HUNDRED, groups=groups, ordering=ordering
            )
            written(table, "base", base)

    def draw(self, keys: int, count: int, number: int) -> None:
        ids = np.random.default_rng(number).choice(keys, size=count, replace=False)
        self._rows = hundred_rows(ids, number)

    def narrow(self, folder: str) -> int:
        columns = ["key", *NARROW["ordering"], *NARROW["columns"]]
        return self._grown(f"{folder}/narrow", self._rows.select(columns))

    def whole(self, folder: str) -> int:
        return self._grown(f"{folder}/whole", self._rows)

    def _grown(self, location: str, rows: pa.Table) -> int:
        """Bytes that the write added to the data files."""
        before = _data_bytes(location)
        written(open_table(location), "update", rows)
        return _data_bytes(location) - before


def _data_bytes(location: str) -> int:
    paths = (path for path in Path(location).rglob("*") if ".hoodie" not in path.parts)
    return sum(path.stat().st_size for path in paths if path.is_file())


def create(table: str, buckets: int) -> None:
    created(table, buckets=buckets)


def content(table: str) -> list[Any]:
    """Rows, and the sum of all event times."""
    rows = open_table(table).read()
    ages = [name for name in rows.column_names if name.startswith("ts_")]
    sums: list[Any] = [pa.compute.sum(rows.column(name)).as_py() for name in ages]
    return [rows.num_rows, *sums]


def jobs() -> dict[str, Job]:
    stream, hundred = Stream(), Hundred()
    return {
        "create": create,
        "draw": stream.draw,
        "write": stream.write,
        "content": content,
        "hundred_create": hundred.create,
        "hundred_draw": hundred.draw,
        "hundred_narrow": hundred.narrow,
        "hundred_whole": hundred.whole,
    }


if __name__ == "__main__":
    serve(jobs)
