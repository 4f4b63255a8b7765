"""One file group of a given size: `make` it with a log, or `compact` it and say what that took."""

from __future__ import annotations

import json
import resource
import shutil
import sys
import time
from pathlib import Path

import numpy as np

from bench.dataset import SCHEMA, rows
from workers.lakehouse import create_table, open_table
from workers.options.write_options import write_options
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest

_BYTES_PER_ROW = 33
_LOG_SHARE = 10
_OPTIONS = {"hoodie.write.markers.type": "direct"}


def make(table: str, megabytes: int) -> None:
    shutil.rmtree(table, ignore_errors=True)
    created = create_table(
        table,
        name="large",
        schema=SCHEMA,
        record_key=["key"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "1"},
    )
    ids = np.arange(megabytes * 1_000_000 // _BYTES_PER_ROW)
    created.write(rows(ids, seed=0), "bulk_insert", options=_OPTIONS)
    created.write(rows(ids[::_LOG_SHARE], seed=1), options=_OPTIONS)


def compact(table: str) -> dict[str, float]:
    opened = open_table(table)
    [slice_] = opened.file_groups()
    size = Path(table, slice_.base_file or "").stat().st_size
    started = time.perf_counter()
    get_service("compaction").run(opened.table, ServiceRequest(by="bench"), write_options({}))
    seconds = time.perf_counter() - started
    users = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peak_kib = max(resource.getrusage(user).ru_maxrss for user in users)
    return {"seconds": seconds, "peak_mb": peak_kib / 1024, "base_mb": size / 1e6}


if __name__ == "__main__":
    step, table, megabytes = sys.argv[1:]
    if step == "make":
        make(table, int(megabytes))
    else:
        sys.stdout.write(json.dumps(compact(table)))
