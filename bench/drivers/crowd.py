"""One process of a crowd: threads, each a non-blocking writer of its own, until the time is up.

    python -m bench.drivers.crowd '{"location": …, "writers": [0, 1], "seconds": 120, "rows": 1000}'

Each writer writes the same keys of its own again and again, each time with a higher `ts`. The last
line of the output is what was told of each commit.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from workers.concurrency.outcome import Committed
from workers.lakehouse import open_table

_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64(), "value": pa.int64()}
SCHEMA = pa.schema(_TYPES)


@dataclass
class Writing:
    writer: int
    commits: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    last_ts: int = 0


def keys_of(writer: int, rows: int) -> pa.StringArray:
    return pa.array([f"w{writer}-{n}" for n in range(rows)])


def rows_of(keys: pa.StringArray, writer: int, ts: int) -> pa.Table:
    columns = [keys, pa.repeat(pa.scalar(ts), len(keys)), pa.repeat(pa.scalar(writer), len(keys))]
    return pa.table(columns, schema=SCHEMA)


def main(job: dict[str, Any]) -> None:
    deadline_s = time.monotonic() + job["seconds"]  # A load, not the engine.

    def write(writer: int) -> Writing:
        table, writing = open_table(job["location"]), Writing(writer)
        keys = keys_of(writer, job["rows"])
        options = {
            "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
            "hoodie.write.markers.type": "direct",
            "sluice.writer.name": f"w{writer}",
        }
        while time.monotonic() < deadline_s:  # As above.
            ts = writing.last_ts + 1
            outcome = table.write(rows_of(keys, writer, ts), options=options)
            if isinstance(outcome, Committed):
                writing.commits.append(outcome.instant)
                writing.last_ts = ts
            else:
                writing.failures.append(repr(outcome))
        return writing

    with ThreadPoolExecutor(len(job["writers"])) as pool:
        writings = [one.__dict__ for one in pool.map(write, job["writers"])]
    sys.stdout.write(f"\n{json.dumps(writings)}\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
